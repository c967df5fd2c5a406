"""Parquet files of made-up (person, item) rows, written in chunks: they may outgrow memory."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

_CHUNK = 1 << 20  # rows of a row group
_SEED = 17
_Columns = tuple[NDArray[np.int64], NDArray[np.int64]]  # people and their items


def zipf(place: Path, n_rows: int) -> Path:
    """Rows of `n_rows` / 10 people: the share of the i-th item falls as 1/i, people's as 1/sqrt(i).

    Some people have an item in several rows.
    """
    n = n_rows // 10

    def chunk(rng: np.random.Generator, size: int, _: int) -> _Columns:
        people = (n * rng.random(size) ** 2).astype(np.int64)
        return people, np.exp(rng.random(size) * np.log(n)).astype(np.int64)

    return _written(place, f"zipf_{n_rows}", n_rows, chunk)


def couples(place: Path, n_rows: int) -> Path:
    """Rows in which each item has two people, so that nothing can be left out."""
    n_items = n_rows // 2

    def chunk(rng: np.random.Generator, size: int, start: int) -> _Columns:
        items = np.arange(start, start + size) % n_items
        return rng.integers(0, n_items // 2, size), items

    return _written(place, f"couples_{n_rows}", n_rows, chunk)


def _written(
    place: Path,
    name: str,
    n_rows: int,
    chunk: Callable[[np.random.Generator, int, int], _Columns],
) -> Path:
    """Write chunks of user_id and item, if that has not been done."""
    path = place / f"{name}.parquet"
    if path.exists():
        return path
    place.mkdir(parents=True, exist_ok=True)
    begun = path.with_suffix(f".{os.getpid()}")
    schema = pa.schema([("user_id", pa.int64()), ("item", pa.int64())])
    with parquet.ParquetWriter(begun, schema, compression="zstd") as writer:
        for start in range(0, n_rows, _CHUNK):
            rng = np.random.default_rng([_SEED, start])
            columns = chunk(rng, min(_CHUNK, n_rows - start), start)
            arrays = [
                pa.Array.from_buffers(pa.int64(), len(c), [None, pa.py_buffer(c.tobytes())])
                for c in columns
            ]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
    begun.rename(path)
    return path
