"""The arguments of a call as written: their tokens, and the statement with another value there."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from dp_sql.errors import ArgumentError
from dp_sql.sql.tokens import Token, Tokens, tokenize
from dp_sql.udfs import REGISTRY
from dp_sql.udfs.mechanism import Mechanism

T = TypeVar("T")
D = TypeVar("D")


class Reference(NamedTuple):
    """A column, table or type as written: its unquoted parts, and its place.

    is_expression: whether it is a key of GROUP BY that is not a column; then `parts` is its name.
    """

    parts: tuple[str, ...]
    text: str
    position: int
    is_expression: bool = False


class ListLiteral(NamedTuple):
    """A list of literals as written, `['a', 'b']`, and its place."""

    text: str
    position: int


class PublicQuery(NamedTuple):
    """A query over public tables as written, `(SELECT region FROM regions)`, and its place."""

    text: str
    position: int

    @property
    def sql(self) -> str:
        """The query without its brackets."""
        return self.text[1:-1]


PublicSet = Reference | ListLiteral | PublicQuery


class SetPerKey(NamedTuple):
    """A public set for each key of GROUP BY, as written, `(regions.name, ['a', 'b'])`."""

    sets: tuple[PublicSet, ...]
    text: str
    position: int


class Argument(Tokens):
    """The value of one argument, as the tokens that are written."""

    __slots__ = ()

    def reference(self, *parts: str) -> Reference:
        """The value as a reference: to a column, or, without parts, to an expression."""
        return Reference(parts, self.text, self[0].start)

    def column(self) -> Reference | None:
        """The column that the value names; None if it is anything else."""
        return self.reference(*self.names) if self.names else None

    def omitted(self) -> str:
        """The whole statement without this named argument."""
        every = tokenize(self[0].source)
        first = every.place_at(self[0].start)
        return every.left_out(first - 2, first + len(self))

    def refuse(
        self, message: str, hint: str | None = None, instead: Sequence[str] = ()
    ) -> ArgumentError:
        """An error under this value; `instead` are statements that may work."""
        return self[0].error(ArgumentError, message, hint, instead)


Arguments = Sequence[tuple[str, Argument]]
"""The arguments of a call in their order, each with its name, folded; "" if it has none."""


def arguments_of(tokens: Tokens, index: int) -> Arguments:
    """The arguments of the call whose name is at `index`."""
    found = list[tuple[str, Argument]]()
    for start, stop in tokens.split(index + 2, tokens.matching(index + 1)):
        is_named = tokens.at(start + 1).is_symbol(":=", "=>")
        name = tokens[start].folded if is_named else ""
        found.append((name, Argument(tokens[start + 2 * is_named : stop])))
    return found


Reader = Callable[[Argument, str], T]  # the second parameter is what messages call the argument


class Given(NamedTuple):
    """The arguments of a call: the `name` of the function, and the token that names it."""

    name: str
    token: Token
    arguments: Mapping[str, Argument]
    under_policy: bool

    def with_another(self, written: str) -> str:
        """The statement with one more argument, after the last."""
        last = max(self.arguments.values(), key=lambda one: one[0].start)
        return last.put(f"{last.text}, {written}")

    def read(self, name: str, reader: Reader[T]) -> T:
        """The value of an argument that is there."""
        return reader(self.arguments[name], name)

    def optional(self, name: str, reader: Reader[T], default: D) -> T | D:
        """The value of an argument, or its default."""
        return self.read(name, reader) if name in self.arguments else default

    def check_taken(self, mechanism: Mechanism, taken: Mapping[str, str]) -> None:
        """Refuse a missing delta, and an argument whose parameter the mechanism does not have."""
        if "delta" in mechanism.parameters and "delta" not in self.arguments:
            raise self.token.error(
                ArgumentError,
                f"The mechanism {mechanism.name} needs delta: the probability with which the "
                "guarantee may fail.",
                "Add delta := 1e-9 (well below one over the number of people), or choose a "
                "mechanism that needs none.",
                [self.arguments["mechanism"].omitted()] if "mechanism" in self.arguments else [],
            )
        for name, parameter in taken.items():
            if name not in self.arguments or parameter in mechanism.parameters:
                continue
            others = REGISTRY[mechanism.function].items()
            takers = [other for other, found in others if parameter in found.parameters]
            also = f", or choose a mechanism that takes it: {', '.join(takers)}" if takers else ""
            message = f"The mechanism {mechanism.name} takes no {name}."
            given = self.arguments[name]
            raise given.refuse(message, f"Leave {name} out{also}.", [given.omitted()])
