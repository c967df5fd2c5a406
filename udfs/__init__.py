"""Mechanisms: integers in, integers out. Knows no SQL, no DuckDB and no ledger.

Calling a mechanism here charges no budget: the caller must pay for it first.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from types import MappingProxyType

from dp_sql.udfs.mechanism import Mechanism, PrivacyLoss

__all__ = ["REGISTRY", "Mechanism", "PrivacyLoss"]

# Where the mechanisms of each function are; each is a constant of its name in upper case.
_MODULES = {
    "topk": {
        "topk.joint": "joint pnf_joint", "topk.peeling": "em_peel pnf_peel cdp_peel",
        "topk.subset": "subset", "topk.limited_domain": "limited_domain",
        "topk.weighted_gaussian": "weighted_gaussian",
    },
    "count_distinct": {
        "count_distinct.matching": "matching", "count_distinct.greedy": "greedy",
        "count_distinct.sampling": "sampling", "count_distinct.r2t": "r2t",
        "count_distinct.shifted_inverse": "shifted_inverse",
    },
    "select": {
        "select.exponential": "exponential pnf rnm_gumbel", "select.rnm_laplace": "rnm_laplace",
        "select.gem": "gem mgem combined_gem",
        "select.random_stopping": "random_stopping random_stopping_tnb",
        "select.k_randomised_response": "k_randomised_response",
    },
    "count": {"contributions.bounded_count": "bounded_count"},
    "sum": {"contributions.bounded_sum": "bounded_sum"},
    "avg": {"contributions.bounded_mean": "bounded_mean"},
    "people": {"contributions.laplace": "laplace"},
    "histogram": {"histogram.k_norm": "k_norm"},
    "group_rows": {"histogram.chosen_norm": "chosen_norm"},
    "groups": {
        "groups.partition_selection": "partition_selection",
        "groups.chosen_selection": "chosen_selection",
    },
    "quantile": {"quantile.recursive": "recursive"},
}  # fmt: skip


class _Mechanisms(Mapping[str, Mechanism]):
    """The mechanisms of a function; each is imported when it is asked for, as few of them are."""

    def __init__(self, modules: Mapping[str, str]) -> None:
        self._module_of = {name: m for m, names in modules.items() for name in names.split()}

    def __getitem__(self, name: str) -> Mechanism:
        mechanism = getattr(import_module(f"{__name__}.{self._module_of[name]}"), name.upper())
        assert isinstance(mechanism, Mechanism)
        return mechanism

    def __iter__(self) -> Iterator[str]:
        return iter(self._module_of)

    def __len__(self) -> int:
        return len(self._module_of)


REGISTRY: Mapping[str, Mapping[str, Mechanism]] = MappingProxyType(
    {function: _Mechanisms(modules) for function, modules in _MODULES.items()}
)
"""The mechanisms of each function, by the names that `mechanism :=` takes."""
