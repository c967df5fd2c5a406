"""Releases from few rows: one short SELECT reads them, and lists and answers are made here."""

from __future__ import annotations

import contextlib
import json
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from itertools import count, product, repeat
from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from dp_sql.engines.duckdb import many_rows, row_estimate
from dp_sql.engines.duckdb.arrow_rows import (
    LONG,
    comparable_in_arrow,
    halves,
    not_null,
    whole_numbers,
)
from dp_sql.engines.duckdb.frozen import Records, exact_value
from dp_sql.engines.duckdb.mechanism_udfs import answers_of
from dp_sql.engines.duckdb.sql_runner import SqlRunner
from dp_sql.privacy.plans.plan import Plan
from dp_sql.privacy.private_sql import few_rows
from dp_sql.privacy.private_sql.few_rows import FewRows
from dp_sql.sql.types import DIGITS_OF_64_BITS

if TYPE_CHECKING:
    from dp_sql.engines.duckdb.rows_in_memory import Rows

FEW = 1 << 16  # rows
FEW_MEMBERS = 1 << 12  # people in groups; of more, DuckDB adds up rows faster in arrays
_MOST = 1 << 18  # rows, if there are more than DuckDB estimated
_MOST_ITEMS = 1 << 14  # of a domain
_MOST_COUNTS = 1 << 22  # one for each item in each group
_MOST_COUNTED = (1 << 31) - 1  # rows of a person in a group


class _OnlySql(Exception):
    """There are too many rows, or what is in them is too long."""


class _Public(NamedTuple):
    """The keys of groups, as the rows have them and as they are shown; the items of a domain."""

    keys: Sequence[Any]
    shown: Sequence[tuple[Any, ...]]
    domain: Any


def read_shortly(plans: Sequence[Plan], engine: SqlRunner) -> FewRows | None:
    """How the rows of a bundle of plans are read here; None: they are not."""
    if not plans[0].parameters.in_memory:
        return None
    if adds_up := (n_rows := row_estimate.n_rows(plans[0], engine)) >= FEW:
        if any(plan.parameters.in_memory != "values" for plan in plans):
            return None
        n_members = row_estimate.n_members(plans[0], engine)
        if n_members >= min(FEW, FEW_MEMBERS) or many_rows.ROWS_EACH * n_members > n_rows:
            return None
    asked = plans, comparable_in_arrow, exact_value, engine.short_lists
    few = few_rows.few_rows(*asked, added_up=adds_up)
    if few and few.domain and row_estimate.n_rows_of(few.domain, engine) > _MOST_ITEMS:
        return None
    return few


def answered(
    plans: Sequence[Plan],
    tickets: Sequence[str],
    engine: SqlRunner,
    execution: tuple[int, int] | None = None,
    few: FewRows | None = None,
) -> Records | None:
    """Make the releases of a bundle of plans: rows as `exactly` has them; None: only SQL can.

    `execution`: the connection and query that the releases are for, if not this one. `few`: what
    `read_shortly` has returned for these plans. Raises what a mechanism refused, DuckDB's errors,
    or what reading its rows raises.
    """
    made_for = execution or (engine.state.number, 0)
    interrupts, made = engine.state.interrupts, None
    before = interrupts.n
    if (few := few or read_shortly(plans, engine)) is None:
        interrupts.check(before)
        return None
    with contextlib.suppress(_OnlySql):
        public = public_of(few, engine)
        made = _lists(plans, few, public, _read(few, engine))
    interrupts.check(before)
    if made is None:
        return None
    columns, (lists, listed) = [], made
    for plan, ticket, own in zip(plans, tickets, lists, strict=True):
        answers = answers_of(engine.tickets, ticket, made_for, own)
        pairs = zip(answers, listed, strict=False)
        columns.append([plan.parameters.shown(*one, plan.mechanism) for one in pairs])
    values = zip(*columns, strict=True)
    if not few.n_keys:
        return [*values]
    keyed = zip(public.shown, values, strict=True)
    return [(n, *keys, *value) for n, (keys, value) in enumerate(keyed, 1)]


def as_json(value: Any, kind: str) -> str:
    """What DuckDB's to_json makes of a list of one value of `answered`; its items are strings."""
    is_number = kind == "DOUBLE" and value is not None  # a string, as what Python rounds is
    return json.dumps([float(value) if is_number else value], default=index)


def public_of(few: FewRows, engine: SqlRunner) -> _Public:
    """What is public in the plans; it is asked once where it does not change."""
    known, asked = engine.state.public_sets, (few.groups, few.domain)
    found = known.get(asked) if known is not None else None
    if found is None:
        columns = _fetched(few.groups, engine, are_plain=few.are_plain) if few.groups else []
        domain = _fetched(few.domain, engine, are_plain=True)[0] if few.domain else None
        rows = zip(*(column.tolist() for column in columns[few.n_keys :]), strict=True)
        found = _Public(columns[: few.n_keys], [*rows], domain)
        if known is not None:
            known[asked] = found
    if few.lists:
        keys = [_plain_array(key) for key in zip(*product(*few.lists), strict=True)]
        shown = [  # as exact_value has them
            values if kind == "BIGINT" else [*map(str, values)]
            for values, kind in zip(few.lists, few.kinds, strict=True)
        ]
        found = found._replace(keys=keys, shown=[*product(*shown)])
    return found if few.known is None else found._replace(domain=_plain_array(few.known))


def _plain_array(values: Sequence[Any]) -> Any:
    return np.array(values, object if isinstance(values[0], str) else np.int64)


def rows_sql(few: FewRows) -> str:
    """The SELECT of the rows, of which there can be too many."""
    return f"{few.sql} LIMIT {_MOST + 1}"


def _read(few: FewRows, engine: SqlRunner) -> list[Any]:
    """The columns of the rows: their people, keys and items; numbers, or objects with NULLs."""
    columns = _fetched(rows_sql(few), engine, are_plain=few.are_plain)
    if len(columns[0]) > _MOST:
        raise _OnlySql
    return columns


def _added_up(few: FewRows, columns: Sequence[Any], n_rows: int) -> dict[int, dict[str, Any]]:
    """For each item: how many rows there are, and what they add up to, if a plan takes it."""
    items = [one for kept in few.kept for one in kept.items.items()]
    takes_sums = {i for i, item in items if item.sums}
    made, left = dict[int, dict[str, Any]](), deque(columns)
    while left:
        counts, i = left.popleft(), len(made)
        if counts.max(initial=0) > _MOST_COUNTED:
            raise _OnlySql
        made[i] = {"counts": counts.astype(np.int32)}
        if i in takes_sums:
            made[i]["sums"] = left.popleft()
    return made or {i: {"counts": np.zeros(n_rows, np.int32)} for i, _ in items}


def _fetched(select: str, engine: SqlRunner, *, are_plain: bool) -> list[Any]:
    """The columns of a SELECT, which may be masked arrays.

    DuckDB plans the SELECT of a relation twice, but arrow has moments and decimals as numbers.
    """
    if are_plain:
        parsed = engine.state.statements.get(select, select)  # if it was bound before
        return [*engine.run(parsed).fetchnumpy().values()]
    relation = engine.relate(select)
    assert relation is not None
    return [_from_arrow(one.combine_chunks()) for one in relation.to_arrow_table().columns]


def _from_arrow(column: Any) -> Any:
    import pyarrow as pa

    if not (pa.types.is_primitive(column.type) or pa.types.is_decimal(column.type)):
        return np.array(column.to_pylist(), object)
    if pa.types.is_decimal(column.type) and column.type.precision > DIGITS_OF_64_BITS:
        return halves(column)
    there, values = not_null(column), whole_numbers(column)
    return values if there is None else np.ma.array(values, mask=~there)


def _numbered(values: Any) -> tuple[Any, list[Any]]:
    """Numbers 0, 1, 2, … for the values of a column, and the value of each number."""
    from dp_sql.udfs.count_distinct.dense_numbers import Numbers

    if values.dtype.kind in "iu":
        numbers = Numbers()
        return numbers.of(values), numbers.codes.tolist()
    known = defaultdict[Any, int](count().__next__)
    return np.fromiter(map(known.__getitem__, values.tolist()), np.int32, len(values)), [*known]


def _rows(few: FewRows, public: _Public, columns: Sequence[Any]) -> tuple[Rows, list[Any]]:
    """The rows as numbers; and the item of each number, those of the domain first."""
    from dp_sql.engines.duckdb.rows_in_memory import Piece, Rows

    owners, people = _numbered(columns[0])
    keys, values, items = columns[1 : 1 + few.n_keys], columns[1 + few.n_keys :], list[Any]()
    if not few.kept:
        n_listed = 0 if public.domain is None else len(public.domain)
        if n_listed:
            values = [np.concatenate([public.domain, *values])]
        numbers, items = _numbered(values[0])
        values = [numbers[n_listed:]]
    rows = Rows()
    rows.has_groups, rows.n_people, rows.n_groups = bool(keys), len(people), len(public.shown)
    groups = _groups(few, public, keys) if keys else None
    if few.are_added_up:
        rows.pieces = [Piece(owners, groups, computed=_added_up(few, values, len(owners)))]
    else:
        nulls = [np.ma.getmask(one) for one in values]
        there = [None if mask is np.ma.nomask else ~mask for mask in nulls]
        read: list[Any] = [*map(np.ma.getdata, values)]
        rows.pieces = [Piece(owners, groups, read or [None], there or [None])]
    return rows, items


def _groups(few: FewRows, public: _Public, keys: Sequence[Any]) -> Any:
    """The number of each row's group; at least the number of groups if it is in none of them."""
    number, there = cast("Any", 0), cast("Any", True)
    if few.has_places:
        for values, places in zip(few.lists, keys, strict=True):
            number, there = number * len(values) + places - 1, there & (places > 0)
        return np.where(there, number, len(public.shown)).astype(np.int32)
    from dp_sql.udfs.count_distinct.dense_numbers import Numbers

    for of_groups, of_rows in zip(public.keys, keys, strict=True):
        numbers, _ = _numbered(np.concatenate([of_groups, of_rows]))
        number = Numbers().of(number << 32 | numbers).astype(np.int64)
    return number[len(public.shown) :].astype(np.int32)


def _lists(
    plans: Sequence[Plan], few: FewRows, public: _Public, columns: Sequence[Any]
) -> tuple[list[list[Any]], Iterable[Sequence[Any]]]:
    """The lists of each plan, for each column that its UDF takes; the items of each answer."""
    if few.are_counted:
        made, items = _counted(public.domain, *columns)
        return made, repeat(items)
    if few.n_keys and not public.shown:  # a table of them has lost all meanwhile
        raise _OnlySql
    rows, items = _rows(few, public, columns)
    if few.kept:
        return rows.summed(plans, few.kept), repeat(())
    if plans[0].parameters.in_memory == "pairs":
        pairs, codes = rows.pairs(few.cap)
        if plans[0].parameters.n_listed is None:
            return [pairs], repeat(())
        _check_long(items)
        return [pairs], [[items[i] for i in own.tolist()] for own in codes]
    items = items if public.domain is None else items[: len(public.domain)]
    _check_long(items)
    if rows.n_answers * len(items) > _MOST_COUNTS:
        raise _OnlySql
    order = sorted(range(len(items)), key=items.__getitem__)
    counts = rows.counts(few.cap, len(items))
    return [[[own[order] for own in counts]]], repeat([items[i] for i in order])


def _counted(domain: Any, items: Any, counts: Any) -> tuple[list[list[Any]], Sequence[Any]]:
    """The lists of one plan, and its items, from the items and how many people have each."""
    listed = (items if domain is None else domain).tolist()
    _check_long(listed)
    if domain is not None:
        known = dict(zip(items.tolist(), counts.tolist(), strict=True))
        counts = np.array([known.get(item, 0) for item in listed], np.int64)
    return [[[counts]]], listed


def _check_long(items: Sequence[Any]) -> None:
    """Leave items to DuckDB of which only the hash was sent."""
    if any(len(item) >= LONG for item in items if isinstance(item, str)):
        raise _OnlySql
