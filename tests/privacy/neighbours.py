"""What mechanisms take of two databases that differ in one person: how far may that person move it?

It knows the lists of each shape (dp_sql/sql/functions), and nothing of how they are made.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from dp_sql.privacy.plans.plan import Plan

Moved = dict[Any, tuple[int, int]]
"""By keys that end with a bucket: how many people more there are, and how much more they add up to."""


def moved(some: Iterable[tuple[Any, int, Any]], others: Iterable[tuple[Any, int, Any]]) -> Moved:
    """What changes between two summaries, of keys, people and totals."""
    found = defaultdict[Any, list[int]](lambda: [0, 0])
    for sign, rows in ((1, some), (-1, others)):
        for key, people, total in rows:
            found[key][0] += sign * people
            found[key][1] += sign * _whole(total)
    return {key: (n, total) for key, (n, total) in found.items() if n or total}


def _whole(total: Any) -> int:
    high, low = map(int, f"0 {total}".split()[-2:])  # sums have two halves
    return (high << 64) + low


def check_one(change: Moved, bound: int | None = None) -> None:
    """One person is in one bucket, with what is within it and within the bound."""
    assert sum(n for n, _ in change.values()) <= 1
    for (*_, bucket), (n, total) in change.items():
        assert n == 1
        assert (1 << bucket) // 2 < total <= 1 << bucket
        assert bound is None or total <= bound


def _bound(plan: Plan) -> int | None:
    """The bound that a call states on one person's contribution."""
    shape: Any = plan.parameters
    bound: int | None = shape.bound
    return bound


def _count(plan: Plan, some: Sequence[Any], others: Sequence[Any]) -> None:
    change = moved(*([((b,), n, t) for b, n, t in zip(*x, strict=True)] for x in (some, others)))
    check_one(change, _bound(plan))


def _sum(plan: Plan, some: Sequence[Any], others: Sequence[Any]) -> None:
    rows = ([((s, b), n, t) for b, n, s, t in zip(*x, strict=True)] for x in (some, others))
    check_one(moved(*rows), _bound(plan))


def _mean(plan: Plan, some: Sequence[Any], others: Sequence[Any]) -> None:
    """At each place one sum, which is whole at the place of the person's rows and at no later one."""
    shape: Any = plan.parameters
    change = moved(
        *([((c, b), n, t) for c, b, n, t in zip(*x, strict=True)] for x in (some, others))
    )
    own = {key: value for key, value in change.items() if key[0] < 0}
    check_one(own, shape.bound)
    for place in range(64):
        at = {key: value for key, value in change.items() if key[0] >= 0 and key[0] >> 2 == place}
        check_one(at)
        for (code, _), (_, total) in at.items():
            (((_, bucket), (_, n)),) = own.items()
            assert shape.bound or (place <= bucket and (code >> 1 & 1) == (place == bucket))
            if shape.ends is not None:
                rows = min(shape.bound or 1 << place, n)
                assert total <= rows * (shape.ends[1] - shape.ends[0]) << 16


def _number(plan: Plan, some: Sequence[Any], others: Sequence[Any]) -> None:
    assert 0 <= int(some[0]) - int(others[0]) <= (_bound(plan) or 1)


def _votes(_: Plan, some: Sequence[Any], others: Sequence[Any]) -> None:
    assert (Counter(some[0]) - Counter(others[0])).total() <= 1
    assert not Counter(others[0]) - Counter(some[0])


def _items(plan: Plan, some: Sequence[Any], others: Sequence[Any]) -> None:
    ours, theirs = some[0], others[0]
    if plan.mechanism.finds_items:  # as many as there are, the largest first
        theirs = [*theirs, *[0] * (len(ours) - len(theirs))]
    elif plan.groups is None:  # the domain in any order, which moves no probability
        ours, theirs = sorted(ours), sorted(theirs)
    assert all(0 <= a - b <= 1 for a, b in zip(ours, theirs, strict=True))


def _pairs(_: Plan, some: Sequence[Any], others: Sequence[Any]) -> None:
    ours, theirs = ({*zip(*x[0], strict=True)} for x in (some, others))
    assert 0 <= len({p for _, p in ours}) - len({p for _, p in theirs}) <= 1
    for bound in (1, 2, 3):
        assert 0 <= covered(ours, bound) - covered(theirs, bound) <= bound


def _cover(plan: Plan, some: Sequence[Any], others: Sequence[Any]) -> None:
    given, of_bounds = plan.parameters.mechanism_arguments(plan.mechanism), plan.mechanism.bounds
    assert of_bounds is not None
    for bound, ours, theirs in zip(of_bounds(**given), some[0], others[0], strict=True):
        assert 0 <= ours - theirs <= bound


def covered(pairs: Iterable[tuple[int, int]], bound: int) -> int:
    """How many items are covered if each person covers so many, by augmenting paths."""
    items, owner = defaultdict[int, set[int]](set), dict[int, int]()
    for item, person in pairs:
        items[person].add(item)

    def covers(person: int, seen: set[int]) -> bool:
        for item in items[person] - seen:
            seen.add(item)
            if item not in owner or covers(owner[item], seen):
                owner[item] = person
                return True
        return False

    return sum(covers(person, set()) for person in items for _ in range(bound))


_CHECKS: Mapping[str, Callable[[Plan, Sequence[Any], Sequence[Any]], None]] = {
    "Count": _count, "Sum": _sum, "Avg": _mean, "CountPeople": _number, "PeopleOfGroups": _number,
    "RowsOfGroups": _number, "Median": _votes, "Quantile": _votes, "TopK": _items,
    "TopKOfPairs": _pairs, "CountDistinct": _pairs, "CountOfCover": _cover,
}  # fmt: skip


def _limit(groups: Sequence[Sequence[Any]], others: Sequence[Sequence[Any]], bound: int) -> None:
    """One person in each of their groups, and in one for all; see RowsUnderChosenLimit."""
    both = [
        [((s, g if s in {0, 2} else 0, b), n, t) for g, one in enumerate(x)
         for s, b, n, t in zip(*one, strict=True)]
        for x in (groups, others)
    ]  # fmt: skip
    sides: list[dict[int, tuple[int, int, int]]] = [{}, {}, {}, {}]
    for (side, group, bucket), (n, total) in moved(*both).items():
        assert group not in sides[side]
        sides[side][group] = bucket, n, total
    rows = {group: total for group, (*_, total) in sides[0].items()}
    if not rows:
        assert not any(sides)
        return
    whole, most = sum(rows.values()), max(rows.values())
    assert not bound or most <= bound
    assert sides[0] == {g: ((n - 1).bit_length(), 1, n) for g, n in rows.items()}
    assert sides[2] == {g: ((whole - 1).bit_length(), 1, n) for g, n in rows.items()}
    assert [*sides[1].values()] == [((most - 1).bit_length(), 1, most)]
    assert [*sides[3].values()] == [((whole - 1).bit_length(), 1, whole)]


def _shown(lists: Sequence[Any]) -> Any:
    """The lists of a group; of pairs how often each code occurs, as codes are numbered anew."""
    first = lists[0]
    if isinstance(first, list) and len(first) == 2 and isinstance(first[0], list):
        return [sorted(Counter(codes).values()) for codes in first]
    return lists


def check(plan: Plan, is_grouped: bool, some: Sequence[Any], others: Sequence[Any]) -> None:
    """The lists of one draw, with a person and without, differ as the plan's loss assumes.

    Raises AssertionError.
    """
    name = type(plan.parameters).__name__
    if not is_grouped:
        _CHECKS[name](plan, some, others)
        return
    groups, theirs = ([*zip(*lists, strict=True)] for lists in (some, others))
    assert len(groups) == len(theirs)
    if name in {"RowsUnderChosenLimit", "PeopleUnderChosenLimit"}:
        _limit(groups, theirs, plan.parameters.fixed_bound)
        return
    differ = [(a, b) for a, b in zip(groups, theirs, strict=True) if _shown(a) != _shown(b)]
    cap = None if plan.groups is None else plan.groups.cap
    assert plan.parameters.is_vector or len(differ) <= (cap or 1)
    for a, b in differ:
        _CHECKS[name](plan, a, b)
