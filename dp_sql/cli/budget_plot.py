"""How a budget was spent over time: the curves of a ledger, and a picture of them."""

import importlib
import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

from dp_sql.budget.accountants import accountant
from dp_sql.budget.amounts import NANO, Amount, Spent
from dp_sql.budget.ledger import Ledger
from dp_sql.budget.model import Terms, normal_name
from dp_sql.cli.bars import shortened
from dp_sql.files import open_private
from dp_sql.installation import install_command
from dp_sql.udfs.mechanism import in_words

POINTS = 1000  # about, on a curve: each takes a call of the accountant
_OWN_CURVES = 8
_Path = list[tuple[datetime, Spent]]


@dataclass(frozen=True)
class Curve:
    """The epsilon spent over time: from each point's time on, so much."""

    analyst: str | None  # None for all together
    cap: Fraction | None
    points: tuple[tuple[datetime, Fraction], ...]


def curves(ledger: Ledger, terms: Terms, until: datetime) -> list[Curve]:
    """All analysts together, then each one, up to a time; without losses that were given back."""
    cancelled = {event.ticket for event in ledger.events() if event.kind == "cancelled"}
    losses: dict[str | None, list[tuple[datetime, Amount]]] = {None: []}
    times: list[datetime] = []
    for event in ledger.events():
        times = [*times[:1], datetime.fromisoformat(event.time)]  # the first and the last
        if event.kind == "reserved" and event.amount and event.ticket not in cancelled:
            for name in (None, normal_name(event.analyst)):
                losses.setdefault(name, []).append((times[-1], event.amount))
    start, end = min([*times, until]), max([*times, until])
    names = sorted(losses, key=lambda name: (name is not None, name))
    return [_curve(name, _path(losses[name], start, end, terms.monthly), terms) for name in names]


def _path(
    losses: Sequence[tuple[datetime, Amount]], start: datetime, end: datetime, monthly: bool
) -> _Path:
    """When the sum changed, and to what; only the last change of each short stretch of time.

    A monthly budget starts again in the month after its last loss.
    """
    stretch = (end - start) / POINTS or timedelta(seconds=1)
    path = [(start, Spent())]
    for time, amount in [*losses, (end, None)]:
        last, spent = path[-1]
        if monthly and spent.n and (last.year, last.month) != (time.year, time.month):
            first = datetime(last.year + last.month // 12, last.month % 12 + 1, 1, tzinfo=UTC)
            path += [(first, spent), (first, Spent())]
            spent = Spent()
        elif spent.n and (last - start) // stretch == (time - start) // stretch:
            path.pop()
        path.append((time, spent if amount is None else spent.plus(amount)))
    return path


def _curve(name: str | None, path: _Path, terms: Terms) -> Curve:
    """The accountant's figures; without a cap, at the delta of all together."""
    cap = terms.total if name is None else terms.analysts.get(name)
    counting = accountant(
        terms.accountant, cap or terms.total, terms.release_epsilon, terms.discovery_share
    )
    points = [(time, Fraction(counting.epsilon_spent(at), NANO)) for time, at in path]
    return Curve(name, None if cap is None else cap.epsilon, tuple(points))


def draw(drawn: Sequence[Curve], terms: Terms, file: Path) -> None:
    """Write a picture of curves; the file's suffix is its format: .png, .svg or .pdf."""
    try:
        figure = importlib.import_module("matplotlib.figure").Figure(
            figsize=(9.6, 5.0), dpi=150, layout="constrained"
        )
        dates = importlib.import_module("matplotlib.dates")
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            f"A picture needs matplotlib: {install_command('plot')}"
        ) from None
    axes = figure.add_subplot()
    own = sorted(drawn[1:], key=lambda curve: -max(y for _, y in curve.points))
    for number, curve in enumerate([drawn[0], *own[:_OWN_CURVES]]):
        style = {"color": f"C{number}" if number else "black", "linewidth": 1.6 if number else 2.4}
        times, values = zip(*curve.points, strict=True)
        axes.step(times, list(map(float, values)), where="post", label=_label(curve), **style)
        if curve.cap is not None:
            axes.axhline(float(curve.cap), linestyle="--", **style)
    if len(own) > _OWN_CURVES:
        axes.plot([], [], color="none", label=f"and {len(own) - _OWN_CURVES} more, who spent less")
    each = ", a new budget each month" if terms.monthly else ""
    axes.set_title(f"{terms.dataset}: privacy loss spent{each}", loc="left")
    axes.set_ylabel(f"ε (accountant {terms.accountant}; dashed: caps)")
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#d0d7de", linewidth=0.6)
    title = "ε spent this month" if terms.monthly else "ε spent"
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, title=title)
    # With fewer, matplotlib has no interval for four or five minutes, hours or days.
    locator = dates.AutoDateLocator(maxticks=12)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")  # of an analyst's name
        picture = io.BytesIO()
        figure.savefig(picture, format=file.suffix[1:] or "png")
    named = file if file.suffix else file.with_name(f"{file.name}.png")
    with open(named, "wb", opener=open_private) as out:
        out.write(picture.getbuffer())


def _label(curve: Curve) -> str:
    """The label of a curve: figures first, as a name may begin with anything."""
    name = "all together" if curve.analyst is None else curve.analyst
    name = "".join(c if c.isprintable() else "?" for c in name)
    of = "" if curve.cap is None else f" of {in_words(curve.cap)}"
    return f"{in_words(curve.points[-1][1])}{of}: {shortened(name)}".replace("$", r"\$")
