"""Sizes of memory, as a policy and DuckDB write them."""

import re
from fractions import Fraction

_WRITTEN = re.compile(r"(\d{1,12})(\.\d{1,6})? ?([kmgt])(i?)b", re.IGNORECASE | re.ASCII)


def size_in_bytes(text: str) -> int:
    """The bytes of a size, as DuckDB reads it: "1.5 GB", "64MiB"; ValueError if it is none."""
    found = _WRITTEN.fullmatch(text)
    if found is None:
        raise ValueError(text)
    unit = (1024 if found[4] else 1000) ** ("kmgt".index(found[3].lower()) + 1)
    return int(Fraction(found[1] + (found[2] or "")) * unit)
