"""The user's statement with releases in it: text in, text out. Writes; never runs.

Each DP call becomes a column of its release, the source the releases; all else stays as written.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice

from sqlglot import exp

from dp_sql.privacy.plans.plan import Released
from dp_sql.sql.clauses import OF_ANSWERS, Span, enclosing_select
from dp_sql.sql.dp_select import DpSelect
from dp_sql.sql.formatting import quote
from dp_sql.sql.sqlglot_tree import Unreadable, projection, tree_of
from dp_sql.sql.tokens import Edit, Tokens, edited, folded


def outer_sql(
    text: str,
    span: tuple[int, int],
    selects: Sequence[DpSelect],
    releases: Sequence[Released],
    edits: Sequence[Edit] = (),
) -> str:
    """The statement text[span] that reads its releases in place of its sources.

    `releases` are those of the calls, in the order of the text; `edits` are others to make, outside
    the sources and calls of the SELECTs.
    """
    named = ((one, f"__dp_release_{n}") for n, one in enumerate(releases, 1))
    made = list(edits)
    for select in selects:
        made += _edits(select, list(islice(named, len(select.calls))))
    return edited(text, made + _names_around(tuple(selects)), *span)


def _edits(select: DpSelect, releases: Sequence[tuple[Released, str]]) -> list[Edit]:
    """Edits that make one SELECT read its releases: for each call a release and its name.

    A relation that has several of them is read once, under the name of the first.
    """
    edits, aliases = [*_same_edits(select)], dict[str, str]()
    for (relation, _), name in releases:
        aliases.setdefault(relation, name)
    values = {name: f"{aliases[relation]}.{value}" for (relation, value), name in releases}
    relations = ", ".join(f"{relation} AS {alias}" for relation, alias in aliases.items())
    source = _side_by_side(select, aliases, values) if select.keys else relations
    edits.append((*select.clauses["FROM"], f"FROM {source}"))
    columns = [
        f"(__dp_groups.{name})" if select.keys else f"({value})" for name, value in values.items()
    ]
    edits += [(*call.span, column) for call, column in zip(select.calls, columns, strict=True)]
    edits += [(*span, columns[number]) for span, number in select.repeats]
    return edits


@lru_cache(256)
def _same_edits(select: DpSelect) -> list[Edit]:
    """The edits that are the same for all releases."""
    edits, clauses = _key_edits(select) if select.keys else [], select.clauses
    edits += [(*clauses[word], "") for word in ("WHERE", "GROUP") if word in clauses]
    if "HAVING" in clauses:  # over released columns, which are not groups any more
        start, _ = clauses["HAVING"]
        edits.append((start, start + len("HAVING"), "WHERE"))
    return edits + _alias_edits(select)


def _side_by_side(select: DpSelect, aliases: Mapping[str, str], values: Mapping[str, str]) -> str:
    """The relations of one grouped SELECT as one: the keys by their names, and values by theirs."""
    (relation, first), *others = aliases.items()
    keys = {f"__dp_key_{i}": quote(key.parts[-1]) for i, key in enumerate(select.keys)}
    listed = [f"{first}.{key} AS {name}" for key, name in keys.items()]
    listed += [f"{value} AS {name}" for name, value in values.items()]
    joined = f"{relation} AS {first}"
    for relation, alias in others:
        # By keys, not by numbers: where two readings of a source differ, so may the numbers.
        same = " AND ".join(f"{alias}.{key} IS NOT DISTINCT FROM {first}.{key}" for key in keys)
        joined += f" JOIN {relation} AS {alias} ON {same}"
    return f"(SELECT {', '.join(listed)} FROM {joined}) AS __dp_groups"


def _key_edits(select: DpSelect) -> list[Edit]:
    """Replace a key with its table's name, gone after rewriting, outside queries in brackets."""
    names = {folded(key.parts[-1]): key.parts[-1] for key in select.keys}
    tables = _source_names(select)
    edits = []
    later = [span for word, span in select.clauses.items() if word in OF_ANSWERS]
    for span in (*(item.span for item in select.items), *later):
        places = select.key_places(span)
        edits += [(*place, f"__dp_groups.{quote(key.parts[-1])}") for place, key in places]
        beside = select.beside_calls(span).outside_queries()
        tokens = beside.outside([place for place, _ in places])
        for i, token in enumerate(tokens):
            chain = Tokens() if tokens.at(i - 1).is_symbol(".") else tokens.dotted(i)
            *table, name = (part.folded for part in chain[::2] or [token])
            if table and name in names and table[-1] in tables:
                edits.append((token.start, chain[-1].end, f"__dp_groups.{quote(names[name])}"))
    return edits


def _source_names(select: DpSelect) -> set[str]:
    """What the relations of the source are called, folded."""
    written = {folded(key.parts[-2]) for key in select.keys if len(key.parts) > 1}
    try:
        tree = tree_of(f"SELECT 1 FROM {select.source_text}\n")
    except Unreadable:
        return written
    clauses = [tree.args.get("from_"), *(tree.args.get("joins") or [])]
    return written | {folded(clause.this.alias_or_name) for clause in clauses if clause is not None}


def with_releases(
    body: str, tokens: Tokens, start: int, releases: Sequence[tuple[str, str]]
) -> str:
    """The query `body` with each release (name, SQL) as a CTE, computed once however often read.

    It was written as `tokens`, from the offset `start`; a leading WITH is kept and extended.
    """
    ctes = ", ".join(f"{name} AS MATERIALIZED ({sql})" for name, sql in releases)
    if tokens[0].upper != "WITH":
        return f"WITH {ctes} {body}"
    last = tokens[1] if tokens[1].upper == "RECURSIVE" else tokens[0]
    after = last.end - start
    return f"{body[:after]} {ctes},{body[after:]}"


def _alias_edits(select: DpSelect) -> list[Edit]:
    """Give an item without an alias the name that DuckDB would have given it."""
    edits = []
    for item in select.items:
        start, stop = item.span
        calls, is_window = select.calls_in((start, stop)), "WINDOW" in select.clauses
        name = edited(select.text, [(*at, call.display) for at, call in calls], start, stop)
        # DuckDB would write a named window out. Where sqlglot cannot read an item, DuckDB names it.
        is_shown = calls or is_window or select.key_places((start, stop))
        tree = projection(name) if is_shown else None
        if tree is not None and not isinstance(tree, exp.Alias | exp.Aliases):
            edits.append((stop, stop, f" AS {quote(name)}"))
    return edits


@lru_cache(256)
def _names_around(selects: tuple[DpSelect, ...]) -> list[Edit]:
    """Name items around a subquery with a DP call; DuckDB would print the released number there."""
    calls = [one for select in selects for one in select.call_places]
    named = {item.span for select in selects for item in select.items if item.has_call}
    items: dict[Span, Tokens] = {}
    for select in selects:
        items |= {item.span: item for item in _items_around(select, items)}
    edits = []
    for span, item in items.items():
        inside = [one for one in calls if span[0] <= one[0][0] < span[1]]
        is_named = span in named or item.at(1).is_symbol(":")
        if not inside or is_named or "columns" in item.called():  # COLUMNS(…) may be several
            continue
        name = edited(item[0].source, [(*at, call.display) for at, call in inside], *span)
        tree = projection(name)
        if tree is not None and not isinstance(tree, exp.Alias | exp.Aliases):
            edits.append((span[1], span[1], f" AS {quote(' '.join(name.split()))}"))
    return edits


def _items_around(select: DpSelect, known: Collection[Span]) -> Iterator[Tokens]:
    """The expressions of SELECT lists around a SELECT, and beside these; none if one is known."""
    tokens, first = select.tokens, select.calls[0].start
    if any(start <= first < stop for start, stop in known):
        return
    for start, _ in tokens.queries_around(tokens.place_at(first))[:-1]:
        clause = enclosing_select(tokens, start - 1).clause_of(start - 1)
        if clause is not None and clause.keyword == "SELECT":
            begin = clause.start + 1 + (tokens[clause.start + 1].upper in {"DISTINCT", "ALL"})
            yield from (tokens[a:b] for a, b in tokens.split(begin, clause.stop) if a < b)
