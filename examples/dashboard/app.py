"""A page for one analyst: any question of the policy's tables, its cost, its answer, the budget.

    streamlit run examples/dashboard/app.py

Streamlit runs this file from top to bottom after each click. Only the button asks; all else reads.
"""

from __future__ import annotations

import math
import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import menu
import pictures
import streamlit as st
from answers import Number, named, shown
from controls import chosen
from make_example import make
from menu import Menu
from questions import Question, in_decimals
from shared import LOSSES, Shared, burn_down, connected, cost, largest

import dp_sql
from dp_sql.budget.account import BudgetRow
from dp_sql.releases import Release
from dp_sql.session.explain import Cost

HERE = Path(__file__).parent
FOLDER = Path(os.environ.get("DP_DASHBOARD_FOLDER", HERE / ".cache" / "example"))
ANALYST = os.environ.get("DP_DASHBOARD_ANALYST", "reporting")
CLOSED = "Nothing can be answered now. The terminal that runs this page shows the reason."
AT_ONCE, ROOM = 4, 260  # lines of the history that are shown without scrolling, and their pixels
TALL = 15  # bars that are shown without scrolling
HELP = ":material/lightbulb:"
CALM = """<style>
.block-container { padding-top: 2.5rem; max-width: 76rem; }
h1 { padding-top: 0; }
@media (max-width: 640px) {
  .block-container { padding: 1rem 1rem 3rem; }
  h1 { font-size: 1.4rem !important; padding-bottom: 0; }
  h3 { font-size: 1.15rem !important; }
}
</style>"""


@st.cache_resource(on_release=lambda shared: shared.session.close(), show_spinner=False)
def opened(folder: Path, analyst: str) -> Shared:
    """The analyst's session: one for all browsers, until the server stops."""
    is_named = "DP_DASHBOARD_FOLDER" in os.environ  # invented data there would be taken for real
    return connected(folder if is_named else make(folder), analyst)


@st.cache_data(show_spinner="Reading what can be asked …", max_entries=50)
def lists(_shared: Shared, analyst: str, table: str) -> Menu:
    """What may be chosen for a table."""
    return menu.menu(_shared, FOLDER / "policy.toml", table)


@st.cache_data(show_spinner=False, max_entries=500)
def answer(_shared: Shared, analyst: str, release: str) -> list[tuple[Any, ...]]:
    """The rows of a release; it never changes, so it is read once."""
    return _shared.rows(f"FROM dp_release('{release}') ORDER BY ALL")


@st.cache_data(show_spinner=False, max_entries=50)
def losses(_shared: Shared, analyst: str, spent: str, n_releases: int) -> list[Any]:
    """What each question of this analyst cost; the last two say whether there is a new one."""
    return [row[0] for row in _shared.rows(LOSSES)]


def main() -> None:
    st.set_page_config("Reading, privately", layout="wide")
    st.html(CALM)
    shared = opened(FOLDER, ANALYST)
    st.title("What people read", anchor=False)
    st.caption(
        "You see answers, never anyone's rows. **Asking** spends some of a fixed budget, which "
        "limits what all answers together reveal about any one reader. **Looking** is free."
    )
    answers_side, choices_side = st.columns([5, 3], gap="large")
    with choices_side:  # on a phone, below the answer
        question, hundredths = chosen(shared, lambda table: lists(shared, ANALYST, table))
        budget(shared)
        history(shared)
    with answers_side:
        about(shared, question, hundredths)


# --- what it costs, and the answer ----------------------------------------------------------------


def about(shared: Shared, question: Question, hundredths: int) -> None:
    """The answer if there is one; otherwise the price, and the button."""
    sql = question.at(hundredths)
    st.subheader(question.words, anchor=False)
    try:
        price = cost(shared, question, hundredths)
    except (dp_sql.QueryError, duckdb.Error) as refused:
        helped(shared, question, hundredths, refused)
        st.code(sql, language="sql", wrap_lines=True)
        return
    call = price.calls[0]
    known = call.kept or answers().get(sql)
    if known is not None:
        drawn(question, answer(shared, ANALYST, known), call.all_within)
    quote(price, hundredths, known is not None)
    if known is None and not price.fits:
        helped(shared, question, hundredths, None)
    # The key: a click counts for the statement that was on the page, and for no other.
    elif known is None and st.button(
        f"Ask, for ε = {in_decimals(hundredths)}", type="primary", key=f"ask {sql}"
    ):
        asked(shared, sql)
    st.markdown(f"**How exact:** {call.accuracy}.")
    st.code(sql, language="sql", wrap_lines=True)


def quote(price: Cost, hundredths: int, is_known: bool) -> None:
    """What it costs, and what is left."""
    spends = price.fits and not is_known
    left = tightest(price.after if spends else price.before)
    costs = (
        "This is answered: looking is free"
        if is_known
        else f"Costs **ε {in_decimals(hundredths)}**"
    )
    odds = f"odds that anyone is in the data change by at most × {math.exp(hundredths / 100):.2f}"
    budget = (
        "no limit" if left is None else f"**ε {left}** {'left afterwards' if spends else 'left'}"
    )
    st.markdown(f"{costs} · {budget} · {odds}")


def helped(
    shared: Shared,
    question: Question,
    hundredths: int,
    refused: dp_sql.QueryError | duckdb.Error | None,
) -> None:
    """Why a question is not answered, and what would be."""
    fits = largest(shared, question, hundredths)
    why = (
        getattr(refused, "message", str(refused))
        if refused
        else "This costs more than is left of the budget."
    )
    then = (
        "Nothing fits any more. What was answered can still be read."
        if fits is None
        else f"The largest ε that fits is {in_decimals(fits)}."
    )
    st.info(f"{why} {then}", icon=HELP)
    if fits is not None:
        st.button(f"Take ε = {in_decimals(fits)}", on_click=take, args=(fits / 100,))


def take(epsilon: float) -> None:
    """Move the slider; nothing is spent."""
    st.session_state["epsilon"] = epsilon


def asked(shared: Shared, sql: str) -> None:
    """Spend. The only place that does, and it is reached by a click alone."""
    try:
        with st.spinner("Asking …"):
            answers()[sql] = shared.ask(sql)
    except dp_sql.QueryError as refused:  # another analyst was faster, say
        st.info(str(refused), icon=HELP)
    else:
        st.rerun()


def answers() -> dict[str, str]:
    """What this browser asked, for policies that store no releases."""
    known: dict[str, str] = st.session_state.setdefault("answers", {})
    return known


def drawn(question: Question, rows: list[tuple[Any, ...]], within: int | None) -> None:
    """An answer as a picture with its uncertainty; as a table where no interval is known."""
    found = named(rows, within) or []
    numbers = [one for _, one in found if one is not None]
    if not numbers or numbers[0].low is None:
        listed(question, rows)
        return
    unit, first = question.unit, numbers[0]
    words = "; ".join(f"{shown(name)}: {shown(one and one.value)}" for name, one in found)
    if question.each:
        picture = pictures.over_time([(name, one) for name, one in found if name], unit)
    elif question.key or len(found) > 1:
        ink = "#e8eeec" if st.context.theme.type == "dark" else "#24302f"
        picture = pictures.bars([(shown(name), one) for name, one in found], unit, ink)
    else:
        words = shown(first.value)
        st.metric(unit, words if first.is_open else f"{words} ± {shown(first.high - first.value)}")
        picture = pictures.on_a_line(first, unit)
    with st.container(height=520 if len(found) > TALL and not question.each else "content"):
        st.altair_chart(picture, alt=words)
    st.caption(explained(rows[0][-1], first))


def explained(value: Any, one: Number) -> str:
    """What the lines of a picture say."""
    confidence = value.get("confidence", 0.95) if isinstance(value, dict) else 0.95
    sure = f"with {100 * confidence:.0f} % confidence"
    if not one.is_count:
        return (
            f"The lines show how far the noise may reach, {sure}. A person with many rows counts "
            "for fewer of them."
        )
    if not one.is_open:
        return f"The lines show where the true numbers are, {sure}."
    return (
        f"Each true number is at least where its line begins, {sure}. The dotted or pale end shows "
        "the noise alone: the true number may be larger, as one person counts only up to a bound."
    )


def listed(question: Question, rows: list[tuple[Any, ...]]) -> None:
    """An answer as a table; several quantiles have a column each."""
    quantiles = question.arguments.get("q", "").strip("[]").split(", ")
    head = question.each or question.key
    lines = []
    for row in rows:
        values = row[-1] if isinstance(row[-1], list) and len(quantiles) > 1 else [row[-1]]
        names = quantiles if len(values) > 1 else [question.unit]
        key = {head: shown(row[0])} if head else {}
        lines.append(key | dict(zip(names, map(shown, values), strict=True)))
    if len(lines) == len(lines[0]) == 1:
        st.metric(question.unit, *lines[0].values())
    else:
        st.table(lines, border="horizontal")


# --- the budget, and what was asked ---------------------------------------------------------------


def budget(shared: Shared) -> None:
    """What is left: of this analyst's budget, and of all analysts' together."""
    st.subheader("Budget", anchor=False)
    rows = shared.session.budget()
    if not rows:
        st.caption("This policy has no budget: nothing adds up here, and nothing is promised.")
        return
    with st.container(key="budget"):
        for row in reversed(rows):
            bar(row)
    own = rows[-1]
    if own.epsilon_total is not None and own.epsilon_left is not None and own.accountant == "basic":
        each = losses(shared, ANALYST, str(own.epsilon_spent), len(shared.session.releases))
        left = burn_down(own.epsilon_left, own.epsilon_total, [Fraction(x) for x in each])
        picture = pictures.budget_left([float(x) for x in left], float(own.epsilon_total))
        st.altair_chart(picture, alt="What was left after each question")


def bar(row: BudgetRow) -> None:
    whose = "All analysts together" if row.analyst is None else f"Yours ({row.analyst})"
    if row.epsilon_total is None or row.epsilon_left is None:
        st.markdown(f"{whose}: ε {rounded(row.epsilon_spent)} spent, no cap of its own")
        return
    words = f"{whose}: **ε {rounded(row.epsilon_left)}** of {rounded(row.epsilon_total)} left"
    st.progress(float(row.epsilon_left / row.epsilon_total), words)


def history(shared: Shared) -> None:
    """All that was answered, newest first; any of it can be read again."""
    st.subheader("Asked so far", anchor=False)
    releases = {release.id: release for release in reversed(shared.session.releases)}
    if not releases:
        st.caption("Nothing yet.")
        return
    with st.container(height=ROOM if len(releases) > AT_ONCE else "content"):
        st.table([line(release) for release in releases.values()], border="horizontal")
    name = st.selectbox(
        "Read one again, for free", releases, index=None, key="again",
        format_func=lambda name: " · ".join(line(releases[name]).values()),
        placeholder="Choose an answer",
    )  # fmt: skip
    if name is not None:
        heads = [column for column, _ in releases[name].columns]
        rows = answer(shared, ANALYST, name)
        st.table([dict(zip(heads, map(shown, row), strict=True)) for row in rows],
                 border="horizontal")  # fmt: skip
        with st.expander("Receipt"):
            st.code(str(releases[name].receipt), language=None, wrap_lines=True)


def line(release: Release) -> dict[str, str]:
    """A line of the history; a receipt says nothing of the data."""
    receipt = release.receipt
    return {
        "asked": f"{receipt.call} from {receipt.source}",
        "ε": rounded(receipt.loss.epsilon),
        "UTC": release.time[5:16].replace("T", " "),
    }


def tightest(rows: tuple[BudgetRow, ...]) -> str | None:
    left = [row.epsilon_left for row in rows if row.epsilon_left is not None]
    return rounded(min(left)) if left else None


def rounded(x: Any) -> str:
    """A number, rounded for the page: the ledger has it exactly."""
    return f"{float(x):.4f}".rstrip("0").rstrip(".")


try:
    main()
except dp_sql.DpSqlError as error:
    print(f"{type(error).__name__}: {error}")
    st.error(CLOSED)
