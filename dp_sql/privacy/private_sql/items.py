"""The items of a plan as SQL over its source, and which of them it counts."""

from dp_sql.privacy.plans.plan import Plan
from dp_sql.sql.types import as_bytes


def item_of(plan: Plan, place: int) -> str:
    """The item of a plan as SQL over its source; NULL if it is not in the plan's sample."""
    column, rate = plan.columns["item"], plan.parameters.sample_items
    item = plan.parameters.column("item", column.sql, column.type)
    if rate is None:
        return item
    from dp_sql.udfs.count_distinct.item_sample import threshold  # few calls take a sample

    keyed = f"(SELECT key FROM {key_of(place)}), {as_bytes(column.sql, column.type)}"
    digest = f'system.main.sha256(system.main."||"({keyed})) COLLATE "binary"'
    return f"CASE WHEN {digest} < '{threshold(rate):016x}' THEN {item} END"


def key_of(place: int) -> str:
    """The relation that holds the key of a plan's sample."""
    return f"__dp_sample_{place + 1}"


def lists_items(plan: Plan) -> bool:
    """Whether the domain of a plan is all items in its rows."""
    return plan.domain is not None and plan.domain.select is None
