"""Equal strings have one number, different ones have two, however they come."""

import ctypes
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_sql.udfs.count_distinct import dense_numbers, kernels
from dp_sql.udfs.count_distinct.dense_numbers import Numbered, Numbers, Strings
from dp_sql.udfs.count_distinct.kernels_build import SOURCES
from tests.udfs.compiling import compile_changed

SOURCE = next(path for path in SOURCES if path.name == "strings.c")
STRINGS = st.lists(
    st.binary(max_size=20) | st.sampled_from([b"", b"\0", b"a", b"a\0"]), max_size=40
)


def by_hand(values: list[Any]) -> list[int]:
    return [[*dict.fromkeys(values)].index(value) for value in values]


def as_arrays(strings: list[bytes]) -> tuple[Any, Any]:
    """The strings between others, which are not to be read."""
    ends = np.cumsum([3, *map(len, strings)])
    return np.frombuffer(b"xyz" + b"".join(strings) + b"more", np.uint8), ends


def of_strings(found: Strings, strings: list[bytes]) -> list[int]:
    listed: list[int] = found.of(*as_arrays(strings)).tolist()
    return listed


@given(STRINGS, STRINGS)
def test_strings_are_numbered_in_the_order_of_coming(first: list[bytes], then: list[bytes]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dense_numbers, "_SLICE", 2)  # the table grows, too
        found = Strings()
        listed = [*of_strings(found, first), *of_strings(found, then)]
        assert listed == by_hand([*first, *then])
        assert found.size == len({*first, *then})
        data, ends = found.values
    assert found.of(data, ends).tolist() == [*range(found.size)]


def check_many_values(n: int = 400_000) -> None:
    rng = np.random.default_rng(0)
    codes, strings = Numbers(), Strings()
    for step in (1, 2**40):
        values = rng.integers(0, 3 * n // 4, n) * step
        found = codes.of(values)
        assert of_strings(strings, [b"%d" % value for value in values]) == found.tolist()
    assert codes.size == strings.size == np.unique(codes.codes).size


@pytest.mark.thorough
def test_many_strings_keep_their_numbers_while_tables_grow() -> None:
    check_many_values()


CODES = [
    [5, 5, 7, 6], [7, 20, 6, 3], [9, 19, 3, 36], [-20, 8], [60, -20, 90], [2**40, 5, 60],
    [-(2**63), 2**63 - 1, -20], [5, 90],
]  # fmt: skip


@given(st.permutations(CODES))
def test_codes_are_numbered_in_the_order_of_coming(pieces: list[list[int]]) -> None:
    """With a place for each code, then hashed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dense_numbers, "_FIRST", 1)
        patch.setattr(dense_numbers, "_LEAST", 32)
        found = Numbers()
        listed = [number for piece in pieces for number in found.of(piece).tolist()]
    assert listed == by_hand([code for piece in pieces for code in piece])
    assert found.codes.tolist() == [*dict.fromkeys(code for piece in pieces for code in piece)]


def test_few_codes_between_the_largest_have_no_place_for_each() -> None:
    found = Numbers()
    found.of(np.arange(100) + np.iinfo(np.int64).min)
    assert not found._hashed
    found.of([(1 << 63) - 1])
    assert found._hashed and found._places.size < 1 << 20


def codes_of_one_place(n: int) -> Any:
    """Codes that meet at place 0 of a table whose key is 0."""
    inverse, found = pow(0x9E3779B97F4A7C15, -1, 1 << 64), []
    for high in range(n):
        mixed = high << 40
        for _ in range(2):
            mixed = high << 40 ^ mixed >> 29
        found.append((mixed ^ mixed >> 32) * inverse % (1 << 64))
    return np.array(found, np.uint64).view(np.int64)


def test_no_one_can_choose_codes_that_meet_at_one_place() -> None:
    """One person could else make a number for each row take as long as there are rows."""
    codes = codes_of_one_place(1000)
    together = np.full(4096, -1, np.int32)
    kernels.library().place_by_key(codes, codes.size, 0, together, 4095)
    assert np.flatnonzero(together >= 0).max() == codes.size - 1
    for chosen in (codes, *(np.arange(1, codes.size + 1) << shift for shift in range(16, 54))):
        found = [Numbers() for _ in range(6)]  # a key can be bad for some codes
        for one in found:
            assert one.of(chosen).tolist() == [*range(codes.size)]
        free = [np.flatnonzero(one._places < 0) for one in found]
        assert min(np.diff(places, prepend=-1).max() for places in free) < 64
        assert any((one._places != found[0]._places).any() for one in found)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[str], None]]:
    def load(text: str) -> None:
        (tmp_path / "strings.c").write_text(text)
        others = [path for path in SOURCES if path != SOURCE]
        library = tmp_path / f"changed_{len([*tmp_path.iterdir()])}.so"
        compile_changed([*others, tmp_path / "strings.c"], library, "-O0")
        monkeypatch.setattr(kernels, "LIBRARY", library)
        kernels.library.cache_clear()

    yield load
    kernels.library.cache_clear()


def with_one_hash(text: str) -> str:
    same = re.sub(r"hashes\[k\] =\s+hash_of\([^;]*;", "hashes[k] = 7;", text)
    assert same != text
    return same


def check_equal_hashes() -> None:
    strings = [b"", b"ab", b"a", b"b", b"", b"ba", b"a", b"ab"]
    for n in range(1, 20):  # all that differ from zeros in one byte
        strings += [bytes([*(k == i for k in range(n))]) for i in range(n + 1)]
    assert of_strings(Strings(), strings) == by_hand(strings)


def test_strings_whose_hashes_are_equal_are_compared(compiled: Callable[[str], None]) -> None:
    compiled(with_one_hash(SOURCE.read_text()))
    check_equal_hashes()


def test_every_byte_of_a_string_is_hashed() -> None:
    """Strings whose other bytes anyone may choose would else meet at one place."""
    alike = [bytes([*(k == i for k in range(n))]) for n in range(1, 50) for i in range(n + 1)]
    found, other = Strings(), Strings()
    for one in (found, other):
        of_strings(one, alike)
    hashes, others = (one._arrays["hash"][: one.size] for one in (found, other))
    assert np.unique(hashes).size == len(alike)
    assert (hashes != others).any()


MUTANTS = {
    "lengths are not compared": ("t->start[number + 1] - t->start[number] != length", "0"),
    "strings are not compared": (
        "differ(t->bytes + t->start[number], string, length)",
        "0",
    ),
    "of 3 bytes the second is not compared": ("bytes[n >> 1] << 8", "0"),
    "of 7 bytes the last are not compared": ("(u64)last << 32", "0"),
    "of 16 bytes the last are not compared": ("eight(some + n - 8) != eight(other + n - 8)", "0"),
    "of 17 bytes the last is not compared": ("n <= 16", "n <= 17"),
    "places are not filled again": ("t->place[place] = (i32)number;", ""),
}


@pytest.mark.thorough
@pytest.mark.pure
@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutants_are_rejected(mutant: str, compiled: Callable[[str], None]) -> None:
    right, wrong = MUTANTS[mutant]
    text = SOURCE.read_text()
    assert text.count(right) == 1
    compiled(text.replace(right, wrong))
    with pytest.raises(AssertionError):
        check_many_values(dense_numbers._SLICE + 1)
        compiled(with_one_hash(text.replace(right, wrong)))
        check_equal_hashes()


def test_both_languages_know_the_same_struct() -> None:
    assert kernels.library().size_of_table() == ctypes.sizeof(dense_numbers.Table)
    text = SOURCE.read_text()
    fields = text[text.index("typedef struct {") : text.index("} Table;")]
    names = re.findall(r"(\w+);", re.sub(r"/\*.*?\*/", "", fields))
    assert names == [name for name, _ in dense_numbers.Table._fields_]


@pytest.mark.parametrize("offsets", [[], [-1, 2], [0, 2, 1], [0, 4]])
def test_strings_must_be_in_the_data(offsets: list[int]) -> None:
    with pytest.raises(ValueError, match="offsets"):
        Strings().of(np.zeros(3, np.uint8), offsets)


@pytest.mark.parametrize("codes", [np.zeros(2), np.zeros((1, 2), np.int64), 3, ["a"]])
def test_codes_must_be_a_row_of_integers(codes: Any) -> None:
    with pytest.raises(ValueError, match="one-dimensional array of integers"):
        Numbers().of(codes)


def test_too_many_strings_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense_numbers, "LIMIT", dense_numbers._SLICE + 10)
    found = Strings()
    with pytest.raises(ValueError, match="fewer than"):
        for n in range(12):
            of_strings(found, [b"%d" % n])


def test_numbers_are_their_own_numbers() -> None:
    found = Numbered(3)
    assert found.of([2, 0]).tolist() == [2, 0]
    assert found.codes[[2, 1]].tolist() == [2, 1]
