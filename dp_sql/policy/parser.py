"""A TOML text and the places of its keys: what is unknown or misshapen is refused with its line.

Knows TOML and SQL names, and nothing of what a policy means. Numbers keep their text's exact value.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from dp_sql.errors import PolicyError
from dp_sql.sql.formatting import quote
from dp_sql.sql.tokens import folded

Path = tuple[str, ...]
"""The keys that lead to a value of a TOML text, as written."""

_PIECE = re.compile(
    r"""
    \"{3}(?:[^\\]|\\.)*?\"{3,5} | '{3}.*?'{3,5}   # texts of several lines
  | "(?:[^"\\\n]|\\.)*" | '[^'\n]*'               # texts
  | \#[^\n]*                                      # comments
  | (?P<open>[\[{]) | (?P<close>[\]}]) | (?P<end>\n)
    """,
    re.VERBOSE | re.DOTALL,
)
_PART = re.compile(r'"((?:[^"]|"")+)"|([^."]+)')
_MAX_EXPONENT = 400


class Document:
    """One TOML text: its tree, and refusals that say where."""

    def __init__(self, text: str, name: str) -> None:
        self.name = name
        self.tree = self._tree(text)
        self.lines = lines_of(text)

    def _tree(self, text: str) -> dict[str, Any]:
        try:
            return tomllib.loads(text, parse_float=_exact)
        except tomllib.TOMLDecodeError as error:
            found = re.fullmatch(r"(.*) \(at (?:line (\d+)|end of doc).*\)", str(error), re.DOTALL)
            why, line = (found[1], found[2]) if found else (str(error), None)
            last = text.rstrip().count("\n") + 1
            raise PolicyError(
                f"{self.name}, line {line or last}: this is not TOML: {why}."
            ) from None
        except (ValueError, RecursionError):
            raise PolicyError(
                f"{self.name} is not TOML that can be read: a number is too long, "
                "or brackets stand too deep in each other."
            ) from None

    def line(self, path: Path) -> int:
        """The line of a key, or of the nearest key around it."""
        known = (path[:n] for n in range(len(path), 0, -1) if path[:n] in self.lines)
        return self.lines.get(next(known, ()), 1)

    def refuse(self, path: Path, message: str) -> PolicyError:
        """An error at a key."""
        return PolicyError(f"{self.name}, line {self.line(path)}: {message}")

    def section(self, key: str) -> dict[str, Any]:
        """The table of a section; an empty one where the text has none."""
        section = self.tree.get(key, {})
        if not isinstance(section, dict):
            raise self.refuse((key,), f"{key} must be a section: [{key}]")
        return section

    def only(self, value: Mapping[str, Any], path: Path, keys: Collection[str]) -> None:
        """Refuse every key that is none of these."""
        for key in value:
            if key not in keys:
                known = f"{guess(key, keys)} Known here: {', '.join(keys)}."
                raise self.refuse((*path, key), f"Unknown key {key}.{known}")

    def texts(self, value: object, path: Path) -> list[str]:
        """A list of texts."""
        if not isinstance(value, list) or not all(isinstance(v, str) and v for v in value):
            raise self.refuse(path, f'{path[-1]} must be a list of names: ["…", "…"]')
        return value

    def table(self, text: str, path: Path) -> Path:
        """The folded parts of a table's name."""
        parts = parts_of(text)
        if parts is None or len(parts) > 3:
            raise self.refuse(
                path, f"{text} is no table name. Write table, schema.table or "
                "database.schema.table; a part with a dot in it stands in SQL's quotes."
            )  # fmt: skip
        return parts

    def column(self, text: str, path: Path) -> tuple[Path, str]:
        """The folded names of a table and a column of it."""
        parts = parts_of(text)
        if parts is None or not 2 <= len(parts) <= 4:
            raise self.refuse(
                path, f"{text} must name a column with its table, as in ratings.title."
            )
        return parts[:-1], parts[-1]


def _exact(text: str) -> Fraction | None:
    """The exact value of a TOML number with a point or an exponent; None for what is none."""
    value = Decimal(text.replace("_", ""))
    if not value.is_finite() or (value and abs(value.adjusted()) > _MAX_EXPONENT):
        return None  # 1e-400000000 is a small text and a huge Fraction
    return Fraction(value)


def parts_of(text: str) -> Path | None:
    """The folded parts of a name with dots; a part may stand in SQL's quotes.

    >>> parts_of('Main."my.table"'), parts_of("order items"), parts_of("a..b")
    (('main', 'my.table'), ('order items',), None)
    """
    parts: Path = ()
    position = 0
    while match := _PART.match(text, position):
        parts += (folded((match[1] or "").replace('""', '"') or match[2].strip()),)
        position = match.end()
        if position == len(text):
            return parts if all(parts) else None
        if text[position] != ".":
            return None
        position += 1
    return None


def shown(parts: Collection[str]) -> str:
    """A name as it may be written in a policy.

    >>> print(shown(("main", "my.table")))
    main."my.table"
    """
    plain = re.compile(r'[^\s."][^."\n]*')
    return ".".join(p if plain.fullmatch(p) and p == p.strip() else quote(p) for p in parts)


def guess(name: str, known: Collection[str]) -> str:
    """The words that offer a known name for a mistyped one; none where none is near."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f" Did you mean {near[0]}?" if near else ""


def lines_of(text: str) -> dict[Path, int]:
    r"""The line at which each table and key of a TOML text stands, counted from 1.

    >>> lines_of('[limits]\nmax_k = 10\n')
    {('limits',): 1, ('limits', 'max_k'): 2}
    """
    found: dict[Path, int] = {}
    header: Path = ()
    for line, statement in _statements(text):
        tree = tomllib.loads(statement, parse_float=str)
        if statement.startswith("["):
            header = _only_path(tree)
            tree = {}
        for path in [header[: n + 1] for n in range(len(header))]:
            found.setdefault(path, line)
        for path in _paths(tree):
            found.setdefault((*header, *path), line)
    return found


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """The headers and assignments of a TOML text, each with the line on which it begins."""
    start, depth, line, ended = 0, 0, 1, 0
    for piece in _PIECE.finditer(text + "\n"):
        depth += (piece.lastgroup == "open") - (piece.lastgroup == "close")
        if piece.lastgroup == "end" and depth == 0:
            line, ended = line + text.count("\n", ended, start), start
            statement = text[start : piece.start()].strip()
            if statement:
                yield line, statement
            start = piece.end()


def _only_path(tree: object) -> Path:
    path: Path = ()
    while isinstance(tree, dict) and tree:
        ((key, tree),) = tree.items()
        path += (key,)
    return path


def _paths(tree: Mapping[str, Any]) -> list[Path]:
    found: list[Path] = []
    for key, value in tree.items():
        found.append((key,))
        if isinstance(value, dict):
            found += [(key, *path) for path in _paths(value)]
    return found
