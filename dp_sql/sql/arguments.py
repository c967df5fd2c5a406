"""Read the arguments of one DP call, and check all ranges. Pure: no catalog, no data."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dp_sql.errors import ArgumentError
from dp_sql.sql import argument_errors, ranges, readers
from dp_sql.sql.filters import end_of_call, kept_by_filter
from dp_sql.sql.functions import function_of
from dp_sql.sql.given import Argument, Arguments, Given, PublicSet, Reference, SetPerKey
from dp_sql.sql.shape import Function, Shape
from dp_sql.sql.tokens import Token, Tokens
from dp_sql.udfs.mechanism import Mechanism

_STANDS_FOR = {"item": "1", "k": "10", "q": "0.5", "epsilon": "1"}  # of a call that lacks them


@dataclass(frozen=True)
class DpCall:
    """One DP call: what it asks for, with every number already a checked exact value.

    `start` and `end` are the offsets of the call in the text, with FILTER; `display` is the name
    that DuckDB would give its column: the call without its named arguments. `columns` are the
    arguments that name columns. `condition`: of FILTER; an item counts as NULL where it is not
    true. `groups` is the public set of groups; each person counts in at most
    `max_groups_contributed` of them. `missing`: the arguments that it lacks; such a call never
    becomes a plan: only its error is still open.
    """

    function: Function
    start: int
    end: int
    display: str
    columns: Mapping[str, Reference]
    domain: PublicSet | None
    mechanism: Mechanism
    parameters: Shape
    groups: PublicSet | SetPerKey | None
    max_groups_contributed: int | None
    condition: Reference | None = None
    missing: tuple[str, ...] = ()
    given: Mapping[str, Argument] = field(default_factory=dict, repr=False, compare=False)

    @property
    def names_mechanism_of_people(self) -> bool:
        """Whether it names the mechanism that answers where the item is the privacy unit."""
        named, of_people = self.given.get("mechanism"), self.function.shape.mechanism_of_people()
        return named is not None and readers.word(named) == of_people

    @property
    def finds_groups(self) -> bool:
        """Whether the groups are unknown, and a part of epsilon and delta finds them."""
        return self.function.finds_groups(self.given)

    @property
    def takes_domain(self) -> bool:
        """Whether the items are those of a public domain."""
        return "domain" in self.function.named and not self.mechanism.finds_items

    @property
    def k(self) -> int | None:
        """How many items are listed; None: the answer is no list."""
        return self.parameters.n_listed

    @property
    def span(self) -> tuple[int, int]:
        """Where the call is in the text."""
        return self.start, self.end

    @property
    def item(self) -> Reference:
        """The column whose values are counted."""
        return self.columns["item"]

    @property
    def privacy_unit(self) -> Reference:
        """The column that identifies the person of each row."""
        return self.columns["privacy_unit"]


def stated_unit(calls: Iterable[Arguments]) -> Argument | None:
    """The privacy unit that some of the calls give, if it is the same in all."""
    given = (one for arguments in calls for one in arguments)
    found = [value for name, value in given if name == "privacy_unit" and value]
    return found[0] if len({one.text for one in found}) == 1 else None


def read_call(
    tokens: Tokens,
    index: int,
    under_policy: bool,
    of_groups: Sequence[str],
    unit: Argument | None,
) -> DpCall:
    """Read the call whose name is `tokens[index]`, in a SELECT that needs `of_groups`, too.

    `unit` is the privacy unit that another call of the SELECT gives.

    Under a policy a call that lacks numbers is read as one that can never be planned: which other
    arguments it needs depends on the policy.

    Raises:
        ArgumentError: an argument is missing, unknown, out of range or not taken by the mechanism.
        NotSupported: DISTINCT, ORDER BY or IGNORE NULLS inside the call.
    """
    function = function_of(tokens[index])
    close = tokens.matching(index + 1)
    positional, named = _arguments(tokens, index, close, function)
    own = dict(zip(function.positional, positional, strict=False)) | named
    lacking = tuple(name for name in function.required if name not in own)
    own |= _stand_ins(tokens[index], lacking)
    given = Given(function.name, tokens[index], own, under_policy)
    argument_errors.refuse_misplaced(given)
    found = own
    if unit is not None and "privacy_unit" in function.named and not under_policy:
        found = {"privacy_unit": unit, **own}
    span = tokens[index : close + 1].span
    behind = positional[-1][-1].end if positional else tokens[index + 1].end
    kept, display = kept_by_filter(tokens, close), ", ".join(one.text for one in positional)
    display = f"{function.name.lower()}({display})"
    # What a call under a policy lacks is known later, except the columns of DP_SELECT.
    if not under_policy or not own.keys() >= {*function.positional}:
        argument_errors.refuse_missing(
            function, given._replace(arguments=found), lacking, of_groups, span, behind
        )
    item = own[function.positional[0]]
    if item.text == "*" and not function.shape.takes_star:
        raise argument_errors.star(function, tokens[index], item)
    columns = _columns(function, found, lacking, tokens[index].start)
    mechanism, parameters = _parameters(function, given)
    max_groups = readers.whole(ranges.MAX_GROUPS_CONTRIBUTED)
    return DpCall(
        function=function,
        start=tokens[index].start,
        end=tokens[end_of_call(tokens, index)].end,
        display=f"{display} FILTER (WHERE {kept.text})" if kept else display,
        columns=columns,
        domain=given.optional("domain", readers.read_domain, None),
        mechanism=mechanism,
        parameters=parameters,
        groups=given.optional("groups", readers.read_groups, None),
        max_groups_contributed=given.optional("max_groups_contributed", max_groups, None),
        condition=kept.reference() if kept else None,
        missing=lacking,
        given=given.arguments,
    )


def _stand_ins(call: Token, lacking: Sequence[str]) -> dict[str, Argument]:
    """Numbers in place of the required arguments that a call lacks."""
    return {
        name: Argument(Tokens([replace(call, kind="number", text=value)]))
        for name, value in _STANDS_FOR.items()
        if name in lacking
    }


def _columns(
    function: Function, given: Mapping[str, Argument], lacking: Sequence[str], start: int
) -> dict[str, Reference]:
    """The columns that a call reads. A call that lacks its item is read as one of all rows."""
    columns = {
        name: reader(given[name], f"the {name}" if name == function.positional[0] else name)
        for name, reader in function.shape.columns.items()
        if name in given and name not in lacking
    }
    if "item" in lacking:
        columns["item"] = Reference((), readers.EVERY_ROW, start)
    return columns


def _parameters(function: Function, given: Given) -> tuple[Mechanism, Shape]:
    """The mechanism of a call, and its numbers."""
    default = function.shape.default_mechanism(given, function.default_mechanism)
    of_people = function.shape.mechanism_of_people()
    names = [*function.mechanisms, *([of_people] if of_people else [])]
    name = given.optional("mechanism", readers.choice(names, function.default_mechanism), default)
    # Whether the item is the person is known once the source is read; then the mechanism is set.
    mechanism = function.mechanisms[default if name == of_people else name]
    parameters = function.shape.read(given, mechanism)
    if function.finds_groups(given.arguments):
        parameters = replace(parameters, delta=given.read("delta", readers.read_delta))
    return mechanism, parameters


def _arguments(
    tokens: Tokens, index: int, close: int, function: Function
) -> tuple[list[Argument], dict[str, Argument]]:
    positional: list[Argument] = []
    named: dict[str, Argument] = {}
    for start, stop in tokens.split(index + 2, close):
        if start >= stop:
            at = tokens[min(start, close)]
            without = [tokens[start - 1 : start].put("")] if at.is_symbol(")") else []
            raise at.error(ArgumentError, "An argument is missing here.", instead=without)
        part = tokens[start:stop]
        argument_errors.refuse_modifiers(part, function, tokens[index : start + 2])
        argument_errors.refuse_missing_comma(part)
        is_full = bool(named) or len(positional) == len(function.positional)
        if part[0].name is not None and part.at(1).is_symbol(":=", "=>"):
            _add_named(named, tokens, (start, stop), function)
        elif meant := argument_errors.without_mark(part, function, is_full):
            raise argument_errors.misnamed(part, *meant)
        elif is_full:
            raise argument_errors.surplus(tokens, (start, stop), function, bool(named))
        else:
            positional.append(Argument(part))
    return positional, named


def _add_named(
    named: dict[str, Argument], tokens: Tokens, at: tuple[int, int], function: Function
) -> None:
    """Read one argument written with its name."""
    part = tokens[slice(*at)]
    first, name = part[0], (part[0].name or "").lower()
    if name in function.positional:
        hint, instead = f"For example: {function.example}", [part[:2].put("")]
        raise first.error(ArgumentError, f"{name} is written without its name.", hint, instead)
    if name not in function.named:
        raise argument_errors.unknown(tokens, at, function)
    if name in named:
        raise first.error(ArgumentError, f"{name} is given twice.", None, [tokens.left_out(*at)])
    if not part[2:]:
        raise first.error(ArgumentError, f"{name} has no value.")
    named[name] = Argument(part[2:])
