"""Nested expressions as analysts may write them: dates, aggregates, strings, at random."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hypothesis import strategies as st

PARTS = ["year", "quarter", "month", "week", "day", "hour", "minute", "second"]
LITERALS: Mapping[str, Sequence[str]] = {
    "int": ["1", "-5", "2.5", "1e3", "2020", "NULL", "9223372036854775808"],
    "date": ["'2020-01-31'", "DATE '2024-02-29'", "NULL", "'0044-03-15 (BC)'", "'infinity'"],
    "text": ["'Dune'", "''", "'é'", "NULL", "'2020-01-31'"],
    "real": ["0", "0.1", "1e0", "NULL"],
    "bool": ["TRUE", "FALSE", "(1 = 1)", "('a' <> 'a')", "(NULL = 'a')", "('a' IN ('b', 'a'))"],
}
PATTERNS = ["%", "D%", "%une", "%u%", "_une", "%u_e%", "%_", "", "é%", "%\\_%", "D_n%e", "%.%_"]
SIGNS = ["=", "<>", "<", "<=", ">", ">="]


@dataclass(frozen=True)
class Relation:
    """What is in FROM: its unit, and its columns by kind."""

    text: str
    unit: str
    columns: Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Expressions:
    """Draws expressions over some columns; in a group, over keys and aggregates of columns."""

    draw: st.DrawFn
    relation: Relation
    keys: Mapping[str, Sequence[str]] | None = None

    def one(self, options: Sequence[str]) -> str:
        return self.draw(st.sampled_from(options))

    def chance(self, percent: int) -> bool:
        return self.draw(st.integers(0, 99)) < percent

    def any(self, depth: int) -> tuple[str, str]:
        """An expression and its kind."""
        kinds = [kind for kind in ("date", "int", "text", "bool", "real") if self.has(kind)]
        kind = self.one([*kinds, "int", "int"])
        return self.of(kind, depth), kind

    def operand(self, depth: int) -> tuple[str, str]:
        """An expression as it may stand beside a sign."""
        text, kind = self.any(depth)
        return (f"({text})" if kind == "bool" else text), kind

    def has(self, kind: str) -> bool:
        return kind in {"int", "text", "bool"} or bool(self.relation.columns.get(kind))

    def of(self, kind: str, depth: int) -> str:
        if depth <= 0:
            return self.leaf(kind)
        made = {"date": self.date, "int": self.int, "text": self.text, "bool": self.bool}
        found = made.get(kind, lambda _: self.leaf(kind))(depth)
        return f"({found})" if self.chance(10) else found

    def leaf(self, kind: str) -> str:
        """A column; in a group a key, or an aggregate of an expression over rows."""
        if self.keys is None:
            listed = self.relation.columns.get(kind) or []
            return self.one(listed) if listed else self.without(kind)
        if self.keys.get(kind) and self.chance(40):
            return self.one(self.keys[kind])
        rows = replace(self, keys=None)
        if kind == "int":
            return rows.counted(self.one(["count", "count(DISTINCT", "sum", "min", "max", "*"]))
        if self.relation.columns.get(kind):
            return f"{self.one(['min', 'max'])}({rows.of(kind, self.draw(st.integers(0, 2)))})"
        return self.without(kind)

    def counted(self, word: str) -> str:
        if word == "*":
            return "count(*)"
        inner = self.of("int", 1) if word in {"sum", "min", "max"} else self.any(1)[0]
        return f"{word} {inner})" if word.endswith("DISTINCT") else f"{word}({inner})"

    def without(self, kind: str) -> str:
        """An expression of a kind that no column has."""
        if kind == "text":
            return f"CAST({self.leaf('int')} AS VARCHAR)"
        if kind == "bool":
            return f"{self.leaf('int')} > 1"
        return f"year({self.leaf('date')})" if self.has("date") else self.relation.unit

    def date(self, depth: int) -> str:
        inner = self.of("date", depth - 1)
        match self.one(["trunc", "trunc", "coalesce", "leaf"]):
            case "trunc":
                return f"date_trunc('{self.one(PARTS)}', {inner})"
            case "coalesce":
                return f"coalesce({inner}, {self.one(LITERALS['date'])})"
            case _:
                return self.leaf("date")

    def int(self, depth: int) -> str:
        if not self.has("date") or self.chance(25):
            inner = self.of("int", depth - 1)
            return f"coalesce({inner}, {self.one(['1', 'NULL'])})" if self.chance(50) else inner
        part, inner = self.one(PARTS), self.of("date", depth - 1)
        forms = [f"extract({part} FROM {inner})", f"date_part('{part}', {inner})"]
        return self.one([*forms, f"{part}({inner})", f"year({inner})"])

    def text(self, depth: int) -> str:
        inner = self.of("text", depth - 1)
        if self.chance(25):
            return f"CAST({self.any(depth - 1)[0]} AS VARCHAR)"
        forms = ["lower({})", "upper({})", "trim({})", "ltrim({})", "rtrim({})", "substr({}, 2, 3)",
                 "substr({}, -2)", "coalesce({}, 'none')", "{}::TEXT"]  # fmt: skip
        return self.one(forms).replace("{}", inner)

    def bool(self, depth: int) -> str:
        one = self.of("bool", depth - 1)
        match self.one(
            ["like", "compare", "compare", "null", "between", "in", "and", "not", "two"]
        ):
            case "like":
                word = self.one(["LIKE", "NOT LIKE", "ILIKE", "NOT ILIKE"])
                return f"{self.of('text', depth - 1)} {word} '{self.one(PATTERNS)}'"
            case "null":
                return f"{self.operand(depth - 1)[0]} IS {self.one(['', 'NOT '])}NULL"
            case "and":
                return f"({one} {self.one(['AND', 'OR'])} {self.of('bool', depth - 1)})"
            case "not":
                return f"NOT ({one})"
            case "two":
                kind = self.one(["int", "text"])
                sides = self.of(kind, depth - 1), self.of(kind, depth - 1)
                return f"{sides[0]} {self.one(SIGNS)} {sides[1]}"
            case form:
                left, kind = self.operand(depth - 1)
                a, b = self.one(LITERALS[kind]), self.one(LITERALS[kind])
                tails = {"between": f"BETWEEN {a} AND {b}", "in": f"IN ({a}, {b})"}
                return f"{left} {tails.get(form, f'{self.one(SIGNS)} {a}')}"


@st.composite
def queries(draw: st.DrawFn, relations: Sequence[Relation], depth: int = 2) -> tuple[str, str]:
    """A query over one of the relations, and the name of a column that it lists beside the unit."""
    relation = draw(st.sampled_from(list(relations)))
    for level in range(draw(st.integers(0, 1))):
        inner, kind = _query(draw, relation, depth)
        relation = Relation(f"({inner}) AS q{level}", "unit", {kind: ["x"], "int": ["unit"]})
    return _query(draw, relation, depth)[0], "x"


def _query(draw: st.DrawFn, relation: Relation, depth: int) -> tuple[str, str]:
    rows = Expressions(draw, relation)
    where = f" WHERE {rows.of('bool', depth)}" if rows.chance(40) else ""
    if rows.chance(45):
        item, kind = rows.any(depth)
        word = "DISTINCT " if rows.chance(20) else ""
        return (
            f"SELECT {word}{relation.unit} AS unit, {item} AS x FROM {relation.text}{where}",
            kind,
        )
    keys = [rows.any(1) for _ in range(draw(st.integers(0, 2)))]
    known = {kind: [text for text, one in keys if one == kind] for _, kind in keys}
    group = Expressions(draw, relation, known)
    item, kind = group.any(depth)
    by = ", ".join([relation.unit, *(text for text, _ in keys)])
    having = f" HAVING {group.of('bool', depth)}" if group.chance(50) else ""
    return (
        f"SELECT {relation.unit} AS unit, {item} AS x FROM {relation.text}{where} "
        f"GROUP BY {by}{having}"
    ), kind
