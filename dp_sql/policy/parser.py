"""A TOML file: the line of each key, so that errors say where, and exact numbers.

A section is a dataclass whose fields, made by `key`, say how each key is read and drafted.
"""

import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, fields
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeVar

from dp_sql.errors import PolicyError, guess
from dp_sql.releases import in_short
from dp_sql.sql.formatting import quote
from dp_sql.sql.tokens import name_parts

Path = tuple[str, ...]  # the keys that lead to a value, as written

_PIECE = re.compile(
    r"""
    \"{3}(?:[^\\]|\\.)*?\"{3,5} | '{3}.*?'{3,5}   # strings of several lines
  | "(?:[^"\\\n]|\\.)*" | '[^'\n]*'               # strings
  | \#[^\n]*                                      # comments
  | (?P<open>[\[{]) | (?P<close>[\]}]) | (?P<end>\n)
    """,
    re.VERBOSE | re.DOTALL,
)
_PLAIN = re.compile(r'[^\s."][^."\n]*')


class Document:
    """A parsed TOML file; builds errors that name the line."""

    def __init__(self, text: str, name: str) -> None:
        self.name = name
        try:
            self.tree: dict[str, Any] = tomllib.loads(text, parse_float=_exact)
        except tomllib.TOMLDecodeError as error:
            found = re.fullmatch(r"(.*) \(at (?:line (\d+)|end of doc).*\)", str(error), re.DOTALL)
            why, line = (found[1], found[2]) if found else (str(error), None)
            line = line or text.rstrip().count("\n") + 1
            shown = text.split("\n")[int(line) - 1]
            if why == "Invalid value" and re.search(r"[=\[,]\s*[^\W\d]", shown):
                why = "a string needs quotes"
            raise PolicyError(f"{self.name}, line {line}: this is not valid TOML: {why}.") from None
        except (ValueError, RecursionError):
            why = "a number is too long, or brackets are nested too deeply"
            raise PolicyError(f"{self.name} is not valid TOML: {why}.") from None
        self.lines = lines_of(text)

    def line(self, path: Path) -> int:
        """The line of a key, or of the nearest key around it."""
        known = (path[:n] for n in range(len(path), 0, -1) if path[:n] in self.lines)
        return self.lines.get(next(known, ()), 1)

    def error(self, path: Path, message: str) -> PolicyError:
        """An error at a key."""
        return PolicyError(f"{self.name}, line {self.line(path)}: {message}")

    def section(self, key: str) -> dict[str, Any]:
        """A section; an empty one where the file has none."""
        section = self.tree.get(key, {})
        if not isinstance(section, dict):
            raise self.error((key,), f"{key} must be a section: [{key}]")
        return section

    def unknown(self, path: Path, known: Collection[str]) -> PolicyError:
        """The error for a key that is none of these."""
        near = guess(path[-1], known)
        return self.error(path, f"Unknown key {path[-1]}.{near} Known here: {', '.join(known)}.")

    def table(self, name: str, path: Path) -> Path:
        """The folded parts of a table's name."""
        parts = name_parts(name)
        if parts is None or len(parts) > 3:
            raise self.error(
                path, f"{name} is not a table name. Write table, schema.table or "
                "database.schema.table; put a part that contains a dot in SQL quotes."
            )  # fmt: skip
        return parts

    def column(self, name: str, path: Path) -> tuple[Path, str]:
        """The folded names of a table and of one of its columns."""
        parts = name_parts(name) or ()
        if not 2 <= len(parts) <= 4:
            raise self.error(path, f"{name} must name a table and a column, as in ratings.title.")
        return parts[:-1], parts[-1]


def _exact(text: str) -> Fraction | None:
    """The exact value of a TOML float; None for nan, inf and huge exponents."""
    value = Decimal(text.replace("_", ""))
    if not value.is_finite() or (value and abs(value.adjusted()) > 400):
        return None  # 1e-400000000 is a short string and a huge Fraction
    return Fraction(value)


def dotted(parts: Collection[str]) -> str:
    """A name as it can be written in a policy.

    >>> print(dotted(("main", "my.table")))
    main."my.table"
    """
    return ".".join(p if _PLAIN.fullmatch(p) and p == p.strip() else quote(p) for p in parts)


def lines_of(text: str) -> dict[Path, int]:
    r"""The line of each table and key of a TOML file, counted from 1.

    >>> lines_of('[limits]\nmax_k = 10\n')
    {('limits',): 1, ('limits', 'max_k'): 2}
    """
    found: dict[Path, int] = {}
    header: Path = ()
    for line, statement in _statements(text):
        paths = list(_paths(tomllib.loads(statement, parse_float=str)))
        if statement.startswith("["):
            header = max(paths, key=len)
        else:
            paths = [header[: n + 1] for n in range(len(header))] + [header + p for p in paths]
        for path in paths:
            found.setdefault(path, line)
    return found


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """The headers and assignments of a TOML file, each with its first line."""
    start, depth, line, ended = 0, 0, 1, 0
    for piece in _PIECE.finditer(text + "\n"):
        depth += (piece.lastgroup == "open") - (piece.lastgroup == "close")
        if piece.lastgroup == "end" and depth == 0:
            line, ended = line + text.count("\n", ended, start), start
            if statement := text[start : piece.start()].strip():
                yield line, statement
            start = piece.end()


def _paths(tree: object) -> Iterator[Path]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield (key,)
            yield from ((key, *path) for path in _paths(value))


Section = TypeVar("Section")


@dataclass(frozen=True)
class ValueKind:
    """What a value must be, in words; `read` gives None for others; `ends` of a number's range."""

    words: str
    read: Callable[[Any], Any]
    choices: Sequence[str] = ()
    ends: Sequence[Fraction] = ()


@dataclass(frozen=True)
class Key:
    """A key: its kind, what it means, and an example in TOML."""

    kind: ValueKind
    doc: str
    example: str = ""
    required: bool = False
    draft: str = "# "  # what a draft writes before it
    formerly: str = ""  # an older name, which is still read


def key(kind: ValueKind, doc: str, example: str = "", *, default: Any = None, **more: Any) -> Any:
    """A field of a section; `default` is its value where the file says nothing."""
    return field(default=default, metadata={"key": Key(kind, doc, example, **more)})


def keys_of(section: type) -> dict[str, Key]:
    """The keys of a section by name, in order."""
    return {f.name: f.metadata["key"] for f in fields(section) if "key" in f.metadata}


def number(
    low: Fraction | int, high: Fraction | int, *, whole: bool = False, or_zero: bool = False
) -> ValueKind:
    """A number from low to high; with `or_zero` below high, or 0."""
    low, high = Fraction(low), Fraction(high)

    def read(value: Any) -> Fraction | int | None:
        if isinstance(value, bool) or not isinstance(value, int | Fraction):
            return None
        inside = value == 0 or low <= value < high if or_zero else low <= value <= high
        if not inside or (whole and value.denominator != 1):
            return None
        return int(value) if whole else Fraction(value)

    words = f"a {'whole ' if whole else ''}number from {in_short(low)} to "
    words = f"0, or {words}below {in_short(high)}" if or_zero else f"{words}{in_short(high)}"
    return ValueKind(words, read, ends=(low, high))


def choice(*words: str) -> ValueKind:
    """One of some words."""
    listed = ", ".join(f'"{word}"' for word in words)
    listed = f"one of {listed}" if len(words) > 1 else listed
    return ValueKind(listed, lambda value: value if value in words else None, choices=words)


def string(words: str, is_valid: Callable[[str], object]) -> ValueKind:
    """A string for which `is_valid` is true."""
    return ValueKind(
        words, lambda value: value if isinstance(value, str) and is_valid(value) else None
    )


BOOLEAN = ValueKind("true or false", lambda value: value if isinstance(value, bool) else None)
NAMES = ValueKind('a list of names: ["…", "…"]', lambda value: value if isinstance(value, list)
             and all(isinstance(v, str) and v for v in value) else None)  # fmt: skip


def read(
    document: Document, path: Path, section: type[Section], value: object, *given: object
) -> Section:
    """A section of a policy; PolicyError if it is none, or a key is unknown, missing or invalid.

    `given` are the values of the fields that are no keys.
    """
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
    return section(*given, **values)


def valid(document: Document, path: Path, kind: ValueKind, value: object) -> Any:
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
