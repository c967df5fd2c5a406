"""Sections: dataclasses whose fields, made by `key`, say how each key is read and drafted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any, TypeVar

from dp_sql.errors import guess
from dp_sql.policy.parser import Document, Path

Section = TypeVar("Section")


@dataclass(frozen=True)
class Kind:
    """What a value must be, in words; `read` gives None for others; `ends` of a number's range."""

    words: str
    read: Callable[[Any], Any]
    choices: Sequence[str] = ()
    ends: Sequence[Fraction] = ()


@dataclass(frozen=True)
class Key:
    """A key: its kind, what it means, and an example in TOML."""

    kind: Kind
    doc: str
    example: str = ""
    required: bool = False
    draft: str = "# "  # what a draft writes before it
    formerly: str = ""  # an older name, which is still read


def key(kind: Kind, doc: str, example: str = "", *, default: Any = None, **more: Any) -> Any:
    """A field of a section; `default` is its value where the file says nothing."""
    return field(default=default, metadata={"key": Key(kind, doc, example, **more)})


def keys_of(section: type) -> dict[str, Key]:
    """The keys of a section by name, in order."""
    return {f.name: f.metadata["key"] for f in fields(section)}


def number(
    low: Fraction | int, high: Fraction | int, *, whole: bool = False, or_zero: bool = False
) -> Kind:
    """A number from low to high; with `or_zero` below high, or 0."""
    low, high = Fraction(low), Fraction(high)

    def read(value: Any) -> Fraction | int | None:
        if isinstance(value, bool) or not isinstance(value, int | Fraction):
            return None
        inside = value == 0 or low <= value < high if or_zero else low <= value <= high
        if not inside or (whole and value.denominator != 1):
            return None
        return int(value) if whole else Fraction(value)

    words = f"a {'whole ' if whole else ''}number from {float(low):g} to "
    words = f"0, or {words}below {plain(high)}" if or_zero else f"{words}{plain(high)}"
    return Kind(words, read, ends=(low, high))


def choice(*words: str) -> Kind:
    """One of some words."""
    listed = ", ".join(f'"{word}"' for word in words)
    listed = f"one of {listed}" if len(words) > 1 else listed
    return Kind(listed, lambda value: value if value in words else None, choices=words)


def string(words: str, is_valid: Callable[[str], object]) -> Kind:
    """A string for which `is_valid` is true."""
    return Kind(words, lambda value: value if isinstance(value, str) and is_valid(value) else None)


BOOLEAN = Kind("true or false", lambda value: value if isinstance(value, bool) else None)
NAMES = Kind('a list of names: ["…", "…"]', lambda value: value if isinstance(value, list)
             and all(isinstance(v, str) and v for v in value) else None)  # fmt: skip


def plain(x: Fraction) -> str:
    """A number as a person writes it."""
    return str(x.numerator) if x.denominator == 1 else f"{float(x):g}"


def read(document: Document, path: Path, section: type[Section], value: object) -> Section:
    """A section of a policy; PolicyError if it is none, or a key is unknown, missing or invalid."""
    if not isinstance(value, dict):
        raise document.error(path, f"{path[-1]} must be a section: [{'.'.join(path)}]")
    keys = keys_of(section)
    values = {}
    for written, inner in value.items():
        name = next((n for n in keys if written in {n, keys[n].formerly}), written)
        if name not in keys and isinstance(inner, dict) and len(path) > 1:
            full = f'[{".".join(path[:-1])}."{path[-1]}.{written}"]'
            raise document.error((*path, written), f"Write a name with dots in quotes: {full}")
        if name not in keys:
            raise document.unknown((*path, written), list(keys))
        if name in values:
            why = f"{keys[name].formerly} means {name}; write one."
            raise document.error((*path, written), why)
        values[name] = valid(document, (*path, written), keys[name].kind, inner)
    missing = [
        f"{name}: {key.doc}, as in {name} = {key.example}"
        for name, key in keys.items()
        if key.required and name not in values
    ]
    if missing:
        raise document.error(path, f"{'.'.join(path)} needs {'; and '.join(missing)}.")
    return section(**values)


def valid(document: Document, path: Path, kind: Kind, value: object) -> Any:
    """The value, if it is of this kind; else PolicyError, with the line."""
    found = kind.read(value)
    if found is None:
        near = guess(value, kind.choices) if isinstance(value, str) else ""
        raise document.error(path, f"{path[-1]} must be {kind.words}.{near}")
    return found


def drafted(section: type, indent: str = "") -> str:
    """The keys of a section as comments: an example of each, and what it means."""
    return "".join(
        f"{f'{key.draft}{indent}{name} = {key.example}':<33}  # {key.doc}\n"
        for name, key in keys_of(section).items()
        if key.example
    )
