"""Does a call answer all groups with one vector of noise, or each of them under a cap? Pure."""

from dataclasses import replace

from dp_sql.privacy.plans.plan import Finding, Groups
from dp_sql.sql.arguments import DpCall
from dp_sql.sql.shape import Vector

_IN_ALL = "a person counts in all of their groups"
_LIMITED = "a limit on what a person adds to the counts takes the place of a cap"


def over_public_groups(
    call: DpCall, groups: Groups, accountant: str | None = None
) -> tuple[DpCall, Groups]:
    """The call as a vector over all groups where it needs no cap, or is closer than with this one.

    Public numbers alone decide. The cap stays where the number of groups is not known, under the
    accountant "zcdp", whose rho is lower with a cap, and where the call names its mechanism.
    """
    cap, n = groups.cap, groups.size
    vector = call.parameters.vector() if cap else call.parameters.vector(n)
    if vector is None:
        return call, groups
    free = None if n is None else vector.error_bound(n)
    if cap is None:
        why = _LIMITED if free is None else _IN_ALL
        if free is not None and n != 1:
            why += f": all {n} counts are within ± {free}"
        return _together(call, vector), groups._replace(why=why)
    capped = None if n is None else vector.capped_error_bound(n, cap)
    keeps_cap = accountant == "zcdp" or call.names_mechanism_of_people
    if keeps_cap or n is None or free is None or capped is None or free > capped:
        why = f"a person counts in at most max_groups_contributed = {cap} of their groups"
        if capped is not None:
            why += f": the noise in all {n} counts is within ± {capped}"
            why += f"; without it, within ± {free}"
        return call, groups._replace(why=why)
    vector = call.parameters.vector(n, drops_cap=True) or vector
    free = vector.error_bound(n)
    noise = f"the noise in all {n} counts is within ±"
    compared = f"with it, {noise} {capped}"
    if free is not None:
        compared = f"without it, {noise} {free}; with it, within ± {capped}"
    unused = f"max_groups_contributed = {cap} is not used: {compared}"
    why = f"{_LIMITED if free is None else _IN_ALL}; {unused}"
    return _together(call, vector), groups._replace(cap=None, why=why, unused=unused)


def _together(call: DpCall, vector: Vector) -> DpCall:
    """The call as a vector; ArgumentError if it names a mechanism for one group at a time."""
    if call.names_mechanism_of_people:
        named = call.given["mechanism"]
        raise named.refuse(
            f"With GROUP BY, {vector.mechanism.name} draws the noise of all counts together.",
            "Leave out mechanism, or write max_groups_contributed.", [named.omitted()],
        )  # fmt: skip
    return replace(call, parameters=vector, mechanism=vector.mechanism)


def over_found_groups(call: DpCall, finding: Finding, is_single: bool) -> tuple[DpCall, Groups]:
    """A call over the groups found."""
    shape, cap = call.parameters, call.max_groups_contributed
    why = f"unknown: {finding.accuracy(shape.beta)}"
    vector = None if is_single or cap else shape.vector(None)
    if vector is not None:
        why += f"; {_LIMITED}"
        call = _together(call, vector)
    elif not is_single:
        cap = cap or 1
        why += f"; a person counts in at most max_groups_contributed = {cap} of the groups found"
    return call, Groups("", None if is_single else cap, why=why, finding=finding)
