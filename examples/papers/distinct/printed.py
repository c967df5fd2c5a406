"""What Knop and Steinke 2023 print about counting distinct elements. Knows numbers, computes none.

"Counting Distinct Elements Under Person-Level Differential Privacy", tables 2, 4 and 7. The
vocabulary table of its introduction repeats the last row of tables 4 and 7.
"""

from dataclasses import dataclass

MAX, PERCENTILE, BEST = "Max Contrib", "90th PC Contrib", "Max Utility"
CHOSEN, PRIVATE = "DP Max Utility, count without DP", "DP Max Utility, DP count"
SAMPLING, GREEDY, MATCHING = "Sampling", "Greedy", "Matching"
LEVELS = (10, 50, 90)
N_TRIALS = 100
"""How often the paper repeats everything, by its published program."""

Spread = tuple[float | None, float, float | None]
"""The values at LEVELS; a dash of the paper is None: there is but one value, the middle one."""


@dataclass(frozen=True)
class Row:
    """One row of table 4 or 7.

    selection: how the bound is found.
    counting: how the items are counted under it.
    bound: over the trials.
    count: over the trials.
    """

    selection: str
    counting: str
    bound: Spread
    count: Spread


@dataclass(frozen=True)
class Table:
    """What the paper prints about one data set.

    number: of the table.
    n_items: the true number.
    most: the largest bound that is a candidate; the others are 1, 2, ... up to it.
    rows: in the paper's order.
    same_order: whether the people in our file are in the paper's order.
    """

    number: int
    n_items: int
    most: int
    rows: tuple[Row, ...]
    same_order: bool


def _one(value: float) -> Spread:
    return (None, value, None)


_FASHION = (
    Row(MAX, SAMPLING, _one(139), (1196.8, 1407.5, 1649.1)),
    Row(MAX, GREEDY, _one(139), (1174.2, 1439.2, 1646.5)),
    Row(MAX, MATCHING, _one(139), (1222.2, 1460.9, 1631.0)),
    Row(PERCENTILE, SAMPLING, _one(48), (1225.4, 1296.2, 1377.9)),
    Row(PERCENTILE, GREEDY, _one(48), (1367.0, 1432.6, 1516.3)),
    Row(PERCENTILE, MATCHING, _one(48), (1365.3, 1444.7, 1524.8)),
    Row(BEST, SAMPLING, _one(41), (1247.0, 1259.0, 1270.0)),
    Row(BEST, GREEDY, _one(20), _one(1376)),
    Row(BEST, MATCHING, _one(17), _one(1428)),
    Row(CHOSEN, SAMPLING, (8.9, 16.0, 28.0), (661.6, 892.5, 1124.5)),
    Row(CHOSEN, GREEDY, (8.0, 11.0, 17.0), (1148.0, 1241.0, 1348.0)),
    Row(CHOSEN, MATCHING, (7.0, 9.0, 14.0), (1252.0, 1317.0, 1400.0)),
    Row(PRIVATE, SAMPLING, (9.0, 16.0, 27.1), (702.4, 899.1, 1145.1)),
    Row(PRIVATE, GREEDY, (8.0, 10.0, 19.0), (1128.5, 1224.4, 1370.8)),
    Row(PRIVATE, MATCHING, (6.9, 9.0, 13.1), (1220.6, 1319.1, 1394.2)),
)
_IMDB = (
    Row(PERCENTILE, SAMPLING, _one(238), (95264.5, 95593.5, 95966.1)),
    Row(PERCENTILE, GREEDY, _one(238), (98411.0, 98734.0, 99120.0)),
    Row(PERCENTILE, MATCHING, _one(238), (98354.2, 98729.4, 99164.2)),
    Row(BEST, SAMPLING, _one(29), (49907.8, 50036.5, 50195.3)),
    Row(BEST, GREEDY, _one(29), _one(98459)),
    Row(BEST, MATCHING, _one(19), _one(98712)),
    Row(CHOSEN, SAMPLING, (29.0, 29.0, 29.0), (49899.6, 50070.5, 50220.9)),
    Row(CHOSEN, GREEDY, (22.0, 25.0, 29.0), (98244.0, 98364.0, 98459.0)),
    Row(CHOSEN, MATCHING, (13.0, 16.0, 21.0), (98586.0, 98674.0, 98721.0)),
    Row(PRIVATE, SAMPLING, (29.0, 29.0, 29.0), (49924.2, 50053.7, 50211.9)),
    Row(PRIVATE, GREEDY, (20.0, 26.0, 29.0), (98126.7, 98369.6, 98451.8)),
    Row(PRIVATE, MATCHING, (12.0, 16.0, 21.0), (98555.6, 98670.4, 98726.8)),
)

TABLES = {
    "amazon_fashion_words": Table(4, 1450, 99, _FASHION, same_order=True),
    "imdb_words": Table(7, 98726, 29, _IMDB, same_order=False),
}

TPCH = {
    "r2t": {"PS.AQ": 0.0658, "L.EP": 0.1759, "O.OD": 0.0061, "L.RD": 0.150},
    "shifted_inverse": {"PS.AQ": 0.0553, "L.EP": 0.0584, "O.OD": 0.005, "L.RD": 0.0061},
    "greedy": {"PS.AQ": 0.0140, "L.EP": 0.0110, "O.OD": 0.0008, "L.RD": 0.0037},
    "matching": {"PS.AQ": 0.0100, "L.EP": 0.0096, "O.OD": 0.0008, "L.RD": 0.0001},
}
"""Table 2, relative errors. The paper's text, as we have it, has lost the names of its last two
rows; the larger errors are greedy's, as everywhere else in the paper."""
