"""The mechanisms as UDFs over arrow arrays, which is how DuckDB passes columns."""

from collections.abc import Callable, Mapping, Sequence, Sized
from functools import cache, wraps
from inspect import Parameter, Signature
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_sql.engines.duckdb.arrow_rows import arrow_numbers, arrow_strings, lengths, without_views
from dp_sql.engines.duckdb.tickets import Drawn, Tickets
from dp_sql.errors import InternalError
from dp_sql.privacy.plans.plan import Plan
from dp_sql.privacy.private_sql.release_select import GROUPS
from dp_sql.sql.functions import FUNCTIONS
from dp_sql.sql.functions.avg import LAST
from dp_sql.sql.mechanism_rows import PAIRS
from dp_sql.sql.shape import EachGroup
from dp_sql.udfs.exact_sampling import secret_draws
from dp_sql.udfs.mixed import Mixed, Singles
from dp_sql.udfs.randomness import fair_bytes

# A UDF's name, the callable, the SQL types that it takes after the ticket, and its own.
Udf = tuple[str, Callable[..., Any], list[str], str]


def mechanism_udfs(tickets: Tickets) -> list[Udf]:
    """For each kind of answer a UDF for one group, and one for a list of groups."""
    found: list[Udf] = []
    shapes = dict.fromkeys(shape for f in FUNCTIONS.values() for shape in f.shapes)
    for shape in shapes:
        takes = list(shape.takes.values())
        for name, answer in shape.udfs.items():
            found.append((name, _udf(tickets, _draw, takes, answer), takes, answer))
            lists, answers = [f"{kind}[]" for kind in takes], f"{answer}[]"
            draw: Callable[..., Drawn[Any]] = _draw_groups
            if shape.mixes_groups:
                lists, draw = ["BIGINT", "BIGINT[]", *takes], _draw_mixed
            found.append((name + GROUPS, _udf(tickets, draw, lists, answers), lists, answers))
    return found


def _udf(
    tickets: Tickets, draw: Callable[..., Drawn[Any]], takes: Sequence[str], answer: str
) -> Callable[..., Any]:
    """The UDF of a draw: one row per release."""

    def one(ticket: str, execution: tuple[int, int], *lists: Any) -> Any:
        def run(plan: Plan) -> Drawn[Any]:
            return draw(plan, *(_value(x, kind) for x, kind in zip(lists, takes, strict=True)))

        return tickets.redeem(ticket, execution, run)

    return _by_rows(one, len(takes), answer)


def answers_of(
    tickets: Tickets, ticket: str, execution: tuple[int, int], lists: Sequence[Any]
) -> Sequence[Any]:
    """Redeem a ticket with what the UDF takes of all groups: an answer for each of them."""
    return answers_from(tickets, ticket, execution, lambda _: lists)


def answers_from(
    tickets: Tickets,
    ticket: str,
    execution: tuple[int, int],
    make: Callable[[Plan], Sequence[Any]],
) -> Sequence[Any]:
    """Redeem a ticket with lists that are made once it is taken and its loss is reserved."""

    def run(plan: Plan) -> Drawn[list[Any]]:
        lists, mixes = make(plan), plan.parameters.mixes_groups
        if plan.keys:
            return (_draw_mixed if mixes else _draw_groups)(plan, *lists)
        drawn = _draw(plan, *(lists[2:] if mixes else (one[0] for one in lists)))
        return Drawn([drawn.value], drawn.accuracy, drawn.n_runs)

    return tickets.redeem(ticket, execution, run)


def _by_rows(one: Callable[..., Any], n_columns: int, answer: str) -> Callable[..., Any]:
    """A UDF (tickets, connections, queries, *columns) of a function of one row's scalars."""

    def udf(*columns: Any) -> Any:
        answers = []
        for ticket, connection, query, *values in zip(*columns, strict=True):
            execution = (connection.as_py(), query.as_py())
            answers.append(one(ticket.as_py(), execution, *values))
        return arrow_values(answers, answer)

    return with_parameters(udf, range(3 + n_columns))


def with_parameters(udf: Callable[..., Any], parameters: Sized) -> Callable[..., Any]:
    """A UDF with the signature by which DuckDB counts its parameters."""
    udf.__signature__ = _signature(len(parameters))  # type: ignore[attr-defined]
    return udf


def in_arrow_memory(udf: Callable[..., Any]) -> Callable[..., Any]:
    """A UDF whose answers are in memory of Arrow's own, which DuckDB's threads free by themselves.

    To free memory of Python's, they need its lock. Whoever runs the query may hold it while waiting
    for them, as `con.sql(query, params=…)` of DuckDB 1.5 does; a program that ends closes it.
    """

    @wraps(udf)
    def copied(*columns: Any) -> Any:
        import pyarrow as pa

        answer = udf(*columns)
        return pa.concat_arrays([answer, answer[:0]])  # of one alone, there would be no copy

    return copied


@cache
def _signature(n_parameters: int) -> Signature:
    names = [f"column_{i}" for i in range(n_parameters)]
    return Signature([Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names])


def _draw(plan: Plan, *lists: Any) -> Drawn[Any]:
    return Drawn(*plan.parameters.draw(plan.mechanism, plan.loss, *lists))


def _draw_groups(plan: Plan, *lists: Sequence[Any]) -> Drawn[list[Any]]:
    """The answers of all groups, as one release."""
    if len(lists) == 1 and isinstance(mixed := lists[0], Mixed):
        return _draw_each(plan, Singles(mixed))
    return _draw_each(plan, [*zip(*lists, strict=True)])


def _draw_each(plan: Plan, each: EachGroup) -> Drawn[list[Any]]:
    groups, parameters = plan.groups, plan.parameters
    cap = None if groups is None else groups.cap
    values, accuracy, n_runs = parameters.draw_groups(plan.mechanism, plan.loss, cap, each)
    if plan.finding is not None:
        accuracy = f"{plan.finding.accuracy(parameters.beta)}; {accuracy}"
    if groups is not None and groups.unused:
        accuracy += f"; {groups.unused}"
    return Drawn(values, accuracy, n_runs)


def _draw_mixed(plan: Plan, n_groups: int, group_of_each: Any, *lists: Any) -> Drawn[list[Any]]:
    """The answers of all groups, numbered 1, 2, …, from lists that hold the entries of all."""
    owners, columns = np.asarray(group_of_each) - 1, lists
    if (owners[1:] < owners[:-1]).any():
        order = np.argsort(owners, kind="stable")
        places = order.tolist()
        columns = tuple(
            [one[i] for i in places] if isinstance(one, list) else one[order] for one in lists
        )
        owners = owners[order]
    return _draw_each(plan, Mixed(n_groups, owners, columns))


def keep_udf(tickets: Tickets) -> Callable[..., Any]:
    """Some of each person's groups, by chance alone: sizes → the places kept, from 1."""

    def keep(ticket: str, execution: tuple[int, int], sizes: Any, cap: Any) -> Any:
        each = _value(sizes, "BIGINT[]")
        return tickets.draw_once(ticket, execution, lambda: _kept_places(each, cap.as_py()))

    return _by_rows(keep, 2, "BIGINT[][]")


def keep_bits(own: Any, caps: Any) -> Any:
    """A UDF of rows: of groups that are the bits of a number, at most a cap of them."""
    from dp_sql.udfs.contributions.slots import draw_groups

    numbers = _integers(own.combine_chunks(), np.int64)
    return arrow_numbers(draw_groups(numbers, caps[0].as_py(), secret_draws()), "int64")


def keep_bytes(own: Any, caps: Any) -> Any:
    """A UDF of rows: of groups that are the bits of BLOBs of one size, at most a cap of them."""
    import pyarrow as pa

    from dp_sql.udfs.contributions.slots import draw_bits

    each = pa.binary(len(own[0].as_py()))
    (_, found) = without_views(own.combine_chunks()).cast(each).buffers()
    bits = np.frombuffer(found, np.uint8).reshape(len(own), -1)
    kept = pa.py_buffer(draw_bits(bits, caps[0].as_py(), secret_draws()))
    return pa.Array.from_buffers(each, len(own), [None, kept]).cast(pa.binary())


def dense(pairs: Any, sizes: Any) -> Any:
    """A UDF of rows: from pairs of an item's code and a count, the counts of codes 0, 1, 2, …."""
    counts = []
    for row, size in zip(pairs, sizes, strict=True):
        codes, found = _pairs(row)
        counts.append(np.zeros(size.as_py(), np.int64))
        counts[-1][codes] = found
    return arrow_values([arrow_numbers(one, "int64") for one in counts], "BIGINT[]")


def means(rows: Any, nets: Any, bounds: Any) -> Any:
    """A UDF of rows: the summary of DP_AVG, from how many rows people have and their net sums."""
    import pyarrow as pa

    from dp_sql.udfs.contributions.summaries import means as summed

    counts, sums = (column.combine_chunks() for column in (rows, nets))
    ends = np.append(0, np.cumsum(lengths(counts), dtype=np.int64))
    numbers, nets = _integers(counts.flatten(), np.int64), sums.flatten()
    words = np.frombuffer(nets.buffers()[1] or b"", np.int64).reshape(-1, 2)
    words = np.ascontiguousarray(words[nets.offset : nets.offset + len(nets)])
    made = summed(numbers, words, ends, bounds[0].as_py(), LAST)
    fields = {name: arrow_numbers(made[name], "int64") for name in ("code", "bucket", "people")}
    fields["total"] = arrow_strings([*map(str, made["total"])])
    entries = pa.StructArray.from_arrays([*fields.values()], [*fields])
    places = np.searchsorted(made["group"], np.arange(len(counts) + 1))
    return pa.ListArray.from_arrays(arrow_numbers(places, "int32"), entries)


def found_groups(
    tickets: Tickets, ticket: str, execution: tuple[int, int], groups: Any, people: Any
) -> list[int]:
    """The groups that a plan may show, from who is in which; drawn once for an execution."""

    def draw() -> list[int]:
        finding = tickets.plan(ticket).finding
        if finding is None:
            raise InternalError("This ticket finds no groups.")
        found: list[int] = finding.mechanism.run(groups, people, **finding.parameters)
        return found

    return tickets.draw_once(ticket, execution, draw, "found")


def find_udf(tickets: Tickets) -> Callable[..., Any]:
    """The UDF that finds the groups that a plan may show, from pairs of a group and a person."""

    def find(ticket: str, execution: tuple[int, int], pairs: Any) -> Any:
        return found_groups(tickets, ticket, execution, *_value(pairs, PAIRS))

    return _by_rows(find, 1, "BIGINT[]")


def key_udf(tickets: Tickets) -> Callable[..., Any]:
    """The key of a plan's sample of items, in hexadecimal digits."""

    def key(ticket: str, execution: tuple[int, int]) -> Any:
        def draw() -> str:
            from dp_sql.udfs.count_distinct.item_sample import KEY_BYTES

            return f"{secret_draws().below(1 << 8 * KEY_BYTES):0{2 * KEY_BYTES}x}"

        return tickets.draw_once(ticket, execution, draw, "key")

    return _by_rows(key, 0, "VARCHAR")


def _kept_places(sizes: NDArray[Any], cap: int) -> Any:
    """The places of each person's groups that are kept, from 1, as an arrow array."""
    import pyarrow as pa

    kept = secret_draws().subsets(sizes, cap)
    places = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes) + 1
    numbers = np.append(0, np.cumsum(np.minimum(sizes, cap)))
    return pa.ListArray.from_arrays(
        arrow_numbers(numbers, "int32"), arrow_numbers(places[kept], "int64")
    )


def words_of_rows(rows: Any) -> Any:
    """A UDF: 64 fair bits for each row, whatever is in it."""
    import pyarrow as pa

    words = pa.py_buffer(fair_bytes(8 * len(rows)))
    return pa.Array.from_buffers(pa.int64(), len(rows), [None, words])


def _value(scalar: Any, kind: str) -> Any:
    """An arrow scalar of an SQL type, as the shapes in sql/functions take it."""
    if kind in _READERS:
        return _READERS[kind](scalar)
    return [_value(one, kind.removesuffix("[]")) for one in scalar.values]


def _pairs(scalar: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Pairs as an array of items and one of people."""
    pairs = scalar.values
    if pairs.null_count:
        raise InternalError("A NULL where only pairs are expected.")
    return _integers(pairs.field(0), np.int32), _integers(pairs.field(1), np.int64)


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "BIGINT": lambda scalar: scalar.as_py(),
    "BIGINT[]": lambda scalar: _integers(scalar.values, np.int64),
    PAIRS: _pairs,
    "VARCHAR[]": lambda scalar: scalar.as_py(),
}


def _integers(array: Any, dtype: type[np.signedinteger[Any]]) -> NDArray[Any]:
    """An arrow array without NULLs as numpy; arrow's own to_numpy would import pandas first."""
    if array.null_count:
        raise InternalError("A NULL where only numbers are expected.")
    values = np.frombuffer(array.buffers()[1] or b"", dtype=dtype)
    return values[array.offset : array.offset + len(array)]


_NUMBERS = {"BIGINT": "int64", "INTEGER": "int32", "DOUBLE": "float64"}


def arrow_values(values: Sequence[Any], kind: str) -> Any:
    """Values of an SQL type as an arrow array; pyarrow's own way would import pandas first."""
    import pyarrow as pa

    if kind in _NUMBERS:
        return arrow_numbers(values, _NUMBERS[kind])
    if kind == "VARCHAR":
        return arrow_strings(values)
    if kind.endswith("[]"):
        inside: Any
        if values and isinstance(values[0], pa.Array):
            inside = pa.concat_arrays(values)
        else:
            inside = arrow_values([x for one in values for x in one], kind.removesuffix("[]"))
        ends = list(accumulate((len(one) for one in values), initial=0))
        return pa.ListArray.from_arrays(arrow_numbers(ends, "int32"), inside)
    if not kind.startswith("STRUCT("):
        raise InternalError(f"No arrow type is known for {kind}.")
    fields = dict(field.split(" ") for field in kind[len("STRUCT(") : -1].split(", "))
    columns = []
    for name, inner in fields.items():
        column = [value[name] for value in values]
        if inner == "VARCHAR":
            columns.append(arrow_strings(column))
        else:
            valid = [x is not None for x in column]
            columns.append(arrow_numbers([x or 0 for x in column], _NUMBERS[inner], valid))
    return pa.StructArray.from_arrays(columns, list(fields))
