"""Sources as analysts may write them: texts at random, most of them accepted."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from tests.people import OWNERS, Data
from tests.privacy.source_tables import (
    BASES,
    CONDITIONS,
    ITEMS,
    OFTEN,
    PEOPLE,
    PUBLIC,
    REFUSED,
    SELDOM,
    SHAPES,
    TAILS,
    WIDE,
    WRITTEN_COLS,
    WRITTEN_OUT,
    Col,
    Rel,
)


@dataclass(frozen=True)
class Writer:
    """Draws texts; `ctes` are the ones in scope."""

    draw: st.DrawFn
    ctes: tuple[Rel, ...] = ()

    def one(self, options: Sequence[str]) -> str:
        return self.draw(st.sampled_from(options))

    def chance(self, percent: int) -> bool:
        return self.draw(st.integers(0, 99)) < percent

    def relation(self, depth: int, number: int) -> Rel:
        kind = self.draw(st.integers(0, 9))
        if kind < 2 and self.ctes:
            rel = self.draw(st.sampled_from(self.ctes))
        elif kind < 5 and depth > 0:
            inner = self.query(depth - 1)
            return Rel(f"({inner.text}) AS q{number}", f"q{number}", inner.cols)
        elif self.chance(8):
            return Rel(
                f"{self.one(WRITTEN_OUT)} AS q{number}(score, title, day)",
                f"q{number}",
                WRITTEN_COLS,
            )
        else:
            rel = BASES[self.one(SELDOM if self.chance(6) else OFTEN)]
        if rel.alias == "odd" and self.chance(70):
            cols = (*(col for col in rel.cols if col.type != "list"), Col("e", "int"))
            if self.chance(50):
                return Rel(f"(SELECT *, unnest(l) AS e FROM odd) AS q{number}", f"q{number}", cols)
            listed = f"(FROM odd AS o, unnest(o.l) AS t(e)) AS q{number}"
            return Rel(listed, f"q{number}", cols)
        if self.chance(60):
            return Rel(f"{rel.alias} {self.one(['AS ', ''])}q{number}", f"q{number}", rel.cols)
        return Rel(rel.alias, rel.alias, rel.cols)

    def join(self, left: list[Rel], right: Rel) -> str:
        side = self.one(
            ["JOIN", "JOIN", "JOIN", "INNER JOIN", "LEFT JOIN", "LEFT OUTER JOIN", "RIGHT JOIN"]
            if self.chance(90)
            else ["SEMI JOIN", "ANTI JOIN"]
        )
        pairs = [
            (a.person + b.person, r.alias, a, b)
            for r in left
            for a in r.cols
            for b in right.cols
            if a.type == b.type
        ]
        persons = [pair for pair in pairs if pair[0] == 2]
        links = [p for p in pairs if p[2].name == "order_id"]
        choice = (persons or links or pairs) if self.chance(85) else pairs
        if not choice or (not right.is_private and self.chance(15)):
            on = self.condition([*left, right]) if self.chance(50) else "TRUE"
            return f" {side} {right.text} ON {on}"
        _, alias, a, b = self.draw(st.sampled_from(choice))
        if a.name == b.name and self.chance(60):
            return f" {side} {right.text} USING ({a.name})"
        on = f"{alias}.{a.name} = {right.alias}.{b.name}"
        if self.chance(25):
            on += f" AND {self.condition([*left, right])}"
        return f" {side} {right.text} ON {on}"

    def condition(self, rels: Sequence[Rel], depth: int = 1) -> str:
        if depth and self.chance(25):
            word = self.one(["AND", "OR"])
            text = f"{self.condition(rels, 0)} {word} {self.condition(rels, 0)}"
            return f"({text})" if self.chance(50) else f"NOT ({text})"
        rel = self.draw(st.sampled_from(list(rels)))
        col = self.draw(st.sampled_from(rel.cols))
        name = f"{rel.alias}.{col.name}" if self.chance(80) or len(rels) > 1 else col.name
        if self.chance(3):
            return self.one(REFUSED).replace("{c}", name)
        if self.chance(10):
            return f"{name} IS {self.one(['', 'NOT '])}NULL"
        others = [c for c in rel.cols if c.type == col.type and c is not col]
        if self.chance(8):
            return self.matched(rels)
        if others and self.chance(15):
            return f"{name} {self.one(['=', '<', '<>', '>='])} {rel.alias}.{self.draw(st.sampled_from(others)).name}"
        return self.one(CONDITIONS[col.type]).replace("{}", name)

    def matched(self, rels: Sequence[Rel]) -> str:
        """IN and EXISTS over another table, most of them on the person."""
        pairs = [
            (rel, a, other, b)
            for rel in rels
            for a in rel.cols
            for other in BASES.values()
            for b in other.cols
            if a.type == b.type and a.person == b.person
        ]
        people = [pair for pair in pairs if pair[1].person]
        choice = people if people and self.chance(80) else pairs
        if not choice:
            return "EXISTS (SELECT 1 FROM ratings)"
        rel, a, other, b = self.draw(st.sampled_from(choice))
        inner = Rel(f"{other.alias} AS m", "m", other.cols)
        more = f" AND {self.condition([inner], 0)}" if self.chance(40) else ""
        both = [(c, d) for c in rel.cols for d in other.cols if c.type == d.type and c is not a]
        if both and self.chance(30):
            c, d = self.draw(st.sampled_from(both))
            more += f" AND {rel.alias}.{c.name} {self.one(['=', '=', '<', '>=', '<>'])} m.{d.name}"
        no, at = self.one(["", "NOT "]), f"{rel.alias}.{a.name}"
        if self.chance(40) and f"{rel.alias}." not in more:
            more = more.replace(" AND", " WHERE", 1)
            return f"{at} {no}IN (SELECT m.{b.name} FROM {inner.text}{more})"
        return f"{no}EXISTS (SELECT 1 FROM {inner.text} WHERE m.{b.name} = {at}{more})"

    def star(self, rel: Rel) -> tuple[str, list[Col]]:
        cols = list(rel.cols)
        text = f"{rel.alias}.*"
        kind = self.draw(st.integers(0, 5))
        at = self.draw(st.integers(0, len(cols) - 1))
        col = cols[at]
        if kind == 1 and len(cols) > 1:
            del cols[at]
            return f"{text} EXCLUDE ({col.name})", cols
        if kind == 2 and col.type in ITEMS:
            cols[at] = Col(col.name, "void")
            return (
                f"{text} REPLACE ({self.one(ITEMS[col.type]).replace('{}', f'{rel.alias}.{col.name}')} AS {col.name})",
                cols,
            )
        if kind == 3:
            cols[at] = replace(col, name="other")
            return f"{text} RENAME ({col.name} AS other)", cols
        same = [c for c in cols if c.type == col.type and c is not col]
        if kind == 4 and same:  # the column of a person takes another's name
            return f"{text} REPLACE ({rel.alias}.{same[0].name} AS {col.name})", [
                replace(same[0], name=col.name) if c is col else c for c in cols
            ]
        return text, cols

    def listed(self, rels: Sequence[Rel]) -> tuple[str, list[Col]]:
        if self.chance(30):
            parts = [self.star(rel) for rel in rels]
            if len(rels) == 1 and self.chance(50):
                return parts[0][0].split(".", 1)[1], parts[0][1]
            names = [col.name for _, cols in parts for col in cols]
            if len(names) == len(set(names)):
                return ", ".join(text for text, _ in parts), [c for _, cols in parts for c in cols]
        texts, found = [], []
        everything = [(rel, col) for rel in rels for col in rel.cols]
        people = [(rel, col) for rel, col in everything if col.person]
        for i in range(self.draw(st.integers(1, 4))):
            rel, col = self.draw(st.sampled_from(people if i == 0 and people else everything))
            name = f"{rel.alias}.{col.name}"
            if col.type in ITEMS and self.chance(30):
                texts.append(f"{self.one(ITEMS[col.type]).replace('{}', name)} AS e{i}")
                found.append(Col(f"e{i}", "void"))
            else:
                new = (
                    self.one([col.name, "user_id", "title", f"c{i}"])
                    if self.chance(40)
                    else col.name
                )
                new = f"c{i}" if new in {c.name for c in found} else new
                texts.append(name if new == col.name and self.chance(50) else f"{name} AS {new}")
                found.append(replace(col, name=new))
        return ", ".join(texts), found

    def window(self, rel: Rel, text: str, tail: str) -> tuple[str, str]:
        """A list with a window function whose value has no ties to break, and FROM with QUALIFY."""
        people = [col.name for col in rel.cols if col.person]
        keys = [self.one(people)] if people and self.chance(85) else []
        keys += [self.draw(st.sampled_from(rel.cols)).name] if self.chance(30) else []
        others = [
            col.name for col in rel.cols if col.type in {"big", "int", "text", "date", "bool"}
        ]
        order = (
            f"{self.one(others or people or ['title'])}{self.one(['', ' DESC', ' NULLS FIRST'])}"
        )
        over = f"PARTITION BY {', '.join(keys)}" if keys else ""
        call = self.one(["rank()", "dense_rank()", "count(*)"])
        over += f" ORDER BY {order}" if call != "count(*)" or self.chance(50) else ""
        tail += f" QUALIFY wn {self.one(['= 1', '> 1', '< 3'])}" if self.chance(40) else ""
        return f"{text}, {call} OVER ({over}) AS wn", tail

    def grouped(self, rels: Sequence[Rel], tail: str) -> Rel:
        text, cols = self.listed(rels[:1])
        keys = (
            [f"{i + 1}" for i in range(len(cols))]
            if "*" not in text
            else [f"{rels[0].alias}.{c.name}" for c in rels[0].cols]
        )
        column = self.draw(st.sampled_from(rels[-1].cols))
        name = f"{rels[-1].alias}.{column.name}"
        total = self.one(
            [
                "count(*)",
                f"count({name})",
                f"min({name})",
                f"max({name})",
                f"count(DISTINCT {name})",
                f"sum({name})",
            ]
        )
        by = "ALL" if self.chance(20) else ", ".join(keys)
        having = self.one(
            [
                "",
                "",
                " HAVING count(*) > 1",
                " HAVING many > 1",
                f" HAVING max({name}) IS NOT NULL",
                f" HAVING {name} IS NULL",
            ]
        )
        return Rel(
            f"SELECT {text}, {total} AS many {tail} GROUP BY {by}{having}",
            "",
            (*cols, Col("many", "void")),
        )

    def query(self, depth: int) -> Rel:
        if self.chance(3):
            return Rel(
                self.one(SHAPES).replace("{p}", self.one(list(BASES))), "", (Col("title", "text"),)
            )
        writer, prefix = self, ""
        if depth > 0 and self.chance(25):
            body = self.query(depth - 1)
            name = self.one(["w", "w2", "ratings", "catalog"])
            writer = Writer(self.draw, (*self.ctes, Rel(name, name, body.cols)))
            prefix = f"WITH {name} AS ({body.text}) "
        rels = [writer.relation(depth, 0)]
        tail = f"FROM {rels[0].text}"
        terms: list[str] = []
        while len(rels) < 3 and self.chance(35):
            right = writer.relation(max(depth - 1, 0), len(rels))
            join = writer.join(rels, right)
            if (
                " JOIN " in join
                and " ON " in join
                and join[:5] in {" JOIN", " INNE"}
                and self.chance(15)
            ):
                join, _, on = join.partition(" ON ")  # FROM a, b WHERE a.x = b.x
                join = f"{self.one([', ', ' CROSS JOIN '])}{join.partition('JOIN ')[2]}"
                terms.append(on)
            tail += join
            if not join.startswith((" SEMI", " ANTI")):
                rels.append(right)
        if self.chance(45):
            terms.append(writer.condition(rels))
        if terms:
            tail += f" WHERE {' AND '.join(terms)}"
        if self.chance(12):
            rel = writer.grouped(rels, tail)
        else:
            text, cols = writer.listed(rels)
            if len(rels) == 1 and self.chance(25):
                text, tail = writer.window(rels[0], text, tail)
                cols = [*cols, Col("wn", "big")]
            rel = Rel(
                f"SELECT {'DISTINCT ' if self.chance(12) else ''}{text} {tail}", "", tuple(cols)
            )
        if self.chance(10):
            word = self.one(
                ["UNION ALL"] * 6 + ["UNION", "EXCEPT", "INTERSECT", "UNION ALL BY NAME"]
            )
            other = rel.text if self.chance(70) else writer.query(0).text
            return Rel(f"{prefix}{rel.text} {word} {other}", "", rel.cols)
        extra = f" {self.one(TAILS)}" if self.chance(4) else ""
        return Rel(f"{prefix}{rel.text}{extra}", "", rel.cols)


@st.composite
def sources(draw: st.DrawFn, depth: int = 2) -> str:
    """The text of a query."""
    return Writer(draw).query(depth).text


@st.composite
def multiplied(draw: st.DrawFn) -> str:
    """The text of a query whose joins may multiply rows, over the tables of work_oracle.py."""
    writer = Writer(draw)
    inner = _chain(writer, writer.draw(st.integers(1, 4)))
    person = next((col.name for col in inner.cols if col.person), None)
    if person is None or writer.chance(60):
        return inner.text
    names = [f"{alias}.{col.name}" for alias in "ab" for col in inner.cols if not col.person]
    listed = ", ".join([f"a.{person}", *names[:1], *names[-1:]])  # a CTE joined with itself
    return f"WITH w AS ({inner.text}) SELECT {listed} FROM w a JOIN w b ON a.{person} = b.{person}"


def _chain(writer: Writer, n_joins: int) -> Rel:
    """A SELECT of a private table joined with others, one after the other."""
    rels = [_called(WIDE[writer.one(PEOPLE)], 0)]
    tail = f"FROM {rels[0].text}"
    for _ in range(n_joins):
        right = _called(WIDE[writer.one(PUBLIC if writer.chance(75) else PEOPLE)], len(rels))
        pairs = [
            f"{rel.alias}.{a.name} = {right.alias}.{b.name}"
            for rel in rels
            for a in rel.cols
            for b in right.cols
            if a.type == b.type and (not right.is_private or a.person * b.person)
        ]
        links = [
            f"{rel.alias}.{name} = {right.alias}.{name}"
            for name in ("order_id", "cart_id")
            for rel in rels
            if all(any(col.name == name for col in one.cols) for one in (rel, right))
        ]
        if pairs or links:
            side = writer.one(["JOIN", "JOIN", "LEFT JOIN"])
            on = writer.one(links if links and (not pairs or writer.chance(60)) else pairs)
            tail += f" {side} {right.text} ON {on}"
            if links and writer.chance(40):
                tail += f" AND {writer.one(links)}"
            rels.append(right)
            tail += f" AND {writer.condition(rels)}" if writer.chance(30) else ""
    tail += f" WHERE {writer.condition(rels)}" if writer.chance(45) else ""
    if writer.chance(15):
        return writer.grouped(rels, tail)
    text, cols = writer.listed(rels)
    return Rel(f"SELECT {text} {tail}", "", tuple(cols))


def _called(rel: Rel, number: int) -> Rel:
    return replace(rel, text=f"{rel.text} AS q{number}", alias=f"q{number}")


@st.composite
def databases(draw: st.DrawFn) -> Data:
    """What is in the tables."""
    return {
        table: draw(st.lists(st.tuples(st.sampled_from(owners), st.integers(0, 300)), max_size=7))
        for table, owners in OWNERS.items()
    }
