"""How far the means of DP_AVG are off, beside fixed bounds. See benchmarks/contributions.py.

The distributions of both bounds are exact; the noise and the fixed bounds are drawn in floats.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

import duckdb
import numpy as np

from benchmarks.bounds import EPSILONS, MEASURES
from benchmarks.measure import file_of, present
from dp_sql.udfs.contributions import bound, bounded_mean
from dp_sql.udfs.odds import Odds

N_DRAWS = 3_000
PEOPLE = (24, 49, 100, 1_000, 100_000)
SOURCES = {"imdb_words": 30, "amazon_book_kgat": 30, "retail_baskets": 1}
Errors = np.ndarray


@dataclass(frozen=True)
class Values:
    """Each person's number of rows, and the sum of their values."""

    name: str
    rows: np.ndarray
    sums: np.ndarray
    high: float | None = None  # the upper end of a range that is known beforehand; the lower is 0

    @property
    def mean(self) -> float:
        """The true mean of the rows."""
        return float(self.sums.sum() / self.rows.sum())

    def errors(self, total: np.ndarray, count: np.ndarray) -> Errors:
        """RMSE, median and 95th percentile, by the mean absolute value; without a mean 100 %, at most ten times."""
        means = np.where(count >= 1, total / np.maximum(count, 1), 0)
        size = float(np.abs(self.sums).sum() / self.rows.sum())
        off = np.minimum(np.abs(means - self.mean) / size, 10)
        return np.array([np.sqrt((off**2).mean()), *np.quantile(off, [0.5, 0.95])])


def sets(seed: int = 2028) -> Iterator[Values]:
    """Rows per person, each with six models of their values."""
    draws = np.random.default_rng(seed)
    found = {}
    for source in filter(present, SOURCES):
        query = f"SELECT count(*)::DOUBLE c FROM '{file_of(source)}'"
        query += f" WHERE hash(user_id) % {SOURCES[source]} = 0 GROUP BY user_id ORDER BY c"
        found[source] = duckdb.execute(query).fetchnumpy()["c"]
    found["2,000 people with a row"] = np.ones(2_000)
    found["300 people"] = draws.geometric(0.1, 300).astype(float)
    found["5,000 people, Pareto 1.1"] = np.ceil(draws.pareto(1.1, 5_000) + 1e-9)
    for name, rows in found.items():
        around = np.sqrt(rows) * draws.normal(size=rows.size)
        yield Values(f"{name}, ratings", rows, (3.8 * rows + 1.1 * around).clip(rows, 5 * rows))
        prices = [draws.lognormal(7, 1.5, int(min(n, 2_000))).mean() * n for n in rows]
        yield Values(f"{name}, prices", rows, np.array(prices))
        yield Values(f"{name}, people differ", rows, rows * draws.lognormal(3, 1, rows.size))
        yield Values(f"{name}, less with more rows", rows, 1000 * np.sqrt(rows))
        yield Values(f"{name}, more with more rows", rows, 100 * rows * np.log2(rows + 1))
        yield Values(f"{name}, both signs", rows, 20 * rows + 100 * around)


def chosen(of: Values, epsilon: Fraction) -> Errors:
    """The shipped mechanism."""
    draws = np.random.default_rng(7)
    shares = bounded_mean._shares(epsilon, None, None)
    places, total, count = _pick(of.rows, 18, shares[0], draws), [], []
    for place in np.unique(places):
        most = 2.0**place
        kept = of.sums * np.minimum(1, most / of.rows)
        at = 2.0 ** _pick(np.abs(kept), 62, shares[1], draws)[places == place]
        radius = draws.gamma(3, 1 / float(shares[2]), at.size)
        noise = radius * draws.uniform(-1, 1, (2, at.size))
        levels, which = np.unique(at, return_inverse=True)
        clipped = np.array([np.clip(kept, -level, level).sum() for level in levels])
        total.append(clipped[which] + noise[0] * at)
        count.append(np.minimum(of.rows, most).sum() + noise[1] * most)
    return of.errors(np.concatenate(total), np.concatenate(count))


def in_range(factor: float) -> Callable[[Values, Fraction], Errors]:
    """The shipped mechanism with a range: `factor` times the 99th percentile of people's means, or its own."""

    def errors(of: Values, epsilon: Fraction) -> Errors:
        draws, (share, _, rest) = (
            np.random.default_rng(7),
            bounded_mean._shares(epsilon, None, (0, 1)),
        )
        means = of.sums / of.rows
        high = factor * (of.high or float(np.quantile(np.abs(means), 0.99)))
        low = -high if means.min() < 0 else 0.0
        middle, reach = (low + high) / 2, (high - low) / 2
        places = _pick(of.rows, 18, share, draws)
        noise = draws.gamma(3, 1 / float(rest), N_DRAWS) * draws.uniform(-1, 1, (2, N_DRAWS))
        kept = [np.minimum(of.rows, 2.0**i) for i in range(18)]
        around = [((np.clip(means, low, high) - middle) * rows).sum() for rows in kept]
        total = np.take(around, places) + noise[0] * reach * 2.0**places
        count = np.take([rows.sum() for rows in kept], places) + noise[1] * 2.0**places
        clipped = np.clip(middle + total / np.maximum(count, 1), low, high)
        return of.errors(clipped * count, count)

    return errors


def odds_of_bounds(above: list[int], epsilon: Fraction) -> Odds:
    """The shipped choice of a bound."""
    shortfalls = bound.shortfalls_of_bounds(np.array([above]), bound.support_of(epsilon))
    return Odds([((1, s),) for s in shortfalls[0].tolist()], epsilon / 2)


def _pick(sizes: np.ndarray, n: int, share: Fraction, draws: np.random.Generator) -> np.ndarray:
    above = [int((sizes > 2.0**i).sum()) for i in range(n)]
    odds = odds_of_bounds(above, share).distribution(40)
    weights = np.array([float(low) for low, _ in odds])
    return draws.choice(n, N_DRAWS, p=weights / weights.sum())


def fixed(most: int, factor: float) -> Callable[[Values, Fraction], Errors]:
    """Rows per person up to `most`, person's means up to `factor` times their 99th percentile."""

    def errors(of: Values, epsilon: Fraction) -> Errors:
        draws, share = np.random.default_rng(7), float(epsilon) / 2
        rows, means = np.minimum(of.rows, most), of.sums / of.rows
        limit = factor * float(np.quantile(np.abs(means), 0.99))
        noise = draws.laplace(0, most / share, (2, N_DRAWS))
        total = (rows * np.clip(means, -limit, limit)).sum() + limit * noise[0]
        return of.errors(total, rows.sum() + noise[1])

    return errors


WAYS: Mapping[str, Callable[[Values, Fraction], Errors]] = {
    "bounds chosen (default)": chosen,
    "a range up to the 99th percentile": in_range(1),
    "a range up to 3 times that": in_range(3),
    "1 row a person, values up to the 99th percentile": fixed(1, 1),
    "10 rows, the 99th percentile": fixed(10, 1),
    "10 rows, 3 times the 99th percentile": fixed(10, 3),
    "100 rows, the 99th percentile": fixed(100, 1),
}


def section() -> list[str]:
    """Write the section on means."""
    these = [*sets()]
    head = f"| | {' | '.join(f'ε = {float(e):g}' for e in EPSILONS)} |"
    lines = [*_HEAD, head, "|---" * 5 + "|"]
    for way, errors in WAYS.items():
        cells = []
        for epsilon in EPSILONS:
            logs = [np.log(np.maximum(errors(one, epsilon), 1e-6)) for one in these]
            cells.append(" / ".join(f"{100 * x:.3g}" for x in np.exp(np.mean(logs, 0))))
        lines.append(f"| {way} | {' | '.join(cells)} |")
    return [*lines, "", *_by_people()]


def _by_people() -> list[str]:
    """Write the table by the number of people."""
    ways = {"bounds chosen (default)": chosen, "0 to 300": in_range(1), "0 to 3,000": in_range(10)}
    lines = [*_FEW, f"| people | rows each | {' | '.join(ways)} |", "|---" * (2 + len(ways)) + "|"]
    for n in PEOPLE:
        draws = np.random.default_rng(n)
        of_each = draws.lognormal(4, 0.6, n).clip(0, 300)
        for rows in (np.ones(n), draws.geometric(0.05, n).astype(float)):
            values = Values("", rows, np.round(of_each) * rows, 300)
            cells = [100 * way(values, Fraction(1)) for way in ways.values()]
            listed = " | ".join(" / ".join(f"{x:.3g}" for x in cell) for cell in cells)
            lines.append(f"| {n:,} | {'1' if rows.max() == 1 else 'about 20'} | {listed} |")
    return [*lines, ""]


_HEAD = f"""\
### Means

{" / ".join(MEASURES)} of the error of DP_AVG, in percent of the mean absolute value, as geometric means over three
public data sets and three synthetic ones, each with six models of the values. In two of these the values depend on how many
rows a person has. The fixed bounds are those of libraries that ask the analyst for the rows per person and the range of the
values: half of ε pays for Laplace noise on the sum, half for noise on the count. The range here is the 99th percentile of
people's means, which is not known in advance. With a range (`lower` and `upper`), values are clipped to it.

""".splitlines()
_FEW = f"""\
{" / ".join(MEASURES)} of the error of DP_AVG at ε = 1, in percent of the mean. The values are minutes, 64 on average and
at most 300. There is no range, the right one, or one that is ten times too wide. With 100 people or more, the last is
worse than none.

""".splitlines()
