"""Mechanisms: integers in, integers out. Knows no SQL, no DuckDB and no ledger.

This floor is the dangerous one: whoever calls a mechanism here has to have paid for it.
"""

from collections.abc import Mapping
from types import MappingProxyType

from udfs.count_distinct import greedy, matching, r2t, sampling, shifted_inverse
from udfs.select import (
    combined_gem,
    exponential,
    gem,
    k_randomised_response,
    mgem,
    pnf,
    random_stopping,
    random_stopping_tnb,
    rnm_gumbel,
    rnm_laplace,
)
from udfs.spec import Loss, Udf
from udfs.topk import cdp_peel, em_peel, joint, limited_domain, pnf_joint, pnf_peel

__all__ = ["REGISTRY", "Loss", "Udf"]

_ALL = (
    joint.UDF,
    pnf_joint.UDF,
    em_peel.UDF,
    pnf_peel.UDF,
    cdp_peel.UDF,
    limited_domain.UDF,
    matching.UDF,
    greedy.UDF,
    sampling.UDF,
    r2t.UDF,
    shifted_inverse.UDF,
    exponential.UDF,
    pnf.UDF,
    rnm_laplace.UDF,
    rnm_gumbel.UDF,
    gem.UDF,
    mgem.UDF,
    combined_gem.UDF,
    random_stopping.UDF,
    random_stopping_tnb.UDF,
    k_randomised_response.UDF,
)

REGISTRY: Mapping[str, Mapping[str, Udf]] = MappingProxyType(
    {
        function: MappingProxyType({udf.name: udf for udf in _ALL if udf.function == function})
        for function in ("topk", "count_distinct", "select")
    }
)
"""For each function its mechanisms, by the names that `mechanism :=` takes."""
