"""Values of people from rows in memory: exact counts, sums and means, and one row drawn fairly."""

from collections import Counter
from fractions import Fraction
from functools import reduce
from itertools import combinations_with_replacement, permutations, product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dp_sql.udfs import exact_sampling as exact
from dp_sql.udfs.contributions import slots as shipped
from dp_sql.udfs.contributions import summaries
from dp_sql.udfs.exact_sampling import Draws, secret_draws
from dp_sql.udfs.mechanism import FRACTION_BITS
from tests.udfs.compiling import changed_kernels
from tests.udfs.distributions import distribution_of

LARGE = (1 << 63) - 1
LAST = 5  # the last place, in these tests


def int32s(*numbers: int) -> Any:
    return np.array(numbers, np.int32)


# --- places ---


def distribution_of_places(
    sizes: tuple[int, ...], n_words: int, limit: int, *, shared: bool = False
) -> tuple[Any, Fraction]:
    """The distribution of the shipped draw from words below n_words, and what is unfinished."""

    def run(path: Any) -> tuple[int, ...]:
        def half_words(n: int) -> Any:
            drawn = [path.below(n_words) for _ in range(1 if shared else n)]
            return np.resize(np.array(drawn, np.int64), n)

        draws = Draws(path)
        draws._half_words = half_words  # type: ignore[method-assign]
        return tuple(draws.places(np.array(sizes)).tolist())

    return distribution_of(run, {}, limit)


def is_uniform(sizes: tuple[int, ...], distribution: Any) -> bool:
    wanted = {*product(*(range(max(n, 1)) for n in sizes))}
    return distribution.keys() == wanted and len({*distribution.values()}) == 1


@pytest.mark.parametrize(
    ("sizes", "n_words", "limit"), [((3,), 4, 5), ((4,), 4, 1), ((0, 3, 1, 2), 4, 4), ((3,), 5, 4)]
)
def test_all_places_are_equally_likely(
    monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, ...], n_words: int, limit: int
) -> None:
    monkeypatch.setattr(exact, "_SPACE", n_words)
    distribution, unfinished = distribution_of_places(sizes, n_words, limit)
    assert is_uniform(sizes, distribution)
    assert unfinished < Fraction(1, 2)


@pytest.mark.parametrize("space", [6, 9])
def test_words_that_should_be_rejected_favour_some_places(
    monkeypatch: pytest.MonkeyPatch, space: int
) -> None:
    monkeypatch.setattr(exact, "_SPACE", space)
    assert not is_uniform((3,), distribution_of_places((3,), 4, 5)[0])


def test_places_that_share_their_words_are_not_independent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "_SPACE", 4)
    assert is_uniform((2, 4), distribution_of_places((2, 4), 4, 4)[0])
    assert not is_uniform((2, 4), distribution_of_places((2, 4), 4, 4, shared=True)[0])


def test_places_from_the_system_are_below_their_sizes_and_differ() -> None:
    drawn = Counter(
        secret_draws().places(np.array([0, 1, 3] * 2_000)).reshape(-1, 3)[:, 2].tolist()
    )
    assert {*drawn} == {0, 1, 2} and all(
        abs(n - 667) < 220 for n in drawn.values()
    )  # ten deviations
    with pytest.raises(TypeError, match="integers"):
        secret_draws().places(np.array([1.0]))


DIVISOR = 67_280_421_310_721  # of 2^64 + 1: of its last block of words one is missing
BEYOND_32_BITS = [2**32 + 1, 3 * 2**40, DIVISOR, 2**62 - 57, 2**62 + 1, 2**63 - 1]


def takes_words_fairly(n: int) -> bool:
    """Whether word w draws place w mod n below the last multiple of n in 2^64, and else another."""
    end = 2**64 // n * n
    for word in {0, 1, n - 1, n, n + 1, end - n - 1, end - n, end - 1, end, end + 1, 2**64 - 1}:
        if word < 2**64:
            words = iter([word, 7])
            (place,) = Draws(lambda _, words=words: next(words)).places(np.array([n])).tolist()
            if place != (word % n if word < end else 7):
                return False
    return True


@pytest.mark.parametrize("n", BEYOND_32_BITS)
def test_large_places_are_drawn_from_equally_many_words(n: int) -> None:
    assert takes_words_fairly(n)


def test_a_word_too_many_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Draws._large_places
    monkeypatch.setattr(Draws, "_large_places", lambda draws, n: (right(draws, n)[0], n > 0))
    assert not any(map(takes_words_fairly, BEYOND_32_BITS))


@pytest.mark.parametrize("kind", [np.int64, object])
def test_large_and_small_places_have_words_of_their_own(kind: Any) -> None:
    words = iter([2**33 + 5, 2] if kind is object else [(2**33 + 5) | 14 << 64])
    draws = Draws(lambda _: next(words))
    assert draws.places(np.array([2**40, 0, 1, 3], kind)).tolist() == [2**33 + 5, 0, 0, 2]


# --- one row drawn ---


def votes_of(slots: tuple[int, ...], n_slots: int) -> dict[tuple[int, ...], Fraction]:
    """The distribution of the rows drawn; the item of a row is its number, from 1."""

    def run(path: Any) -> tuple[int, ...]:
        rows = int32s(*slots)
        counts = shipped.count_rows(rows, n_slots)
        items = np.arange(1, len(slots) + 1)
        return tuple(shipped.draw_items(rows, items, counts, path).tolist())

    return distribution_of(run, {})[0]


def check_votes() -> None:
    """For all rows of up to three people: each draws one of their own, whatever others have."""
    for n_rows in range(5):
        for slots in product(range(4), repeat=n_rows):  # 3: rows that do not count
            own = [[i for i, s in enumerate(slots, 1) if s == slot] or [0] for slot in range(3)]
            share = Fraction(1, prod(map(len, own)))
            assert votes_of(slots, 3) == dict.fromkeys(product(*own), share)


def test_each_person_draws_one_of_their_rows_whatever_others_have() -> None:
    check_votes()


def votes_of_parts(parts: list[tuple[int, ...]], n_slots: int) -> dict[tuple[int, ...], Fraction]:
    """The distribution of the shipped draws from rows that come in parts."""

    def run(path: Any) -> tuple[int, ...]:
        made, n_before = list[Any](), 0
        for slots in parts:
            rows, items = int32s(*slots), np.arange(1, len(slots) + 1) + n_before
            counts, n_before = shipped.count_rows(rows, n_slots), n_before + len(slots)
            votes = shipped.draw_items(rows, items, counts, path)
            made.append({"counts": counts, "votes": votes})
        together = reduce(lambda one, other: shipped.combined(one, other, path), made)
        assert together["counts"].tolist() == [
            sum(part.count(slot) for part in parts) for slot in range(n_slots)
        ]
        return tuple(together["votes"].tolist())

    return distribution_of(run, {})[0]


def check_votes_of_parts() -> None:
    """For all rows of up to two people in up to three parts: as drawn from all rows at once."""
    for n_rows in range(5):
        for slots in product(range(3), repeat=n_rows):  # 2: rows that do not count
            whole = votes_of(slots, 2)
            for i, j in combinations_with_replacement(range(n_rows + 1), 2):
                assert votes_of_parts([slots[:i], slots[i:j], slots[j:]], 2) == whole


def test_rows_in_parts_have_the_votes_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    check_votes_of_parts()
    real = shipped.combined

    def fair_coin(one: Any, other: Any, draws: Any) -> Any:
        """A mutant: each part's vote is as likely, if both have rows."""
        made = real(one, other, draws)
        both = {"counts": np.minimum(one["counts"], 1) + np.minimum(other["counts"], 1)}
        is_first = draws.places(both["counts"].astype(np.int64)) < np.minimum(one["counts"], 1)
        return made | {"votes": np.where(is_first, one["votes"], other["votes"])}

    monkeypatch.setattr(shipped, "combined", fair_coin)
    with pytest.raises(AssertionError):
        check_votes_of_parts()


def test_sums_of_rows_in_parts_are_exact() -> None:
    some = [0, 1, -1, LARGE, -LARGE - 1, 5 - LARGE]
    for items in product(some, repeat=4):
        slots, values = int32s(0, 1, 0, 0), np.array(items, np.int64)
        none = {"counts": int32s(0, 0)}
        for end in range(5):
            parts = [
                none | {"sums": shipped.add_items(slots[part], values[part], 2)}
                for part in (slice(end), slice(end, 4))
            ]
            sums = shipped.combined(*parts, secret_draws())["sums"]
            assert sums.tolist() == shipped.add_items(slots, values, 2).tolist()


def test_equal_items_of_a_slot_are_left_out() -> None:
    for rows in product(product(range(2), (-1, 0, 2)), repeat=4):
        slots, items = zip(*rows, strict=True)
        found = shipped.different_items(int32s(*slots), np.array(items, np.int64))
        assert sorted(zip(*map(list, found), strict=True)) == sorted({*rows})
    assert [one.size for one in shipped.different_items(int32s(), np.array([], np.int64))] == [0, 0]


# --- sums and means ---


def bucket(size: int) -> int:
    return (size - 1).bit_length()


def expected_means(people: list[list[int]], bound: int | None) -> dict[tuple[int, int], Any]:
    """The summary of DP_AVG, written anew: code and bucket -> people and total."""
    found: dict[tuple[int, int], list[int]] = {}
    for rows in people:
        own, net = len(rows), sum(rows)
        if not own:
            continue
        whole = min(abs(net), 1 << 70) << FRACTION_BITS
        kept = own if bound is None else min(own, bound)
        sizes = [(-1, kept)]
        places = [0] if bound is not None else range(min(bucket(own), LAST) + 1)
        for place in places:
            most = kept if bound is not None else 1 << place
            is_all = place == (0 if bound is not None else bucket(own))
            size = whole if bound is None and is_all else whole * most // own
            sizes.append((4 * place + 2 * is_all + (net < 0), size))
        for code, size in sizes:
            if size:
                entry = found.setdefault((code, bucket(size)), [0, 0])
                entry[0] += 1
                entry[1] += size
    return found


PEOPLE: list[list[list[int]]] = [
    [[], [1], [-1], [0], [5, -5], [7] * 3, [-LARGE] * 9, [LARGE] * 200, [-LARGE - 1] * 260],
    [[3] * n for n in range(40)],
    [[-2, 1] * n + [10**9] for n in range(70)],
    [[], []],
]


def rows_of(people: list[list[int]]) -> tuple[Any, Any, int]:
    """Rows of the people, mixed."""
    pairs = [(slot, item) for slot, rows in enumerate(people) for item in rows]
    pairs += [(len(people), 17)] * 3  # rows that do not count
    np.random.default_rng(1).shuffle(pairs)
    return int32s(*(s for s, _ in pairs)), np.array([i for _, i in pairs], np.int64), len(people)


def means_of(counts: Any, sums: Any, bound: int) -> list[tuple[int, int, int, int]]:
    """The summary of people who are twice in a list, once in each of two groups, behind one of no one."""
    twice = np.concatenate([counts, counts]), np.concatenate([sums, sums])
    made = summaries.means(*twice, np.array([0, 0, counts.size, 2 * counts.size]), bound, LAST)
    columns = [[*made[name]] for name in ("code", "bucket", "people", "total")]
    rows = [*zip(*columns, strict=True)]
    assert [*made["group"]] == [1] * (len(rows) // 2) + [2] * (len(rows) // 2)
    assert rows[: len(rows) // 2] == rows[len(rows) // 2 :]
    return rows[: len(rows) // 2]


def check_means() -> None:
    for people in PEOPLE:
        slots, items, n_slots = rows_of(people)
        counts, sums = shipped.count_rows(slots, n_slots), shipped.add_items(slots, items, n_slots)
        assert counts.tolist() == [*map(len, people)]
        assert [(high << 64) + low % (1 << 64) for low, high in sums.tolist()] == [
            *map(sum, people)
        ]
        for bound in (None, 1, 3, 1000):
            made = means_of(counts.astype(np.int64), sums, bound or 0)
            assert {(code, at): [n, total] for code, at, n, total in made} == (
                expected_means(people, bound)
            )


def test_sums_and_means_are_exact() -> None:
    check_means()


def test_what_is_left_of_a_division_by_very_many_rows_is_dropped() -> None:
    n, whole = 3 << 38, 1 << 60 + FRACTION_BITS
    low, high = np.array([1 << 60]), np.array([0])
    made = means_of(np.array([n]), np.stack([low, high], axis=1), 0)
    sizes = [(4 * place, (whole // n) << place) for place in range(LAST + 1)]
    assert made == [(code, bucket(size), 1, size) for code, size in [(-1, n), *sizes]]


# --- rows in groups ---


def check_rows() -> None:
    """Rows in groups that are kept have slots of their own, all others none."""
    many = [*product((0, 1, 3), (4_000, 1, 0, 61, 62))] * 2 + [(1, 64)]
    few = [(0, 1), (1, 2), (1, 0), (3, 0), (0, 2), (3, 2), (3, 0)]  # a table is made of two groups
    for n_groups, pairs in ((4_001, many), (65, many), (62, many), (2, few)):
        parts = [
            (int32s(*(p for p, _ in some)), int32s(*(g for _, g in some)))
            for some in (pairs[:5], pairs[5:])
        ]
        owners, own = shipped.own_groups(parts, 5, n_groups)
        every = [*zip(owners.tolist(), own.tolist(), strict=True)]
        assert every == sorted({pair for pair in pairs if pair[1] < n_groups})
        for seed in range(40):
            drawn = np.random.default_rng(seed).integers(0, 2, len(every)).astype(bool)
            counted = [pair for pair, is_there in zip(every, drawn, strict=True) if is_there]
            placed = shipped.place_rows(parts, owners[drawn], own[drawn], 5, n_groups)
            rows = [*placed[0][0].tolist(), *(5 + row for row in placed[1][0].tolist())]
            assert rows == [k for k, pair in enumerate(pairs) if pair in counted]
            slots = [*placed[0][1].tolist(), *placed[1][1].tolist()]
            assert slots == [counted.index(pairs[k]) for k in rows]


def summed_up(made: Any, keys: int) -> dict[Any, Any]:
    rows = [*zip(*(map(int, column) for column in made.values()), strict=True)]
    assert len({row[:keys] for row in rows}) == len(rows)
    return {row[:keys]: list(row[keys:]) for row in rows}


def check_summaries() -> None:
    """People by their rows, and by their sums, in each group: as written down without a kernel."""
    people = [
        {0: 3, 2: 4},
        {1: 1},
        {},
        {0: 0, 1: 7, 2: 7},
        {2: 2**30, 0: 2**30},
        {5: 2},
        {0: 3, 3: 0},
    ]
    slots = [(p, g, n) for p, own in enumerate(people) for g, n in own.items()]
    owners, counts = int32s(*(p for p, _, _ in slots)), int32s(*(n for _, _, n in slots))
    groups = np.array([g for _, g, _ in slots])
    values = summaries.Values(owners, groups, 6, counts)
    for bound in (0, 1, 2):
        wanted = Counter[Any](), Counter[Any]()
        for each in people:
            own = {g: min(n, bound or n) for g, n in each.items()}
            whole, most = sum(own.values()), max(own.values(), default=0)
            first = min((g for g, n in own.items() if n == most), default=0, key=[*own].index)
            sides = [(g, i, by or n, n) for i, by in ((0, 0), (2, whole)) for g, n in own.items()]
            for g, side, by, n in [*sides, (first, 1, most, most), (first, 3, whole, whole)]:
                if n:
                    wanted[0][g, side, bucket(by)] += 1
                    wanted[1][g, side, bucket(by)] += n
        found = summed_up(summaries.rows_under_limit(values, bound), 3)
        assert found == {key: [wanted[0][key], wanted[1][key]] for key in wanted[0]}
    bounded = Counter((g, bucket(min(n, 3))) for _, g, n in slots if n)
    found = summed_up(summaries.rows_by_size(values, 3), 2)
    assert {key: n for key, (n, _) in found.items()} == bounded
    assert sum(total for _, total in found.values()) == sum(min(n, 3) for _, _, n in slots)
    nets = [0, 2**99 - 3, -1, 2**63, -(2**63) - 1, 2**99 - 1, -(2**70), 2**64 - 1, 2**70, 3, -5]
    words = np.array([[n % 2**64 - 2**64 * (n % 2**64 >= 2**63), n >> 64] for n in nets], np.int64)
    for bound, above in product((0, 2, 2**65), (0, 1)):
        kept = [
            (g, int(n < 0), min(abs(n), bound or abs(n)))
            for (_, g, _), n in zip(slots, nets, strict=True)
        ]
        sums = dict[Any, list[int]]()
        for g, side, n in kept:
            if n and side <= 1 - above:
                entry = sums.setdefault((g, side, bucket(n)), [0, 0, 0])
                entry[0], entry[1] = entry[0] + 1, entry[1] + n
        assert (
            summed_up(summaries.sums_by_size(values._replace(sums=words), bound, above), 3) == sums
        )


def test_people_are_summed_up_by_what_they_contribute(monkeypatch: pytest.MonkeyPatch) -> None:
    check_summaries()
    monkeypatch.setattr(summaries, "_CELLS", 1)  # a group at a time
    monkeypatch.setattr(summaries, "_ENTRIES", 1)
    check_summaries()


def check_parts() -> None:
    """Summaries of parts of the people, of which one is empty, are merged to that of all."""
    numbers = np.random.default_rng(5)
    for huge in (False, True):
        owners = np.repeat(np.arange(40), 3).astype(np.int32)
        groups, counts = np.tile([0, 1, 3], 40), numbers.integers(0, 9, 120).astype(np.int32)
        nets = [int(n) << 70 * huge for n in numbers.integers(-20, 20, 120)]
        words = np.array([[n % 2**64 - 2**64 * (n % 2**64 >= 2**63), n >> 64] for n in nets])
        every = summaries.Values(owners, groups, 4, counts, words.astype(np.int64), counts * 2)

        def part(which: Any, every: summaries.Values = every) -> summaries.Values:
            return summaries.Values(*(x[which] if np.ndim(x) else x for x in every))

        for make in (
            lambda v: summaries.rows_under_limit(v, 0),
            summaries.votes_by_group,
            lambda v: summaries.rows_in_all(v, 3),
            lambda v: summaries.rows_by_size(v, 5),
            lambda v: summaries.sums_by_size(v, 0, 0),
            lambda v: summaries.sums_by_size(v, 2**62, 1),
            lambda v: summaries.means_by_size(v, 3, LAST),
        ):
            parts = [part((owners % 3 == i) & (owners < 40)) for i in (0, 2, 3, 1)]
            merged, whole = reduce(summaries.merged, map(make, parts)), make(every)
            assert {*merged} == {*whole}
            both = [sorted(zip(*map(list, one.values()), strict=True)) for one in (merged, whole)]
            assert [*merged["group"]] == sorted(merged["group"])
            assert both[0] == both[1]


def test_summaries_of_parts_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    check_parts()
    monkeypatch.setattr(summaries, "_ADDED", summaries._ADDED - {"people"})
    with pytest.raises(AssertionError):
        check_parts()


def test_sums_of_parts_beyond_64_bits_are_exact() -> None:
    for total in ((1 << 62) - 1, 1 << 62, (1 << 63) - 1, -(1 << 63)):
        row = {"group": np.array([0]), "total": np.array([total])}
        for n in (2, 3, 4):
            assert [*reduce(summaries.merged, [row] * n)["total"]] == [n * total]
    for some in ([(1 << 63) + 1, 1], [(1 << 64) - 1, -1], [1 << 70, (1 << 60) + 1]):
        row = {"group": np.array([0, 1]), "total": some}
        assert [*summaries.merged(row, row)["total"]] == [2 * total for total in some]
        whole = {"group": np.array([1, 2]), "total": np.array([3, 4])}
        assert [*summaries.merged(row, whole)["total"]] == [some[0], some[1] + 3, 4]


def check_lists() -> None:
    """For all rows of two people in two groups with two items: the lists that are made of them."""
    groups = np.array([0, 1, 0])  # of slots; person 1 is in one group
    owners, empty = np.array([0, 0, 1]), np.array([], np.int64)
    for n_rows in range(4):
        for rows in product(product(range(3), (-1, 0, 1, 2)), repeat=n_rows):
            slots = int32s(*(slot for slot, _ in rows))
            items = np.array([item for _, item in rows], np.int64)
            found = shipped.count_people(slots, items, groups, 2, 2).tolist()
            wanted = {(slot, item) for slot, item in rows if 0 <= item < 2}
            assert found == [
                sum((slot, item) in wanted for slot in range(3) if groups[slot] == group)
                for group, item in product(range(2), repeat=2)
            ]
            ends, codes, people, firsts, of_codes = shipped.pairs_of_groups(
                groups[slots] if n_rows else empty, items + 1, owners[slots], 3
            )
            assert ends[0] == 0 and ends[-1] == ends[2] == n_rows
            for group in range(2):
                own = [(i, owners[s]) for s, i in rows if groups[s] == group]
                part = slice(ends[group], ends[group + 1])
                pairs = [*zip(codes[part].tolist(), people[part].tolist(), strict=True)]
                values = permutations({i for i, _ in own})
                named = (sorted((each[code], p) for code, p in pairs) for each in values)
                assert sorted(own) in named
                values = of_codes[firsts[group] : firsts[group + 1]].tolist()
                assert len(values) == len({i for i, _ in own})
                assert sorted((values[code] - 1, p) for code, p in pairs) == sorted(own)


def test_lists_have_the_people_and_items_of_their_groups() -> None:
    check_lists()


def test_people_are_counted_beyond_32_bits_of_slots_and_items() -> None:
    n_slots, n_items = 300_000, 20_000
    items = 7 * np.arange(n_slots) % n_items
    groups = np.arange(n_slots) % 2
    counts = shipped.count_people(
        np.arange(n_slots, dtype=np.int32), items, groups, 2, n_items
    ).reshape(2, n_items)
    for group in range(2):
        assert (counts[group] == np.bincount(items[groups == group], minlength=n_items)).all()


def test_rows_in_groups_that_are_not_kept_are_of_no_one() -> None:
    check_rows()


def test_of_groups_a_cap_is_drawn() -> None:
    own = np.array([0b101, 0b010, 0, 1 << 61 | 1])
    drawn = shipped.draw_groups(own, 1, secret_draws()).tolist()
    assert drawn[0] in (0b100, 0b001) and drawn[1:3] == [0b010, 0]
    assert drawn[3] in (1 << 61, 1)
    assert shipped.draw_groups(own, 2, secret_draws()).tolist() == own.tolist()


# --- mutants ---

MUTANTS = {
    "the row after the drawn one": (
        "places[slots[k]]-- == 0",
        "--places[slots[k]] == 0",
        check_votes,
    ),
    "the last of equal rows": ("places[slots[k]]-- == 0", "places[slots[k]] == 0", check_votes),
    "a carry is lost": ("+ (low < (u64)items[k])", "", check_means),
    "a rest is lost": (" + rest * most / own", "", check_means),
    "no largest sum": ("(sum < LARGEST ? sum : LARGEST)", "sum", check_means),
    "buckets end early": ("(size - 1) >> 64", "size >> 64", check_means),
    "other groups are kept": ("low < stop && ", "", check_rows),
    "groups beyond the table": ("if (groups[k] < n_groups) there", "there", check_rows),
    "places beyond the table": ("groups[k] < n_groups && kept", "kept", check_rows),
    "all groups are kept": (" && kept[people[k] * n_groups + groups[k]];", ";", check_rows),
    "any group is kept": (" && own[low] == group", "", check_rows),
    "the group before": ("own[low + half] < group", "own[low + half] <= group", check_rows),
    "half of the groups": ("size > 0; size = half", "size > 1; size = half", check_rows),
    "a bound leaves all": ("bound && (u64)bound < own ? (u64)bound : own", "own", check_means),
    "an item counts twice": ("last[own[k]] <= slot", "1", check_lists),
    "the next slot's item does not count": ("(i32)(slot + 1)", "(i32)(slot + 2)", check_lists),
    "not all groups of a person": (
        "owners[end] == owners[k]; end++",
        "end == k; end++",
        check_summaries,
    ),
    "the last of the largest": (
        "counts[end] > counts[largest]",
        "counts[end] > 0",
        check_summaries,
    ),
    "only rows in the group": ("is_all ? whole : own;", "own;", check_summaries),
    "sums beyond the bound": ("if (size > bound) size = bound;", "", check_summaries),
    "half of a total of sums": ("entry[5] = (i64)(u64)(total >> 64);", "", check_summaries),
    "sums below 0 count above": (
        "add_size(&made, sum[1] < 0, size)",
        "add_size(&made, 0, size)",
        check_summaries,
    ),
    "rows beyond the bound": ("own < bound ? own : bound", "own", check_summaries),
    "people counted in another order": ("counts[order[k]]", "counts[k]", check_summaries),
    "people in another order": ("(i64)order[k]", "k", check_summaries),
    "a group has entries of the one before": (
        "made->places[entry[1] * SIZES + entry[2]] = 0;",
        "",
        check_means,
    ),
}


@pytest.mark.thorough
@pytest.mark.pure
@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_rejected(name: str, tmp_path: Path) -> None:
    right, wrong, check = MUTANTS[name]
    with changed_kernels(tmp_path, right, wrong, "rows.c"), pytest.raises(AssertionError):
        check()
