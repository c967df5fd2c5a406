"""Refusals of parts of a source, items and keys, and what to write instead."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dp_sql.errors import ArgumentError, NotPrivate, SourceError
from dp_sql.sql.grid_arguments import in_seconds
from dp_sql.sql.sqlglot_tree import Node, projection
from dp_sql.sql.types import BINARY_TYPES, NUMBERS, family

WAY_OUT = (
    "Under a policy, and over groups, you can use comparisons, LIKE, CASE, coalesce, arithmetic, "
    "TRY_CAST, lower, upper, trim, substr, date_trunc, date parts such as year, and what "
    "FROM dp_functions() lists. For anything else the owner can add a column to the table."
)
PER_PERSON = (
    "Compute a value of each person in a subquery, and ask about these. For example: SELECT "
    "DP_AVG(n, …) FROM (SELECT user_id, count(*) AS n FROM orders GROUP BY user_id)."
)
ALLOWED = (
    "A source may use private tables, joins of them on the privacy unit, joins with public tables "
    "and with VALUES, WHERE on one row at a time or on its person's rows, CTEs and subqueries of "
    "these, GROUP BY the privacy unit, and UNION."
)
OF_PIVOT = "Write FROM (SELECT …) PIVOT (first(n) FOR region IN ('north', 'south'))."
BY_PARAMETER = (
    "Write $d, and pass the value as a parameter: session.sql(query, params={'d': …}). In "
    "FROM dp($$ … $$, params := row(…)) it is ?."
)
OF_EACH_PERSON = (
    "For a condition on each person's rows: user_id IN (SELECT user_id FROM orders GROUP BY "
    "user_id HAVING count(*) > 3). For a column of a public table: JOIN it."
)
AS_ELEMENTS = "Write … FROM …, unnest({}) AS u(element), and name element."
ALONE = "If it reads only public tables, run it on its own and write its values here: IN (1, 2)."
FIRST_ROW = (
    "For each person's first row: "
    "FROM (FROM events QUALIFY row_number() OVER (PARTITION BY user_id ORDER BY ts) = 1)."
)


# What is not supported in a source, and what to write.
_FORMS = {
    "ASOF JOIN": "Join on the condition and, unless one table is public, on the privacy unit; keep "
    "the last match. If user_id and ts tell the rows of a apart: FROM (SELECT … FROM a JOIN b "
    "ON … QUALIFY row_number() OVER (PARTITION BY a.user_id, a.ts ORDER BY b.ts DESC) = 1).",
    "UNPIVOT": "Write SELECT user_id, 'a' AS name, a AS value FROM t WHERE a IS NOT NULL UNION ALL "
    "SELECT user_id, 'b', b FROM t WHERE b IS NOT NULL.",
    "PIVOT": "Write SELECT user_id, count(*) FILTER (kind = 'a') AS a FROM t GROUP BY user_id.",
    "LATERAL": "Join a table instead, or one row for each person: JOIN (SELECT user_id, max(x) AS "
    "x FROM t GROUP BY user_id) AS m USING (user_id).",
}


class Refused(NotPrivate):
    """A refusal that knows its node, so that a caret can be put under it.

    offset: the node's place in the SQL that was parsed, where the node does not know it.
    n_parts: of json.key, how many of its names are those of the column; 0 of all else.
    join: what is to be joined behind the source, so that it has the column.
    equal: conditions; with any of them, a refused join would join rows of one person only.
    """

    node: Node
    offset: int | None = None
    n_parts: int = 0
    join: str = ""
    equal: Sequence[str] = ()


class Unbound(SourceError):
    """What the engine says of a node that it cannot bind; `node` as in Refused."""

    def __init__(self, node: Node, error: SourceError, message: str | None = None) -> None:
        self.node = node
        super().__init__(message or error.message, hint=error.hint)
        self.names = error.names


def refuse(node: Node, message: str, hint: str | None = None) -> Refused:
    """A refusal of one node; by default with WAY_OUT if something is not supported."""
    if hint is None:
        hint = WAY_OUT if "support" in message else ""
    error = Refused(f"{message}.", hint=hint)
    error.node = node
    return error


def other_form(node: Node) -> Refused | None:
    """The refusal of a part of FROM that can be written in another way."""
    match node:
        case exp.Pivot():
            name = "UNPIVOT" if node.args.get("unpivot") else "PIVOT"
        case exp.Lateral():
            name = "LATERAL"
        case exp.Join() if node.args.get("method") == "ASOF":
            name = "ASOF JOIN"
        case _:
            return None
    return refuse(node, f"{name} is not supported in the source of a DP call", _FORMS[name])


def exact_cast(text: str, kind: str) -> str:
    """An expression as a number that can be added up: of a float, four decimals or a whole number.

    >>> exact_cast("floor(x / 50) * 50", "DOUBLE")
    'TRY_CAST(floor(x / 50) * 50 AS BIGINT)'
    """
    number = "DECIMAL(18, 4)" if family(kind) in BINARY_TYPES else "DECIMAL(18, 2)"
    tree = projection(text) if family(kind) in BINARY_TYPES else None
    if tree is not None and _is_whole(tree):
        number = "BIGINT"
    return f"TRY_CAST({text} AS {number})"


def _is_whole(node: Node) -> bool:
    if isinstance(node, exp.Floor | exp.Ceil | exp.Round):
        places = node.args.get("decimals")
        return places is None or isinstance(places, exp.Neg)
    if isinstance(node, exp.Mul | exp.Add | exp.Sub):
        return _is_whole(node.this) and _is_whole(node.expression)
    return node.is_int or (isinstance(node, exp.Paren | exp.Neg) and _is_whole(node.this))


def no_amount(name: str, kind: str) -> ArgumentError:
    """The refusal of an item that is neither an integer nor a decimal."""
    why = "; sums of floating-point numbers are rounded" if family(kind) in BINARY_TYPES else ""
    hint: str | None = None
    if family(kind) in NUMBERS:
        hint = f"Cast it first: {exact_cast(name, kind)}."
    if family(kind) in {"VARCHAR", "JSON"}:
        hint = f"If it holds numbers, write TRY_CAST({name} AS DECIMAL(18, 2))."
    if family(kind) == "BOOLEAN":
        hint = f"To count where it is true, write CASE WHEN {name} THEN 1 ELSE 0 END."
    if family(kind) == "INTERVAL":
        hint = f"Write its seconds: {in_seconds(name)}."
    elif _is_time(kind):
        hint = f"Add up a number instead, such as date_diff('day', DATE '2026-01-01', {name})."
    return ArgumentError(
        f"The item {name} has type {kind}; only integers and decimals can be added up{why}.",
        hint=hint,
    )


def _is_time(kind: str) -> bool:
    """Whether a type is a date, a time or an interval: TRY_CAST would make all values NULL."""
    return kind.startswith(("DATE", "TIME", "INTERVAL"))


def inexact(what: str, name: str, kind: str) -> ArgumentError:
    """The refusal of a column whose equality is not exact."""
    if family(kind) not in BINARY_TYPES:
        way = f"Cast it first, for example CAST({name} AS VARCHAR)."
        if kind.endswith("]"):
            way = AS_ELEMENTS.format(name)
        elif kind.startswith(("STRUCT(", "MAP(")):
            way = f"Name one of its values, such as {name}['key']."
        return ArgumentError(
            f"The {what} {name} has type {kind}, which is not supported here.",
            hint="Supported are integers, decimals, strings, dates, times, booleans, UUIDs, blobs "
            f"and ENUMs. {way}",
        )
    return ArgumentError(
        f"The {what} {name} has type {kind}, whose equality is not exact: rounding or NaN would "
        "decide what counts as the same.",
        hint=f"Cast it first: {exact_cast(name, kind)}, or CAST({name} AS VARCHAR).",
    )
