"""The SQL of a release that hands few rows to a UDF as one list: all else is counted in memory.

`dp(…)` becomes SQL that DuckDB runs, so no one can read its rows beforehand, as for few_rows.py. To
plan the SQL of release_select.py takes DuckDB longer than to run it over so few rows.
"""

from collections.abc import Iterable
from itertools import product
from math import prod

from dp_sql.privacy.plans.plan import Plan
from dp_sql.privacy.private_sql.few_rows import FewRows
from dp_sql.privacy.private_sql.group_ctes import keys_of
from dp_sql.privacy.private_sql.release_select import call_of, rows_of
from dp_sql.sql.formatting import literal
from dp_sql.sql.mechanism_rows import EMPTY_LIST
from dp_sql.sql.types import exact

IN_LISTS = "_in_lists"  # the end of the name of a UDF that takes the keys of groups, and rows
_MOST_GROUPS = 1 << 10


def rows_in_lists(plan: Plan, few: FewRows, ticket: str, execution: str) -> str | None:
    """The private SQL of one plan; None: its rows are not handed over as a list.

    few: how they are read. The groups are those that were read while the statement was planned.
    """
    lists, shape, call = few.lists, plan.parameters, call_of(ticket, execution)
    if few.are_added_up or not (few.kept and lists and prod(map(len, lists)) <= _MOST_GROUPS):
        return None
    sent = [range(1, len(one) + 1) if few.has_places else one for one in lists]
    keys = f"CAST(system.main.list_value({', '.join(map(_list, sent))}) AS BIGINT[][])"
    rows = f"coalesce(system.main.list(__dp_sent), {EMPTY_LIST})"
    drawn = f"SELECT {shape.udf}{IN_LISTS}({call}, {keys}, {rows}) AS __dp_drawn"
    number = "unnest(system.main.generate_series(1, system.main.length(__dp_drawn))) AS __dp_group"
    answers, listed = [number], ["__dp_group"]
    for place, (name, key) in enumerate(keys_of(plan).items()):
        shown = _list(combined[place] for combined in product(*lists))
        answers.append(f"unnest(CAST({shown} AS {key.type}[])) AS {name}")
        listed.append(f"{exact(name, key.type)} AS {name}")
    return (
        f"SELECT {', '.join(listed)}, {shape.value('__dp_answer', rows_of(plan))} AS __dp_value "
        f"FROM (SELECT {', '.join(answers)}, unnest(__dp_drawn) AS __dp_answer "
        f"FROM ({drawn} FROM ({few.sql}) AS __dp_sent) AS __dp_one) AS __dp_each"
    )


def _list(values: Iterable[str | int]) -> str:
    """The SQL of a list of strings: to a negative number belongs an operator."""
    return f"system.main.list_value({', '.join(literal(str(value)) for value in values)})"
