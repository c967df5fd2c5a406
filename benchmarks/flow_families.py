"""The flow for all bounds against scipy's Hopcroft-Karp, on graphs of many shapes.

`python -m benchmarks.flow_families [edges [name]]` prints the section, or what of it has this in its name. Codes are shuffled everywhere, so
that no order of the input helps anyone.
"""

import os
import resource
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Codes = NDArray[np.int32]
Edges = tuple[Ints, Ints]  # item and person of each edge
Family = Callable[[int, np.random.Generator], Edges]
BOUNDS = (1, 2, 4, 8, 16, 32, 64)
PATIENCE = 4  # so many times as long as this kernel for all bounds may scipy take for one, at least a second
LARGEST = 40_000_000  # edges with people copied, beyond which scipy is not asked


def uniform(edges: int, rng: np.random.Generator, mean: float) -> Edges:
    n = int(edges / mean)
    return rng.integers(0, n, edges), rng.integers(0, n, edges)


def more_items(edges: int, rng: np.random.Generator, mean: float = 4) -> Edges:
    """Random edges of half as many items again as people."""
    n = int(edges / mean)
    return rng.integers(0, n * 3 // 2, edges), rng.integers(0, n, edges)


def chain(edges: int, rng: np.random.Generator) -> Edges:
    n = edges // 2
    return np.tile(np.arange(n), 2), np.concatenate([np.arange(n), np.arange(n) + 1])


def grid(edges: int, rng: np.random.Generator) -> Edges:
    side = int((edges / 2) ** 0.5)
    x, y = np.divmod(np.arange(side * side), side)
    ends = [(x + (x < side - 1), y), (x, y + (y < side - 1))]
    here = np.tile(np.arange(side * side), 2)
    there = np.concatenate([a * side + b for a, b in ends])
    white = np.tile((x + y) % 2 == 0, 2)
    item, person = np.where(white, here, there), np.where(white, there, here)
    return item[here != there], person[here != there]


def star(edges: int, rng: np.random.Generator) -> Edges:
    return np.arange(edges), np.arange(edges) % 100


def hub_with_tails(edges: int, rng: np.random.Generator, length: int = 1000) -> Edges:
    hub = int((edges / 2) ** 0.5)
    first, second = np.divmod(np.arange(hub * hub), hub)
    tail = np.arange(edges // 4)
    before = np.where(tail % length == 0, tail // length % hub, hub + tail - 1)
    item = np.concatenate([first, hub + tail, hub + tail])
    return item, np.concatenate([second, hub + tail, before])


def power_law(edges: int, rng: np.random.Generator, n: int = 0, power: int = 4) -> Edges:
    """Codes whose frequency falls like rank^(1/power - 1)."""
    item, person = rng.random((2, edges)) ** power * (n or edges // 3)
    return item.astype(np.int64), person.astype(np.int64)


def reviews(edges: int, rng: np.random.Generator) -> Edges:
    """Everyone wrote, and everything got, at least five reviews."""
    item, person = power_law(edges * 5 // 4, rng, edges // 7, 2)
    while True:
        enough = (np.bincount(item)[item] >= 5) & (np.bincount(person)[person] >= 5)
        if enough.all():
            return item, person
        item, person = item[enough], person[enough]


def near_regular(edges: int, rng: np.random.Generator, degree: int) -> Edges:
    n = edges // degree
    item, person = np.tile(np.arange(n), degree), [rng.permutation(n) for _ in range(degree)]
    kept = rng.random(item.size) > 0.01
    return item[kept], np.concatenate(person)[kept]


def displaced(lengths: range, n_private: int = 0) -> Edges:
    """A gadget for each length: levels of two people and two items, the wrong ones of them rarer.

    A search that takes the rarer items first leaves one item uncovered, `length` people away from the person
    who could let go of another. Private items make that happen at a higher bound.
    """
    items, people, first = [], [], 0
    for length in lengths:
        level = first + 2 * np.repeat(np.arange(length + 1), 4)
        person, item = (
            level + np.tile([0, 0, 1, 1], length + 1),
            level + np.tile([0, 1], 2 * length + 2),
        )
        items += [item, item[:-4]]
        people += [person, person[4:]]
        first += 2 * (length + 1)
    items.append(first + np.arange(first * n_private))
    people.append(np.repeat(np.arange(first), n_private))
    return np.concatenate(items), np.concatenate(people)


def gadgets_for_many_bounds(edges: int, rng: np.random.Generator) -> Edges:
    parts = []
    for n_private in (0, 1, 3, 7, 15, 31, 63):
        size = edges / 7 / (8 + 2 * n_private)
        parts.append(displaced(range(1, int((2 * size) ** 0.5) + 2), n_private))
    return side_by_side(parts)


def gadgets_and_trap(edges: int, rng: np.random.Generator, length: int = 50) -> Edges:
    """Gadgets whose first people also lead into one large region that is covered already."""
    n, trap = edges // (16 * length), edges // 6
    parts = [displaced(range(length, length + 1)) for _ in range(n)]
    item, person = side_by_side([*parts, near_regular(3 * trap, rng, 3)])
    size = 2 * (length + 1)
    ends = np.arange(n * size).reshape(n, size)[:, :2].ravel()
    inside = n * size + rng.integers(0, trap, (2, ends.size))
    return np.concatenate([item, inside[0], ends]), np.concatenate([person, ends, inside[1]])


def trap_of_three(edges: int, rng: np.random.Generator) -> Edges:
    """Gadgets and a trap where each three people are one, who is tight at bound 3 alone."""
    item, person = gadgets_and_trap(edges * 4 // 3, rng)
    return item, person // 3


def beside_dead_people(family: Family, dead: int = 1000) -> Family:
    """A tenth of the edges hard; the others are people with room who have one item, in crowds of `dead`."""
    return lambda edges, rng: side_by_side(
        [family(edges // 10, rng), (np.arange(edges * 9 // 10) // dead, np.arange(edges * 9 // 10))]
    )


def holes(edges: int, rng: np.random.Generator) -> Edges:
    """A band whose stretches, each longer, lack an item at one end and a person at the other."""
    n, width, start, stretch, ends = edges // 5, 5, 0, 8, []
    item = np.repeat(np.arange(n), width)
    person = item + np.tile(np.arange(width), n)
    while start < n:
        ends.append((start, start + stretch - width))
        start, stretch = start + stretch, stretch + 8
    gone = np.array(ends)
    kept = ~np.isin(person, gone[:, 0]) & ~np.isin(item, gone[:, 1])
    return item[kept], person[kept]


def regular_with_dead_items(edges: int, rng: np.random.Generator) -> Edges:
    """A search from items begins with many that soon fail, which promises more than the rest keeps."""
    dead = np.arange(edges // 20)
    return side_by_side([near_regular(edges - dead.size, rng, 3), (dead, dead % (dead.size // 50))])


def side_by_side(parts: list[Edges]) -> Edges:
    items = np.cumsum([0, *(item.max() + 1 for item, _ in parts)])
    people = np.cumsum([0, *(person.max() + 1 for _, person in parts)])
    return (
        np.concatenate([part[0] + first for part, first in zip(parts, items[:-1], strict=True)]),
        np.concatenate([part[1] + first for part, first in zip(parts, people[:-1], strict=True)]),
    )


NATURAL: dict[str, Family] = {
    **{f"random, mean degree {m}": lambda e, rng, m=m: uniform(e, rng, m) for m in (2.5, 3, 3.5, 4)},  # type: ignore[misc]
    "random, 1.5 items a person": more_items, "chain": chain, "grid": grid, "stars": star, "hub with tails": hub_with_tails,
    "power law": power_law, "reviews, 5-core": reviews,
    "near-regular, degree 3": lambda e, rng: near_regular(e, rng, 3),
    "near-regular, degree 10": lambda e, rng: near_regular(e, rng, 10),
}  # fmt: skip
CONSTRUCTED: dict[str, Family] = {
    "displaced, each length": lambda e, rng: displaced(range(1, int((e / 4) ** 0.5))),
    "displaced, one length": lambda e, rng: displaced(range(e // 8, e // 8 + 1)),
    "displaced, many bounds": gadgets_for_many_bounds,
    "displaced, with a trap": gadgets_and_trap,
    "displaced, with a trap, three people in one": trap_of_three,
    "displaced, with a trap, and dead people": beside_dead_people(gadgets_and_trap),
    "displaced, one length, and dead people": beside_dead_people(
        lambda e, rng: displaced(range(e // 8, e // 8 + 1))
    ),
    "band with holes": holes,
    "near-regular, degree 3, and dead items": regular_with_dead_items,
}


def graph(edges: Edges, rng: np.random.Generator) -> tuple[Codes, Codes]:
    """Shuffled codes and edges, no edge twice, as offsets and people."""
    item, person = (np.unique(codes, return_inverse=True)[1] for codes in edges)
    item, person = rng.permutation(item.max() + 1)[item], rng.permutation(person.max() + 1)[person]
    key = rng.permutation(np.unique(item * (person.max() + 1) + person))
    item, person = np.divmod(key, person.max() + 1)
    order = np.argsort(item, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(item))])
    return offsets.astype(np.int32), person[order].astype(np.int32)


def scipy_seconds(offsets: Codes, people: Codes, bound: int, rows: str, most: float) -> float:
    """CPU seconds of scipy's matching, inf beyond `most`. A person is min(bound, own items) copies."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import maximum_bipartite_matching

    copies = np.minimum(np.bincount(people), bound)
    each = copies[people]
    if each.sum() > LARGEST:
        return 0.0
    item = np.repeat(np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)), each)
    first = np.repeat((np.cumsum(copies) - copies)[people], each)
    copy = first + np.arange(item.size) - np.repeat(np.cumsum(each) - each, each)
    ends = (item, copy) if rows == "items" else (copy, item)
    matrix = csr_matrix((np.ones(item.size, np.int8), ends))
    read, write = os.pipe()
    if os.fork() == 0:  # a process of its own can be stopped
        soft = int(time.process_time() + most) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (soft, soft + 1))
        seconds = _cpu(lambda: maximum_bipartite_matching(matrix, perm_type="column"))
        os.write(write, str(seconds).encode())
        os._exit(0)
    os.close(write)
    os.wait()
    said = os.read(read, 100)
    os.close(read)
    return float(said) if said else float("inf")


def flow_families(edges: int = 250_000, names: str = "") -> list[str]:
    """The section; or the rows of the graphs whose name contains `names`."""
    return [
        "## Max flow on graphs of many shapes",
        "",
        f"Some {edges:,} edges, CPU time. This kernel: all bounds 1 to 100, median of runs between scipy's. scipy's "
        "maximum_bipartite_matching: one bound of 1, 2, 4, …, 64 at a time, each person copied as "
        "often as the bound and their own items allow, rows of items or of people, the faster of "
        f"the two; matrices are made before; it is stopped after {PATIENCE} × this kernel's time and a second, and not "
        f"asked where the copies have over {LARGEST:,} edges. Goals: at most 1 × its slowest bound, 1/3 × on random "
        "graphs; on graphs made to be hard, at most 1 × its sum.",
        "",
        *_table(edges, names),
    ]


def large_flow_families() -> list[str]:
    """The same table for more edges."""
    return [
        "## Max flow on larger graphs",
        "",
        "The same graphs with 1,000,000 edges, and random ones with 4,000,000.",
        "",
        *_table(1_000_000),
        *_rows(4_000_000, "random"),
    ]


def _table(edges: int, names: str = "") -> list[str]:
    return [
        "| graph | edges | this kernel ms | scipy's slowest bound ms | ratio | scipy's sum ms | ratio |",
        "|---|---|---|---|---|---|---|",
        *_rows(edges, names),
    ]


def _rows(edges: int, names: str) -> list[str]:
    families = {**NATURAL, **CONSTRUCTED}.items()
    return [_row(name, family, edges) for name, family in families if names in name]


def _row(name: str, family: Family, edges: int) -> str:
    from dp_sql.udfs.count_distinct.flow import max_cover_counts
    from dp_sql.udfs.count_distinct.graph import build_graph

    rng = np.random.default_rng(1)
    offsets, people = graph(family(edges, rng), rng)
    ours, theirs, most = [], [], 0.0
    for bound in BOUNDS:
        ours.append(_cpu(lambda: max_cover_counts(build_graph(offsets, people), range(1, 101))))
        most = max(1, PATIENCE * statistics.median(ours))
        theirs.append(
            min(scipy_seconds(offsets, people, bound, rows, most) for rows in ("items", "people"))
        )
    own = statistics.median(ours)
    cells = [cell for other in (max(theirs), sum(theirs)) for cell in _against(own, other, most)]
    return f"| {name} | {people.size:,} | {1000 * own:.0f} | {' | '.join(cells)} |"


def _against(own: float, other: float, most: float) -> tuple[str, str]:
    """Milliseconds and ratio; below a limit where scipy was stopped."""
    if other == float("inf"):
        return f"> {1000 * most:,.0f}", f"< {own / most:.2f}"
    return f"{1000 * other:,.0f}", f"{own / other:.2f}"


def _cpu(run: Callable[[], object]) -> float:
    """Mean CPU seconds; short runs are repeated, as the clock may move in steps of 4 ms."""
    start, n = time.process_time(), 0
    while (used := time.process_time() - start) < 0.1:
        run()
        n += 1
    return used / n


if __name__ == "__main__":
    size, name = int((sys.argv[1:] or ["250000"])[0]), "".join(sys.argv[2:])
    print("\n".join(flow_families(size, name)))
