"""The SQL functions: a file each, which declares it and all that differs from the others.

To add one, write its shape and its declaration, and list it here; its mechanisms are in
`udfs.REGISTRY`. bounded.py, vectors.py and amount_sql.py are no functions: several share them.
"""

from collections.abc import Mapping

from dp_sql.sql.functions.avg import DP_AVG
from dp_sql.sql.functions.count import DP_COUNT
from dp_sql.sql.functions.count_distinct import DP_COUNT_DISTINCT
from dp_sql.sql.functions.quantile import DP_MEDIAN, DP_QUANTILE
from dp_sql.sql.functions.select import DP_SELECT
from dp_sql.sql.functions.sum import DP_SUM
from dp_sql.sql.functions.topk import DP_TOPK
from dp_sql.sql.shape import Function
from dp_sql.sql.tokens import Token

FUNCTIONS: Mapping[str, Function] = {
    f.name: f
    for f in (
        DP_TOPK,
        DP_COUNT_DISTINCT,
        DP_COUNT,
        DP_SUM,
        DP_AVG,
        DP_QUANTILE,
        DP_MEDIAN,
        DP_SELECT,
    )
}


def names_function(token: Token) -> bool:
    """Whether a token is the name of an SQL function, perhaps in quotes."""
    return (token.name or "").upper() in FUNCTIONS


def function_of(token: Token) -> Function:
    """The SQL function that a token names."""
    return FUNCTIONS[(token.name or "").upper()]
