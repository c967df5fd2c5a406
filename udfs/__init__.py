"""Mechanisms: integers in, integers out. Knows no SQL, no DuckDB and no ledger.

Calling a mechanism here charges no budget: the caller must pay for it first.
"""

from collections.abc import Mapping
from types import MappingProxyType

from dp_sql.udfs.contributions import bounded_count, bounded_mean, bounded_sum, laplace
from dp_sql.udfs.count_distinct import greedy, matching, r2t, sampling, shifted_inverse
from dp_sql.udfs.groups import partition_selection
from dp_sql.udfs.histogram import k_norm
from dp_sql.udfs.mechanism import Mechanism, PrivacyLoss
from dp_sql.udfs.quantile import recursive
from dp_sql.udfs.select import exponential, gem, k_randomised_response, random_stopping, rnm_laplace
from dp_sql.udfs.topk import joint, limited_domain, peeling, subset, weighted_gaussian

__all__ = ["REGISTRY", "Mechanism", "PrivacyLoss"]

_ALL = (
    joint.JOINT, joint.PNF_JOINT, peeling.EM_PEEL, peeling.PNF_PEEL, peeling.CDP_PEEL,
    subset.SUBSET, limited_domain.LIMITED_DOMAIN, weighted_gaussian.WEIGHTED_GAUSSIAN,
    matching.MATCHING, greedy.GREEDY, sampling.SAMPLING, r2t.R2T, shifted_inverse.SHIFTED_INVERSE,
    exponential.EXPONENTIAL, exponential.PNF, rnm_laplace.RNM_LAPLACE, exponential.RNM_GUMBEL,
    gem.GEM, gem.MGEM, gem.COMBINED_GEM,
    random_stopping.RANDOM_STOPPING, random_stopping.RANDOM_STOPPING_TNB,
    k_randomised_response.K_RANDOMISED_RESPONSE,
    bounded_count.BOUNDED_COUNT, bounded_sum.BOUNDED_SUM, bounded_mean.BOUNDED_MEAN,
    laplace.LAPLACE, k_norm.K_NORM, partition_selection.PARTITION_SELECTION,
    recursive.RECURSIVE,
)  # fmt: skip

REGISTRY: Mapping[str, Mapping[str, Mechanism]] = MappingProxyType(
    {
        function: MappingProxyType({one.name: one for one in _ALL if one.function == function})
        for function in dict.fromkeys(one.function for one in _ALL)
    }
)
"""The mechanisms of each function, by the names that `mechanism :=` takes."""
