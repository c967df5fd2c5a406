"""Mechanisms: integers in, integers out. Knows no SQL, no DuckDB and no ledger.

This floor is the dangerous one: whoever calls a mechanism here has to have paid for it.
"""

from collections.abc import Mapping
from types import MappingProxyType

from udfs import em_peel, joint, matching, pnf_peel
from udfs.spec import Loss, Udf

__all__ = ["REGISTRY", "Loss", "Udf"]

REGISTRY: Mapping[str, Mapping[str, Udf]] = MappingProxyType(
    {
        "topk": MappingProxyType(
            {"joint": joint.UDF, "em_peel": em_peel.UDF, "pnf_peel": pnf_peel.UDF}
        ),
        "count_distinct": MappingProxyType({"matching": matching.UDF}),
    }
)
