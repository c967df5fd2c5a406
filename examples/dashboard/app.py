"""A page for one analyst: questions and their cost, answers, and the budget that is left.

    streamlit run examples/dashboard/app.py

Streamlit runs this file from top to bottom after each click. Only the button asks; all else reads.
"""

from __future__ import annotations

import math
import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import pictures
import streamlit as st
from make_example import make
from questions import REGIONS, Question, in_decimals, most_read, n_searches
from shared import LOSSES, Shared, burn_down, connected, cost, largest

import dp_sql
from dp_sql.budget.account import BudgetRow
from dp_sql.releases import Receipt, Release
from dp_sql.session.explain import Cost
from dp_sql.sql.ranges import DEFAULT_BETA
from dp_sql.udfs.topk.counts import within

HERE = Path(__file__).parent
FOLDER = Path(os.environ.get("DP_DASHBOARD_FOLDER", HERE / ".cache" / "example"))
ANALYST = os.environ.get("DP_DASHBOARD_ANALYST", "reporting")
BOOKS, SEARCHES = "The most read books", "How many different searches"
CLOSED = "Nothing can be answered now. The terminal that runs this page shows the reason."
AT_ONCE, ROOM = 4, 260  # lines of the history that are shown without scrolling, and their pixels
HELP = ":material/lightbulb:"
CALM = """<style>
.block-container { padding-top: 2.5rem; max-width: 76rem; }
h1 { padding-top: 0; }
</style>"""


@st.cache_resource(on_release=lambda shared: shared.session.close(), show_spinner=False)
def opened(folder: Path, analyst: str) -> Shared:
    """The analyst's session: one for all browsers, until the server stops."""
    return connected(make(folder), analyst)


@st.cache_data(show_spinner=False, max_entries=500)
def answer(_shared: Shared, analyst: str, release: str) -> Any:
    """A release, read again; it never changes, so it is read once."""
    return _shared.rows(f"FROM dp_release('{release}')")[0][-1]


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
        "All answers together reveal little about any one reader: how little is a fixed budget. "
        "**Asking** spends some of it. **Looking** is free: move the slider, reload, as you like."
    )
    asking, books = st.columns([5, 3], gap="large")
    with asking:
        question = chosen()
        release = quoted(shared, question)
        answered(shared, question, release)
    with books:
        budget(shared)
        history(shared)


def chosen() -> Question:
    """The controls. The page's address holds their values, so that a reload keeps them."""
    kind = st.segmented_control(
        "Question", [BOOKS, SEARCHES], default=BOOKS, required=True, key="question",
        bind="query-params", label_visibility="collapsed",
    )  # fmt: skip
    where, how_many = st.columns([3, 2])
    region = where.segmented_control(
        "Where", REGIONS, default=REGIONS[0], required=True, key="region", bind="query-params"
    )
    if kind == SEARCHES:
        return n_searches(region)
    k = how_many.segmented_control(
        "How many", [5, 10, 15], default=10, required=True, key="k", bind="query-params"
    )
    return most_read(k, region)


def quoted(shared: Shared, question: Question) -> str | None:
    """The price, before anything is spent, and the button; the release that answers, if any."""
    st.slider(
        "Privacy loss ε", 0.01, 1.5, 0.25, 0.01, key="epsilon", bind="query-params",
        help="How much the odds that somebody is in the data may change: by a factor of e^ε. "
        "More ε, better answer, less budget.",
    )  # fmt: skip
    hundredths = round(100 * st.session_state["epsilon"])
    sql = question.at(hundredths)
    with st.container(border=True, key="price"):
        try:
            price = cost(shared, question, hundredths)
        except dp_sql.QueryError as refused:
            helped(shared, question, hundredths, refused)
            return None
        known = price.calls[0].kept or answers().get(sql)
        quote(price, hundredths, known is not None)
        if known is None and not price.fits:
            helped(shared, question, hundredths, None)
        # The key: a click counts for the statement that was on the page, and for no other.
        elif known is None and st.button(
            f"Ask, for ε = {in_decimals(hundredths)}", type="primary", key=f"ask {sql}"
        ):
            asked(shared, sql)
    return known


def quote(price: Cost, hundredths: int, is_known: bool) -> None:
    """What it costs, what is left, how good the answer will be."""
    costs, after, factor = st.columns(3)
    costs.metric("Costs", "nothing" if is_known else f"ε {in_decimals(hundredths)}")
    spends = price.fits and not is_known
    left = tightest(price.after if spends else price.before)
    after.metric("Left afterwards" if spends else "Left", f"ε {left}" if left else "no limit")
    factor.metric("Odds change by at most", f"× {math.exp(hundredths / 100):.2f}")
    if is_known:
        st.caption("This is answered already: reading it again is free.")
    sentence = price.calls[0].accuracy
    st.markdown(f"**How exact:** {sentence}.")


def helped(
    shared: Shared, question: Question, hundredths: int, refused: dp_sql.QueryError | None
) -> None:
    """Why a question is not answered, and what would be."""
    fits = largest(shared, question, hundredths)
    why = refused.message if refused else "This costs more than is left of the budget."
    then = (
        "Nothing fits any more. What was answered can still be read below."
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


def answered(shared: Shared, question: Question, release: str | None) -> None:
    """The answer to what is chosen, if it was asked."""
    st.subheader(question.words, anchor=False)
    if release is None:
        st.caption("Not asked yet at this ε.")
        return
    receipts = {known.id: known.receipt for known in shared.session.releases}
    drawn(answer(shared, ANALYST, release), receipts[release])


def drawn(value: Any, receipt: Receipt) -> None:
    """An answer as a picture, with what it does and does not say."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        books = [(str(one["item"]), int(one["count"])) for one in value]
        bound = within(len(books), receipt.loss.epsilon, DEFAULT_BETA)
        st.altair_chart(
            pictures.counted(books, bound), alt="; ".join(f"{item}: {n}" for item, n in books)
        )
        st.caption(
            f"The bars are noisy counts of people. With 95 % confidence all of them are within "
            f"± {bound} people of the true ones, as the lines show."
        )
        return
    if isinstance(value, list):
        items = [str(item) for item in value]
        st.altair_chart(
            pictures.ranking(items), alt="; ".join(f"{i}: {x}" for i, x in enumerate(items, 1))
        )
        st.caption(
            "Best first. The bars are equally long on purpose: the answer is an order. How many "
            "people read each book is not part of the answer."
        )
        return
    sure = f"{100 * value['confidence']:.0f} %"
    estimate, bound = st.columns(2)
    estimate.metric("Estimate", f"{value['estimate']:,}")
    bound.metric(f"At least, with {sure} confidence", f"{max(value['lower_bound'], 0):,}")
    picture = pictures.at_least(value["estimate"], value["lower_bound"])
    st.altair_chart(picture, alt="The estimate, on a line that begins at the lower bound")
    st.caption(
        "The line begins at the lower bound and is open at the other end: no upper bound is "
        f"promised. Each person was counted with at most {value['contribution_bound']} of their "
        "searches, which keeps the noise small."
    )


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
        st.markdown(f"{whose}: ε {shown(row.epsilon_spent)} spent, no cap of its own")
        return
    words = f"{whose}: **ε {shown(row.epsilon_left)}** of {shown(row.epsilon_total)} left"
    st.progress(float(row.epsilon_left / row.epsilon_total), words)


def history(shared: Shared) -> None:
    """All that was answered, newest first; any of it can be read again."""
    st.subheader("Asked so far", anchor=False)
    releases = {release.id: release for release in reversed(shared.session.releases)}
    if not releases:
        st.caption("Nothing yet.")
        return
    with st.container(height=ROOM if len(releases) > AT_ONCE else "content"):
        st.table([listed(release) for release in releases.values()], border="horizontal")
    name = st.selectbox(
        "Read one again, for nothing", releases, index=None, key="again",
        format_func=lambda name: " · ".join(listed(releases[name]).values()),
        placeholder="Choose an answer",
    )  # fmt: skip
    if name is not None:
        drawn(answer(shared, ANALYST, name), releases[name].receipt)
        with st.expander("Receipt"):
            st.code(str(releases[name].receipt), language=None, wrap_lines=True)


def listed(release: Release) -> dict[str, str]:
    """A line of the history; a receipt says nothing of the data."""
    receipt = release.receipt
    return {
        "asked": f"{receipt.call} from {receipt.source}",
        "ε": shown(receipt.loss.epsilon),
        "UTC": release.time[5:16].replace("T", " "),
    }


def tightest(rows: tuple[BudgetRow, ...]) -> str | None:
    left = [row.epsilon_left for row in rows if row.epsilon_left is not None]
    return shown(min(left)) if left else None


def shown(x: Any) -> str:
    """A number, rounded for the page: the ledger has it exactly."""
    return f"{float(x):.4f}".rstrip("0").rstrip(".")


try:
    main()
except dp_sql.DpSqlError as error:
    print(f"{type(error).__name__}: {error}")
    st.error(CLOSED)
