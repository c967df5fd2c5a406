"""A browser that opens the dashboard example, as its tests share it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.ipc
import pytest

from dp_sql.budget.ledger import Ledger

pytest.importorskip("streamlit", reason="the dashboard's extra is not installed")

from streamlit.testing.v1 import AppTest

DASHBOARD = Path(__file__).parents[2] / "examples" / "dashboard"

Opened = Callable[[], AppTest]


def kinds(folder: Path) -> list[str]:
    ledger = folder / "policy.ledger.sqlite"
    with Ledger(ledger, folder / f"{ledger.name}.witness", read_only=True) as opened:
        return [str(event.kind) for event in opened.events()][1:]  # the first: it was opened


def change_policy(folder: Path, old: str, new: str) -> None:
    policy = folder / "policy.toml"
    text = policy.read_text("utf-8")
    assert old in text
    policy.write_text(text.replace(old, new), "utf-8")


def price(page: AppTest) -> str:
    """What the question on the page costs, and what is left."""
    (said,) = [one.value for one in page.markdown if "odds that anyone" in one.value]
    return str(said).split(" · odds")[0].replace("**", "")


FREE = "This is answered: looking is free"


def choose(page: AppTest, **values: str) -> AppTest:
    """Choose from lists, in this order."""
    for key, value in values.items():
        page.selectbox(key=key).set_value(value).run()
        assert not page.exception, page.exception
    return page


def spoken(page: AppTest) -> str:
    kinds = (page.markdown, page.caption, page.info, page.subheader, page.error)
    return "\n".join(element.value for elements in kinds for element in elements)


def bars(page: AppTest) -> list[str]:
    """The budgets, as the page words them: the analyst's own first."""
    return [bar.proto.text for bar in page.get("progress")]


def pictures(page: AppTest) -> list[list[dict[str, Any]]]:
    """The rows that each picture draws: of the answer first, then of the budget."""
    sets = [chart.proto.datasets[0].data.data for chart in page.get("vega_lite_chart")]
    return [pyarrow.ipc.open_stream(data).read_all().to_pylist() for data in sets]


def ask(page: AppTest) -> AppTest:
    (button,) = [button for button in page.button if button.label.startswith("Ask")]
    return button.click().run()


def buttons(page: AppTest) -> list[str]:
    return [button.label for button in page.button]
