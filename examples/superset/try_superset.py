"""Apache Superset over dp_sql, for real: a connection, six charts, refreshes, and what it cost.

    make superset

Makes a reading log with a policy, starts Superset beside it in a temporary folder, builds a
dashboard by Superset's own interface, refreshes each chart three times, and reads in the ledger how
often it was charged. With --keep each query is charged once.
With --picture FOLDER it opens the dashboard, and a chart in the chart builder, in headless Chromium
and takes pictures, superset.png and superset_chart.png. The exit code
is 1 where something costs more than it should, a private row can be read, or a connection is made
without a policy.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import requests
from superset_api import Api

import dp_sql

READING_LOG = """
CREATE TABLE catalog AS SELECT 'Book ' || chr(64 + i::INTEGER) AS title FROM range(1, 21) AS r(i);
CREATE TABLE calendar AS SELECT CAST(range AS DATE) AS day
    FROM range(DATE '2025-01-01', DATE '2026-01-01', INTERVAL 1 DAY);
CREATE TABLE ratings AS
    SELECT p AS user_id,
           ['north', 'south', 'east', 'west'][1 + sqrt(p % 16)::INTEGER % 4] AS region,
           'Book ' || chr(64 + b::INTEGER) AS title,
           DATE '2025-01-01' + (hash(p * 29 + b) % 365 * 0.6 + p % 147)::INTEGER AS day,
           (10 + hash(p * 37 + b) % 90)::USMALLINT AS minutes
    FROM range(4000) AS people(p), range(1, 21) AS books(b) WHERE hash(p * 31 + b) % 20 >= b;
"""
POLICY = """
[tables.ratings]
privacy_unit = "user_id"
unique_per_person = ["region"]
[public]
tables = ["catalog", "calendar"]
[domains]
"ratings.title" = "catalog.title"
"ratings.day" = "calendar.day"
"ratings.region" = ["north", "south", "east", "west"]
[budget]
dataset = "reading log"
epsilon = 30
keep_releases = {keep}
[budget.analysts.superset]
epsilon = 24
"""
BEST = """SELECT generate_subscripts(best, 1) AS rank, unnest(best) AS title
FROM (SELECT DP_TOPK(title, 5, epsilon := 1) AS best FROM ratings)"""
READERS = """SELECT region, n.estimate AS readers, n.lower_bound AS at_least FROM
(SELECT region, DP_COUNT_DISTINCT(user_id, epsilon := 0.1, report := true) AS n
FROM ratings GROUP BY region)"""
METRICS = {
    "readings": "DP_COUNT(*, epsilon := 1)",
    "minutes read": "DP_SUM(minutes, epsilon := 1)",
}
N_QUESTIONS = 5
BUDGET = "SELECT analyst, loss, spent, remaining, total FROM dp_budget()"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--keep", action="store_true", help="keep_releases = true in the policy")
    parser.add_argument("--picture", type=Path, help="a folder for pictures of it")
    said = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        with duckdb.connect(str(folder / "shop.duckdb")) as con:
            con.execute(READING_LOG)
        policy = POLICY.replace("reading log", "reading-log").format(keep=str(said.keep).lower())
        (folder / "policy.toml").write_text(policy)
        with superset(folder) as (api, password):
            dashboard, chart = build(api, folder)
            if said.picture and not (shutil.which("chromium") and shutil.which("chromedriver")):
                print("  no picture: chromium and chromedriver are not here")
            elif said.picture:
                pages = {
                    "superset.png": f"superset/dashboard/{dashboard}/?standalone=1",
                    "superset_chart.png": f"explore/?slice_id={chart}",
                }
                take_pictures(api.base, password, pages, said.picture)
                print(f"  the dashboard and a chart in Chromium: {', '.join(pages)}")
        cost = debits(folder)
    print(f"{cost} debits in all, with keep_releases = {str(said.keep).lower()}")
    if said.keep and cost != N_QUESTIONS:
        sys.exit(f"{N_QUESTIONS} questions should be as many debits.")


def build(api: Api, folder: Path) -> tuple[int, int]:
    """A connection, datasets, charts and a dashboard; says at each step what it has cost.

    Returns the numbers of the dashboard and of a chart that the chart builder makes.
    """

    def report(step: str) -> None:
        print(f"  {debits(folder):2} debits after {step}", flush=True)

    uri = f"dpsql:///{folder}/shop.duckdb?policy={folder}/policy.toml&analyst=superset"
    without = (f"policy={folder}/policy.toml", "policy="), ("analyst=superset", "analyst=")
    if not api.connects(uri) or any(api.connects(uri.replace(*left_out)) for left_out in without):
        sys.exit("A connection is tested with a policy and an analyst, and refused without.")
    database = api.post("database/", database_name="Reading log", sqlalchemy_uri=uri)["id"]
    seen = api.get(f"database/{database}/tables/?q=(schema_name:main)")["result"]
    report(f"connecting and listing the tables: {', '.join(table['value'] for table in seen)}")
    charts: list[tuple[int, str]] = []

    def chart(title: str, dataset: int, form: dict[str, Any]) -> None:
        charts.append((api.chart(title, dataset, form), title))
        before = debits(folder)
        for _ in range(3):
            answer = api.get(f"chart/{charts[-1][0]}/data/?force=true")["result"][0]["data"]
        report(f"three refreshes of “{title}”; the last: {answer[:5]}")
        if debits(folder) - before not in {0, 1, 3}:
            sys.exit("One refresh should ask once.")

    # The chart builder over a private table, with DP functions as metrics
    ratings = api.post("dataset/", database=database, schema="main", table_name="ratings")["id"]
    metrics = [{"metric_name": name, "expression": sql} for name, sql in METRICS.items()]
    api.put(f"dataset/{ratings}", metrics=metrics)
    report("making a dataset of the table ratings")
    chart("Readings per month", ratings, axis("echarts_timeseries_line", "day", "readings"))
    chart("Readings by region", ratings, axis("echarts_timeseries_bar", "region", "readings"))
    chart("Minutes by region", ratings, axis("echarts_timeseries_bar", "region", "minutes read"))
    for title, sql, form in (
        ("The five most read", BEST, table("rank", "title")),
        ("Readers by region", READERS, table("region", "readers", "at_least")),
        ("The budget", BUDGET, table("analyst", "loss", "spent", "remaining")),
    ):
        dataset = api.post("dataset/", database=database, schema="main", table_name=title, sql=sql)
        report(f"making the dataset “{title}”")
        chart(title, dataset["id"], form)
    reading = ("SHOW TABLES", "DESCRIBE ratings", "SELECT * FROM ratings")
    for text in (READERS, f"EXPLAIN {READERS}", *reading):
        answer = api.ask(database, text)
        report(f"{text} in SQL Lab: {answer[:70]}")
    if "only through DP functions" not in answer:
        sys.exit("A private table can be read.")
    return api.dashboard("Reading log", charts), charts[0][0]


def axis(kind: str, column: str, metric: str) -> dict[str, Any]:
    """A line or bar chart of a metric; a column of days is grouped by month."""
    x = {"columnType": "BASE_AXIS", "expressionType": "SQL", "sqlExpression": column}
    grain = {"time_grain_sqla": "P1M"} if column == "day" else {}
    if grain:
        x["timeGrain"] = "P1M"
    query = {"columns": [{**x, "label": column}], "metrics": [metric], "extras": grain}
    form = {"viz_type": kind, "x_axis": column, "metrics": [metric], "show_legend": False, **grain}
    return {**form, "row_limit": 100, "query": query}


def table(*columns: str) -> dict[str, Any]:
    """A table chart that shows rows as they are, the first column upwards."""
    return {
        "viz_type": "table",
        "query_mode": "raw",
        "all_columns": list(columns),
        "order_by_cols": [json.dumps([columns[0], True])],
        "row_limit": 100,
        "show_cell_bars": False,  # a rank is not a quantity
        "query": {"columns": list(columns), "orderby": [[columns[0], True]], "metrics": []},
    }


@contextlib.contextmanager
def superset(folder: Path) -> Iterator[tuple[Api, str]]:
    """A Superset of its own, on a free port of this machine, until the block ends."""
    config = Path(__file__).with_name("superset_config.py")
    env = {**os.environ, "SUPERSET_HOME": str(folder / "superset"), "FLASK_APP": "superset"}
    env |= {"SUPERSET_CONFIG_PATH": str(config)}
    command = [str(Path(sys.executable).with_name("superset"))]
    password = secrets.token_urlsafe(12)
    account = ["--username", "admin", "--password", password, "--email", "admin@example.org"]
    names = ["--firstname", "Ad", "--lastname", "Min"]
    with open(folder / "superset.log", "w") as log:
        for step in (["db", "upgrade"], ["fab", "create-admin", *account, *names], ["init"]):
            print(f"superset {' '.join(step[:2])} …", flush=True)
            done = subprocess.run([*command, *step], env=env, stdout=log, stderr=log, check=False)
            if done.returncode:
                sys.exit((folder / "superset.log").read_text()[-2000:])
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        run = [*command, "run", "-h", "127.0.0.1", "-p", str(port), "--with-threads"]
        with subprocess.Popen(run, env=env, stdout=log, stderr=log) as server:
            try:
                yield Api(answering(f"http://127.0.0.1:{port}"), password), password
            finally:
                server.terminate()


def answering(base: str) -> str:
    """The same address, once Superset answers there."""
    for _ in range(120):
        with contextlib.suppress(requests.ConnectionError):
            if requests.get(f"{base}/health", timeout=5).ok:
                return base
        time.sleep(0.5)
    sys.exit("Superset does not answer.")


def debits(folder: Path) -> int:
    """How often the ledger was charged."""
    shop, policy = str(folder / "shop.duckdb"), folder / "policy.toml"
    with dp_sql.connect(shop, policy=policy, analyst="superset") as session:
        (row,) = session.sql("SELECT count(*) FROM dp_ledger() WHERE kind = 'spent'").fetchall()
    return int(row[0])


def take_pictures(base: str, password: str, pages: dict[str, str], folder: Path) -> None:
    """Open pages in headless Chromium, logged in, and keep what they show."""
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    options = webdriver.ChromeOptions()
    for option in ("--headless=new", "--no-sandbox", "--window-size=1400,1000"):
        options.add_argument(option)
    # With both named, selenium looks for nothing outside of this machine.
    options.binary_location = shutil.which("chromium") or ""
    service = webdriver.ChromeService(executable_path=shutil.which("chromedriver"))
    browser = webdriver.Chrome(options=options, service=service)
    try:
        browser.get(f"{base}/login/")
        waiting = WebDriverWait(browser, 60)
        waiting.until(lambda page: page.find_elements(By.CSS_SELECTOR, "input[type=password]"))
        fields = browser.find_elements(By.CSS_SELECTOR, "input")
        fields[[field.get_attribute("type") for field in fields].index("text")].send_keys("admin")
        browser.find_element(By.CSS_SELECTOR, "input[type=password]").send_keys(password)
        browser.find_element(By.CSS_SELECTOR, "button[type=submit]").click()
        waiting.until(lambda page: "/login" not in page.current_url)
        for name, page in pages.items():
            browser.get(f"{base}/{page}")
            waiting.until(lambda page: page.find_elements(By.CSS_SELECTOR, ".chart-slice, canvas"))
            waiting.until(lambda page: "Waiting on" not in page.page_source)
            time.sleep(8)  # what moves
            browser.save_screenshot(str(folder / name))
    finally:
        browser.quit()


if __name__ == "__main__":
    main()
