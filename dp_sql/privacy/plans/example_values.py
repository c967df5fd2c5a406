"""Values of a type as an example of a domain or of groups. Pure."""

import re
from datetime import date, timedelta

from dp_sql.sql.formatting import literal
from dp_sql.sql.types import UP_TO_64_BITS, family

EXAMPLE_OF = {
    "VARCHAR": "['a', 'b']", "ENUM": "['a', 'b']", "BOOLEAN": "[TRUE, FALSE]",
    "DATE": "['2024-01-31']", "TIME": "['12:00:00']", "TIMESTAMP": "['2024-01-31 12:00:00']",
}  # fmt: skip
_BINS = re.compile(  # floor(x / 50) * 50, round(x, -2), and what Metabase writes: … * 50.0) + 0.0
    r"(?:\*\s*([1-9]\d{0,8})(?:\.0+)?|,\s*-\s*([1-9])\s*\))(?:\s*\)\s*\+\s*0(?:\.0+)?)?"
    r"(?:\s+AS\s+\w+(?:\(\d+,\s*\d+\))?\s*\))?$",
    re.I,
)


def example_list(item_type: str, size: int) -> str:
    """A list of so many values of a type, as an example."""
    kind = family(item_type)
    if kind == "DATE" or kind.startswith("TIMESTAMP"):
        days = (date(2024, 1, 1) + timedelta(day) for day in range(size))
        return f"[{', '.join(f'{literal(str(day))}' for day in days)}]"
    if kind in {"BOOLEAN", *EXAMPLE_OF} and kind not in {"VARCHAR", "ENUM"}:
        return EXAMPLE_OF[kind]
    shown = "'value {}'" if kind in {"VARCHAR", "ENUM"} else "{}"
    return f"[{', '.join(shown.format(i) for i in range(1, size + 1))}]"


def example_bins(key: str, item_type: str) -> str:
    """Values of a key that is a whole number, as an example; of bins, the first ten.

    >>> example_bins("floor(x / 50) * 50", "BIGINT")
    'range(0, 500, 50)'
    """
    found = _BINS.search(key)
    width = int(found[1] or 10 ** int(found[2])) if found else 0
    if family(item_type) not in UP_TO_64_BITS and not (width and family(item_type) == "DECIMAL"):
        return ""
    return f"range(0, {10 * width}, {width})" if width else "range(11)"
