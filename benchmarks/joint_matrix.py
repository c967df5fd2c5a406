"""The joint top-k as the paper draws it, to compare with. Floats; not for releases.

Every score that a list can have is a cell of a matrix: one row for each place in the list, one
column for each item. The package needs no matrix (udfs/topk/joint.md). It cannot be reached from
SQL; its logarithms are rounded, its random numbers are numpy's, and it takes about 80 bytes of
memory a cell.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def topk(
    counts: Ints, k: int, epsilon: Fraction, failure_probability: Fraction | None = None
) -> list[int]:
    """List k items with nearly the largest counts, best first.

    A list s is drawn with probability proportional to exp(-epsilon err(s) / 2), where err(s) is
    the largest h(i) - h[s_i]. With a failure probability, err is capped at a public tau: lists at
    or beyond it come at most that often, and only items with h >= h(k) - tau get a column.

    Privacy: epsilon-DP in the real numbers, under adding or removing one person who adds at most
        1 to each count.
    Source: Gillenwater et al. 2022, section 3.1; pruned after Wu and Zhang 2024.
    """
    rng = np.random.default_rng()
    rate = _rate(epsilon)
    tau = None
    if failure_probability is not None:
        tau = math.ceil((_log_lists(len(counts), k) - math.log(failure_probability)) / rate)
    columns = _columns(counts, k, tau)
    cells = _cells(counts[columns], k, tau)
    sums = np.cumsum(_weights(cells, rate, tau, _log_lists(len(counts), k)))
    drawn = int(sums.searchsorted(rng.random() * sums[-1], "right"))
    if drawn == len(cells.rows):
        any_list: list[int] = rng.choice(len(counts), k, replace=False).tolist()
        return any_list
    listed: list[int] = columns[_list(cells, drawn, rng)].tolist()
    return listed


@dataclass(frozen=True)
class _Cells:
    """The cells that are some list's score, best score first. All arrays have one entry a cell.

    rows, columns: counted from 0; columns are items, largest count first.
    errors: h(row) - h[column], from 0 on.
    first: choices for each row at the first cell, before it is passed, shape (k,).
    """

    rows: Ints
    columns: Ints
    errors: Ints
    first: Ints


def _rate(epsilon: Fraction) -> float:
    """Price one unit of err: the score is not monotone, hence the half."""
    return float(epsilon) / 2


def _log_lists(d: int, k: int) -> float:
    """Return ln d!/(d - k)!."""
    return math.lgamma(d + 1) - math.lgamma(d - k + 1)


def _columns(counts: Ints, k: int, tau: int | None) -> Ints:
    """Sort the items that get a column, largest count first."""
    places = np.arange(len(counts))
    if tau is not None:
        kth = int(np.partition(counts, len(counts) - k)[len(counts) - k])
        places = np.flatnonzero(counts >= kth - tau)
    return places[np.argsort(-counts[places], kind="stable")]


def _cells(sorted_counts: Ints, k: int, tau: int | None) -> _Cells:
    """Sort the matrix. Its distinctness terms are (d (k - i) + j) / (2 d k); here times 2 d k.

    With them, no two cells are equal, every row gets worse to the right and every column better
    downwards. A cell better than the first of the first row is not a list's score, as that row's
    own cell is never better.
    """
    d = len(sorted_counts)
    unit = 2 * d * k
    errors = sorted_counts[:k, np.newaxis] - sorted_counts
    terms = d * np.arange(k - 1, -1, -1)[:, np.newaxis] + np.arange(1, d + 1)
    keys = errors * unit + terms
    first = (keys < keys[0, 0]).sum(axis=1)
    wanted = keys >= keys[0, 0]
    if tau is not None:
        wanted &= errors < tau
    sorted_keys = np.sort(keys[wanted])
    of_errors, of_terms = np.divmod(sorted_keys, unit)
    from_the_end, columns = np.divmod(of_terms - 1, d)
    return _Cells(k - 1 - from_the_end, columns, of_errors, first)


def _weights(cells: _Cells, rate: float, tau: int | None, log_lists: float) -> Floats:
    """Weigh each cell, up to a common factor; with a tau, all lists together come last.

    q^min(err, tau) is q^tau for every list, and q^err - q^tau more for those below tau.
    """
    logs = _log_counts(cells) - rate * cells.errors
    if tau is not None:
        logs += np.log(-np.expm1(rate * (cells.errors - tau)))
        logs = np.append(logs, log_lists - rate * tau)
    weights: Floats = np.exp(logs - logs.max())
    return weights


def _log_counts(cells: _Cells) -> Floats:
    """Return ln of the number of lists whose score is the cell, by lemmas 3.7 and 3.8.

    The product over the rows of (choices - items taken before) is kept from cell to cell, as one
    factor alone grows by 1; the cell's own row has no choice.
    """
    logs = np.log(np.arange(1, max(cells.first.max(), cells.columns.max()) + 2))
    own = logs[cells.columns - cells.rows]
    grown = own.copy()
    grown[1:] -= logs[cells.columns[1:] - cells.rows[1:] - 1]
    below = np.arange(1, len(cells.first))
    counts: Floats = logs[cells.first[1:] - below - 1].sum() + np.cumsum(grown) - own
    return counts


def _list(cells: _Cells, drawn: int, rng: np.random.Generator) -> Ints:
    """Draw one of the lists whose score is the cell drawn, uniformly; returns columns.

    The first n entries of the shuffle are always the first n columns, those taken in front. The
    cell's own column is the last that its row may choose, so no earlier row could move it.
    """
    k = len(cells.first)
    n_choices = cells.first + np.bincount(cells.rows[: drawn + 1], minlength=k)
    picks = rng.integers(np.arange(k), n_choices)
    picks[cells.rows[drawn]] = cells.columns[drawn]
    shuffled = np.arange(n_choices.max())
    for i, pick in enumerate(picks):
        shuffled[[i, pick]] = shuffled[[pick, i]]
    return shuffled[:k]
