"""SQLAlchemy's suite needs a run of its own, with its plugin: `make test-clients`.

The fixtures are those of the dashboard's tests.
"""

import importlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

collect_ignore = ["suites"]
DASHBOARD = Path(__file__).parents[2] / "examples" / "dashboard"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DASHBOARD))
        make = importlib.import_module("make_example").make
        yield make(tmp_path_factory.mktemp("owner") / "example")


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "example"
    shutil.copytree(made, folder)
    monkeypatch.setenv("DP_DASHBOARD_FOLDER", str(folder))
    yield folder
    import streamlit as st

    st.cache_resource.clear()  # closes the session
    st.cache_data.clear()


@pytest.fixture
def opened(folder: Path) -> Any:
    """A browser that opens the page."""
    from streamlit.testing.v1 import AppTest

    def open_one() -> Any:
        page = AppTest.from_file(str(DASHBOARD / "app.py"), default_timeout=60).run()
        assert not page.exception and not page.error
        return page

    return open_one
