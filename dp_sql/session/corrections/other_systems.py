"""The SQL of other systems with differential privacy, as DP calls. Pure.

Google's ZetaSQL and BigQuery write SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) …, with
contribution_bounds_per_group => (0, 9) in the aggregates, or ANON_SUM(x CLAMPED BETWEEN 0 AND 9).
Only what can then be planned is proposed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from dp_sql.sql.clauses import enclosing_select
from dp_sql.sql.restated import OtherQuestion, Restated
from dp_sql.sql.tokens import Edit, Tokens, edited
from dp_sql.udfs.mechanism import in_words

_THRESHOLD = "AGGREGATION_THRESHOLD"  # which draws no noise
_PRIVACY = {"DIFFERENTIAL_PRIVACY", "ANONYMIZATION", _THRESHOLD}
_CAPS = ("max_groups_contributed", "kappa")
_SETS = {"UNION", "INTERSECT", "EXCEPT"}  # LIMIT is of all of it, and TOP of one SELECT
_LONG = 2000  # characters; of a longer text nothing is proposed
_PARTS = [[str(n)] for n in range(2, 22)]  # in which DP_QUANTILE may divide the values
_NUMBER = re.compile(r"-?\d{1,18}(?:\.\d{1,9})?")
_ANSWERED_BY = {
    "COUNT": "DP_COUNT", "SUM": "DP_SUM", "AVG": "DP_AVG",
    **dict.fromkeys(("PERCENTILE_CONT", "PERCENTILE_DISC"), "DP_QUANTILE"),
    **dict.fromkeys(("QUANTILES", "APPROX_QUANTILES"), "DP_QUANTILE"),
}  # fmt: skip


class _Call(NamedTuple):
    """An aggregate: tokens [start, stop), its arguments without a name, and its bounds."""

    start: int
    stop: int
    name: str
    items: tuple[str, ...]
    bounds: tuple[str, str] | None

    @property
    def is_distinct(self) -> bool:
        return self.items[0].upper().startswith("DISTINCT ")


def of_other_systems(tokens: Tokens, under_policy: bool) -> Iterator[str]:
    """The statement with DP calls, if it is written for another system.

    >>> from dp_sql.sql.tokens import tokenize
    >>> print(*of_other_systems(tokenize(
    ...     "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 2, privacy_unit_column = id) "
    ...     "COUNT(*), SUM(x, contribution_bounds_per_group => (0, 9)) FROM t"), False))
    SELECT DP_COUNT(*, epsilon := 1, privacy_unit := id), DP_SUM(x, epsilon := 1, \
privacy_unit := id, lower := 0, contribution_bound := 9) FROM t
    >>> print(*of_other_systems(tokenize("SELECT TOP 5 title FROM t"), True))
    SELECT title FROM t LIMIT 5
    """
    if len(text := tokens[0].source) > _LONG:
        return
    edits, of_each = [], list[dict[str, str]]()
    for i in range(len(tokens)):
        if tokens.at(i - 2).upper == "SELECT" and tokens[i].upper in _PRIVACY:
            stop, options = _options(tokens, i + 1)
            of_each.append(options)
            edits.append((tokens[i - 1].start, tokens.at(stop).start, ""))
    if any(one != of_each[0] for one in of_each):
        return
    is_private, options = bool(of_each), of_each[0] if of_each else {}
    if under_policy:  # the policy names it
        options.pop("privacy_unit_column", None)
    found = [one for i, _ in tokens.calls() if (one := _call(tokens, i, is_private)) is not None]
    if any(after.start < one.stop for one, after in pairwise(found)):  # an aggregate of another
        return
    edits += [_with_dp(tokens, one, options, len(found)) for one in found]
    edits += _top(tokens)
    if edits and (found or not is_private):
        is_other = any(token.upper == _THRESHOLD for token in tokens)
        yield (OtherQuestion if is_other else Restated)(edited(text, edits))


def _options(tokens: Tokens, i: int) -> tuple[int, dict[str, str]]:
    """Where OPTIONS(epsilon = 1, …) at a place ends, and what is in it."""
    if tokens.at(i).upper != "OPTIONS" or not tokens.at(i + 1).is_symbol("("):
        return i, {}
    close = tokens.matching(i + 1)
    parts = tokens.split(i + 2, close)
    return close + 1, {tokens[a].folded: tokens[a + 2 : b].text for a, b in parts}


def _call(tokens: Tokens, i: int, is_private: bool) -> _Call | None:
    """The aggregate at a place: one that begins with ANON_, or any in a private SELECT."""
    name = tokens[i].upper.removeprefix("ANON_")
    if name not in _ANSWERED_BY or not (is_private or name != tokens[i].upper):
        return None
    close = tokens.matching(i + 1)
    items, bounds = [], None
    for start, stop in tokens.split(i + 2, close):
        words, end = [token.upper for token in tokens[start:stop]], stop
        if tokens.at(start + 1).is_symbol("=>"):
            pair = tokens.split(start + 3, stop - 1)
            if words[0].startswith("CONTRIBUTION_BOUNDS") and len(pair) == 2:
                bounds = tokens[slice(*pair[0])].text, tokens[slice(*pair[1])].text
            continue
        if "CLAMPED" in words and "AND" in words:
            clamped, middle = start + words.index("CLAMPED"), start + words.index("AND")
            bounds = tokens[clamped + 2 : middle].text, tokens[middle + 1 : stop].text
            end = clamped
        items.append(tokens[start:end].text)
    is_known = all(items) and (items[1:] in _PARTS or not name.endswith("QUANTILES"))
    return _Call(i, close + 1, name, tuple(items), bounds) if items and is_known else None


def _with_dp(tokens: Tokens, call: _Call, options: Mapping[str, str], n_calls: int) -> Edit:
    """The DP call in place of an aggregate; all aggregates share the epsilon of the options."""
    function, items = _ANSWERED_BY[call.name], [*call.items]
    if call.name == "COUNT" and call.is_distinct:
        function, items[0] = "DP_COUNT_DISTINCT", call.items[0].split(maxsplit=1)[1]
    if call.name.endswith("QUANTILES"):
        n = int(items[1])
        parts = [in_words(Fraction(10**4 * i // n, 10**4)) for i in range(1, n)]
        items[1] = f"[{', '.join(parts)}]"
    named = {}
    if (epsilon := _number(options.get("epsilon", ""))) is not None:  # else there is an example
        named["epsilon"] = in_words(Fraction(10**9 * epsilon // n_calls, 10**9))
    if unit := options.get("privacy_unit_column"):
        named["privacy_unit"] = unit
    cap = next((options[name] for name in _CAPS if name in options), None)
    if cap and function != "DP_COUNT" and enclosing_select(tokens, call.start).clause("GROUP"):
        named["max_groups_contributed"] = cap
    if call.bounds is not None:
        named |= _bounded(function, *call.bounds)
    written = [*items, *(f"{name} := {value}" for name, value in named.items())]
    return *tokens[call.start : call.stop].span, f"{function}({', '.join(written)})"


def _bounded(function: str, lower: str, upper: str) -> dict[str, str]:
    """The arguments that bound what one person adds as these bounds do."""
    if function in {"DP_AVG", "DP_QUANTILE"}:
        return {"lower": lower, "upper": upper}
    least, most = _number(lower), _number(upper)
    if least is None or most is None:
        return {}
    from_zero = {"lower": "0"} if function == "DP_SUM" and least == 0 else {}
    return from_zero | {"contribution_bound": in_words(max(abs(least), abs(most)))}


def _number(text: str) -> Fraction | None:
    return Fraction(text) if _NUMBER.fullmatch(text) else None


def _top(tokens: Tokens) -> Iterator[Edit]:
    """LIMIT 5 at the end in place of TOP 5, which only begins a statement."""
    words, number = [token.upper for token in tokens], tokens.at(2)
    is_other = words[3:4] == ["PERCENT"] or not _SETS.isdisjoint(words)
    is_list = words[3:] and not tokens[3].is_symbol(";")  # what is selected
    if words[:2] == ["SELECT", "TOP"] and number.kind == "number" and is_list and not is_other:
        yield tokens[1].start, tokens.at(3).start, ""
        end = tokens[-1 - tokens[-1].is_symbol(";")].end
        yield end, end, f" LIMIT {number.text}"
