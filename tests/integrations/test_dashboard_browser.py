"""The dashboard in a real browser, headless: open, move ε, spend, see it, reload without spending.

Needs Chromium and its driver on the PATH, as Debian's chromium and chromium-driver bring them.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("streamlit", reason="the dashboard's extra is not installed")
pytest.importorskip("selenium", reason="the dashboard's extra for tests is not installed")

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from tests.integrations.dashboard import kinds

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
DRIVER = shutil.which("chromedriver")
APP = Path(__file__).parents[2] / "examples" / "dashboard" / "app.py"
PATIENCE = 60
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--window-size=1280,1180",
)  # fmt: skip
SAID = "return document.body.innerText"
CHART = "document.querySelector('[data-testid=stVegaLiteChart]')"
DRAWN = f"return [...{CHART}.querySelectorAll('.role-mark text')].map(text => text.textContent)"
CORNER = f"const box = {CHART}.getBoundingClientRect(); return [box.right, box.bottom]"
LOADED = "return performance.getEntriesByType('resource').map(entry => entry.name)"

pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None, reason="chromium and chromedriver are not on the PATH"
)


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy of the example: a folder that is named has to hold its data and its policy."""
    return Path(shutil.copytree(made, tmp_path / "example"))


@pytest.fixture
def page(folder: Path, tmp_path: Path) -> Iterator[str]:
    """The address of a server of its own, started as the README says."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", str(APP), f"--server.port={port}"]
    environment = {**os.environ, "DP_DASHBOARD_FOLDER": str(folder)}
    with (tmp_path / "server.log").open("w") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            wait_for(f"http://localhost:{port}/_stcore/health", server)
            yield f"http://localhost:{port}/"
        finally:
            server.terminate()
            server.wait(PATIENCE)
    assert "Traceback" not in (tmp_path / "server.log").read_text("utf-8")


def wait_for(address: str, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and server.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise AssertionError("the server did not start")


@pytest.fixture
def opened(page: str, tmp_path: Path) -> Iterator[Callable[[], webdriver.Chrome]]:
    """A browser with an empty profile that shows the page."""
    browsers: list[webdriver.Chrome] = []

    def open_one() -> webdriver.Chrome:
        options = webdriver.ChromeOptions()
        options.binary_location = str(CHROMIUM)
        for flag in (*FLAGS, f"--user-data-dir={tmp_path / f'profile {len(browsers)}'}"):
            options.add_argument(flag)
        service = webdriver.ChromeService(str(DRIVER))
        browsers.append(webdriver.Chrome(options=options, service=service))
        browsers[-1].get(page)
        return browsers[-1]

    yield open_one
    for browser in browsers:
        browser.quit()


def sees(browser: webdriver.Chrome, *texts: str) -> bool:
    """Whether the page comes to say all of this."""

    def all_said(browser: webdriver.Chrome) -> bool:
        said = browser.execute_script(SAID)
        return all(text in said for text in texts)

    return WebDriverWait(browser, PATIENCE).until(all_said)


def ask_button(browser: webdriver.Chrome) -> WebElement:
    found = "//button[starts-with(normalize-space(.), 'Ask, for')]"
    return WebDriverWait(browser, PATIENCE).until(lambda b: b.find_element(By.XPATH, found))


def press(browser: webdriver.Chrome, keys: str) -> None:
    """Move ε: Streamlit hides the input of its slider, which still takes the focus."""
    found = (By.CSS_SELECTOR, "[data-testid=stSlider] input[type=range]")
    slider = WebDriverWait(browser, PATIENCE).until(lambda b: b.find_element(*found))
    browser.execute_script("arguments[0].focus()", slider)
    ActionChains(browser).send_keys(keys).perform()


def books_drawn(browser: webdriver.Chrome) -> list[str]:
    """The titles in the picture, and then their counts."""
    assert sees(browser, "The lines show where the true numbers are", "A Doll's House")
    WebDriverWait(browser, PATIENCE).until(lambda b: b.execute_script(f"return {CHART} !== null"))
    return [str(text) for text in browser.execute_script(DRAWN)]


def is_above_the_fold(browser: webdriver.Chrome, width: int, height: int) -> bool:
    """Whether a screen of this size shows the whole picture of the answer without scrolling."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.refresh()
    assert books_drawn(browser)
    right, bottom = browser.execute_script(CORNER)
    return bool(0 < right <= width and 0 < bottom <= height)


def test_a_browser_opens_moves_epsilon_spends_sees_the_budget_move_and_reloads_for_nothing(
    opened: Callable[[], webdriver.Chrome], folder: Path, page: str
) -> None:
    browser = opened()
    assert sees(browser, "Costs ε 0.25 · ε 3.75 left afterwards", "within ± 136 people")
    press(browser, Keys.ARROW_RIGHT * 5)
    assert sees(browser, "Costs ε 0.3 · ε 3.7 left afterwards", "within ± 113 people")
    assert sees(browser, "Yours (reporting): ε 4 of 4 left") and kinds(folder) == []

    ActionChains(browser).double_click(ask_button(browser)).perform()
    assert sees(browser, "Yours (reporting): ε 3.7 of 4 left", "All analysts together: ε 4.7 of 5")
    assert sees(browser, "looking is free", "dp_topk(title, 10) from ratings")
    assert kinds(folder) == ["reserved", "answered"]

    before = books_drawn(browser)
    assert len(before) == 20 and len({*before[:10]}) == 10
    browser.refresh()
    assert sees(browser, "looking is free", "Yours (reporting): ε 3.7 of 4 left")
    assert "epsilon=0.3" in browser.current_url
    assert books_drawn(browser) == before

    another = opened()
    another.get(f"{page}?epsilon=0.3")
    assert sees(another, "looking is free", "Yours (reporting): ε 3.7 of 4 left")
    assert is_above_the_fold(another, 390, 844)
    assert kinds(folder) == ["reserved", "answered"]
    loaded = browser.execute_script(LOADED)
    assert [name for name in loaded if not name.startswith((page, "data:", "blob:"))] == []


@pytest.mark.slow
def test_browsers_that_come_first_at_the_same_time_are_all_served(
    opened: Callable[[], webdriver.Chrome], page: str
) -> None:
    browser = opened()
    for _ in range(3):
        browser.execute_script("window.open(arguments[0], '_blank')", page)
    for window in browser.window_handles:
        browser.switch_to.window(window)
        assert sees(browser, "Costs ε 0.25", "ε left")


@pytest.mark.slow
def test_a_browser_is_helped_where_the_policy_allows_less(
    opened: Callable[[], webdriver.Chrome], folder: Path
) -> None:
    browser = opened()
    assert sees(browser, "Costs ε")
    press(browser, Keys.END)
    assert sees(browser, "more than the policy allows: at most 1. The largest ε that fits is 1.")
    browser.find_element(By.XPATH, "//button[contains(., 'Take ε = 1')]").click()
    assert sees(browser, "Costs ε 1 · ε 3 left afterwards")
    assert ask_button(browser).is_enabled() and kinds(folder) == []
