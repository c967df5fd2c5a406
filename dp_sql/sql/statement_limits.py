"""How large may an analyst's statement be? Checked before DuckDB or sqlglot sees it. Pure.

Parsers and planners do not limit a statement's shape. Some shapes end the process by overflowing
the stack of a thread, and some take minutes. No question needs such a shape, so it is refused here,
from the tokens alone and in time linear in the statement's length.

Measured on DuckDB 1.5.5 and 2.0.0 in threads with a stack of 512 KB, which is what macOS gives to
DuckDB's threads (Linux: 8 MB). Each limit is below the first size that crashed or took about
a second; tests/sql/test_statement_limits.py asks at each limit and beyond it.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from dp_sql.errors import NotSupported
from dp_sql.sql.functions import names_function
from dp_sql.sql.statement import Statement
from dp_sql.sql.tokens import QUERY, Token, Tokens

MAX_BYTES = 200_000  # in UTF-8: 20,000 short literals; lexed in 0.2 s, 10 MB took 14 s
MAX_TOKENS = 45_000  # words, names, literals and symbols; a list of 20,000 literals has 40,000
MAX_DEPTH = 50  # levels of nested brackets and CASEs; 1.5.5 crashed between 100 and 300
OWNERS_DEPTH = 500  # the same in an owner's statement with DP calls; nothing else is limited there
# Words and symbols of one expression, and those before each bracket around it: `NOT NOT …`,
# `x.y.z`, `x + y + …`, `x::INT::INT`. Commas, AND, OR and the words of CASE and of queries restart
# the count. 600 took 1.5.5 up to 5 s; 1,000 crashed it.
MAX_CHAIN = 200
MAX_CONDITIONS = 1000  # AND and OR: 5,000 take DuckDB 0.5 s; sqlglot gives up beyond 900 in one
# `x = y` where y is not a literal. DuckDB derives what follows from each pair: 100 took 8 s.
MAX_EQUALITIES = 40
MAX_ARROWS = 8  # nested or chained `->` and lambdas; each doubles the work: 16 took 2.0.0 a second
# Queries, tables, joins, windows and DISTINCT. 1.5.5 crashed at 100 CTEs that read each other,
# 2.0.0 at 5,600 count(DISTINCT …), and took seconds for 300 joins.
MAX_RELATIONS = 80
MAX_SUBQUERIES = 16  # in expressions; 30 that read a column outside took 2.0.0 a second
MAX_QUERY_DEPTH = 16  # queries inside queries; 1.5.5 crashed at 100
MAX_SCALAR_DEPTH = 5  # inside the expressions of queries; 1.5.5 took 0.5 s for 10, 17 s for 20
# PIVOT, UNPIVOT, SUMMARIZE, DESCRIBE and SHOW, each of which DuckDB writes out as a larger query:
# 1.5.5 took a second for 10 nested SUMMARIZE.
MAX_SUMMARIES = 2
MAX_COPIES = 500  # see copies.py; 1,024 copies took up to 0.8 s, 4,096 up to 6 s
MAX_CALLS = 100  # DP calls; each is a release, with a plan of its own
# Words and symbols times DP calls. Each call reads its source again: 100 calls beside a list of
# 21,000 values took 30 s.
MAX_READINGS = 150_000
MAX_ITEMS = 1000  # beside DP calls in SELECT lists; sqlglot reads each: 20,000 constants took 6 s
MAX_DIGITS = 500  # of a number; 200,000 took 2.0.0 3 s; DuckDB's longest type has 38, a double 309
MAX_PARAMETERS = 10_000  # counting what lists and dictionaries hold
MAX_PARAMETER_BYTES = 1_000_000  # characters, bytes and digits together

_SUMMARIES = frozenset({"PIVOT", "UNPIVOT", "DESCRIBE", "DESC", "SHOW", "SUMMARIZE"})
# After any other word or symbol, all of these but PIVOT and UNPIVOT are syntax errors or columns.
_BEFORE_SUMMARIES = _SUMMARIES | {"(", "UNION", "EXCEPT", "INTERSECT", "ALL", "DISTINCT", "NAME"}
_QUERIES = _SUMMARIES | QUERY | {"TABLE"}
_RELATIONS = _SUMMARIES - {"DESC"} | {
    "SELECT", "FROM", "VALUES", "TABLE", "JOIN", "UNION", "EXCEPT", "INTERSECT", "LATERAL", "OVER",
    "WINDOW", "DISTINCT"}  # fmt: skip
# After these words a new expression begins.
_ANEW = _RELATIONS - {"OVER", "DISTINCT"} | {"AND", "OR", "WHERE", "GROUP", "HAVING", "ORDER", "ON"}
_BRANCHES = frozenset({"WHEN", "THEN", "ELSE"})
_AFTER_LITERAL = _ANEW | _BRANCHES | {"END"}
# In the brackets after these, as after FROM, each comma brings one more part to plan.
_GROUPINGS = frozenset({"CUBE", "ROLLUP", "SETS"})
_BEFORE_TABLES = frozenset({"FROM", "JOIN", "LATERAL", "AS", "MATERIALIZED", "UNION", "EXCEPT",
                            "INTERSECT", "NAME"})  # fmt: skip


def check_bytes(text: str) -> None:
    """Refuse (NotSupported) a statement of more than MAX_BYTES bytes."""
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        message = f"A statement has at most {MAX_BYTES:,} bytes."
        raise NotSupported(message, hint=_HINTS["words and symbols"])


def check_shape(statement: Statement) -> None:
    """Refuse (NotSupported) a statement that could crash or stall a parser or planner."""
    from dp_sql.sql.copies import copies  # owners' statements have no such limit

    _Scan(statement.tokens).run()
    if copies(statement.tokens, MAX_COPIES) > MAX_COPIES:
        message = "With each name replaced by its definition, this statement holds more than "
        hint = "Read a CTE or an alias once where you can, and list columns instead of *."
        message += f"{MAX_COPIES:,} copies of one part."
        raise statement.tokens[0].error(NotSupported, message, hint)


def check_depth(statement: Statement) -> None:
    """Refuse (NotSupported) an owner's statement that nests brackets over OWNERS_DEPTH deep."""
    depth = 0
    for token in statement.tokens:
        depth += token.opens - token.closes
        if depth > OWNERS_DEPTH:
            message = f"A statement with DP calls has at most {OWNERS_DEPTH} levels of nested "
            raise token.error(NotSupported, message + "brackets.")


def check_parameters(parameters: object) -> None:
    """Refuse (NotSupported) parameters that are too many, too large or nested too deep."""
    n_values = n_bytes = 0
    waiting = [(parameters, 0)]
    while waiting:
        value, depth = waiting.pop()
        n_values += 1
        if isinstance(value, int) and abs(value.bit_length()) > 4 * MAX_DIGITS:
            n_bytes = MAX_PARAMETER_BYTES  # a number of many digits is slow to convert
        n_bytes += len(value) if isinstance(value, str | bytes | bytearray | memoryview) else 1
        inner: Collection[object] = ()
        if isinstance(value, dict):
            inner = [*value.keys(), *value.values()] if len(value) <= MAX_PARAMETERS else value
        elif isinstance(value, list | tuple | set | frozenset):
            inner = value
        if depth > MAX_DEPTH:
            raise NotSupported(f"Parameters hold at most {MAX_DEPTH} levels of nested lists.")
        if n_values + len(inner) + len(waiting) > MAX_PARAMETERS:
            raise NotSupported(f"A statement has at most {MAX_PARAMETERS:,} parameters.")
        if n_bytes > MAX_PARAMETER_BYTES:
            raise NotSupported(f"Parameters have at most {MAX_PARAMETER_BYTES:,} bytes together.")
        waiting += [(part, depth + 1) for part in inner]


@dataclass
class _Frame:
    """A bracket or CASE that is open, or the whole statement."""

    query: str = ""  # "table" or "scalar" where it holds a query
    is_case: bool = False
    one_by_one: bool = False  # each comma brings one more part to plan
    chain: int = 0  # tokens of the current expression
    arrows: int = 0  # arrows of the current expression
    items: int = 0  # commas so far
    has_call: bool = False  # a list of this query has a DP call


class _Scan:
    """One pass over the tokens of a statement, which counts and refuses."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._frames = [_Frame()]
        self._counts: Counter[str] = Counter()
        self._index = 0

    def run(self) -> None:
        self._index = min(MAX_TOKENS, len(self._tokens) - 1)
        self._most(len(self._tokens), MAX_TOKENS, "words and symbols")
        for index, token in enumerate(self._tokens):
            self._index = index
            if token.kind == "symbol":
                self._symbol(token)
            elif token.name is not None:
                self._word(token)
            elif token.kind == "number":
                self._most(len(token.text), MAX_DIGITS, "digits in one number")
            self._frames[-1].chain += 1
            self._count(_CHAIN, MAX_CHAIN)
        self._end_items()
        readings = self._counts[_CALLS] * len(self._tokens)
        self._most(readings, MAX_READINGS, "words and symbols times DP calls")

    def _symbol(self, token: Token) -> None:
        symbol = token.text
        if token.opens:
            self._open(_Frame())
        elif token.closes:
            self._close()
        elif symbol == ",":
            self._begin_anew()
            self._frames[-1].items += 1
            if self._frames[-1].one_by_one:
                self._count(_PARTS, MAX_RELATIONS)
        elif symbol == "->":
            self._arrow()
        elif symbol in {"=", "=="} and not self._literal_follows():
            self._count("equalities of columns or expressions", MAX_EQUALITIES)

    def _word(self, token: Token) -> None:
        frame, word = self._frames[-1], token.upper
        if word in _SUMMARIES and not self._writes_out(word):
            return
        follows = self._tokens.at(self._index + 1)
        if follows.is_symbol("(") and names_function(token):
            self._count(_CALLS, MAX_CALLS)
            queries = [frame for frame in self._frames if frame.query]
            (queries or self._frames[:1])[-1].has_call = True
        if word in _ANEW or (word in _BRANCHES and frame.is_case):
            self._begin_anew()
        if word in _RELATIONS:
            self._count(_PARTS, MAX_RELATIONS)
        if word in _SUMMARIES:
            self._count("PIVOT, UNPIVOT, SUMMARIZE, DESCRIBE and SHOW", MAX_SUMMARIES)
        if word in {"AND", "OR"}:
            self._count("AND and OR", MAX_CONDITIONS)
        elif word in {"SELECT", "FROM"}:
            frame.one_by_one = word == "FROM"
        elif word in {"LAMBDA", "FOR"}:
            self._arrow()
        elif word == "CASE":
            self._open(_Frame(is_case=True))
        elif word == "END" and frame.is_case and self._before(1) not in {".", "AS"}:
            self._close()

    def _writes_out(self, word: str) -> bool:
        """Whether a word of _SUMMARIES is neither a column (b.show) nor the DESC of ORDER BY."""
        before, follows = self._before(1), self._tokens.at(self._index + 1)
        if word in {"PIVOT", "UNPIVOT"}:  # these may also follow a table
            return before != "."
        is_column = word == "SHOW" and follows.kind == "symbol" and not follows.opens
        return not is_column and (before in _BEFORE_SUMMARIES or self._index == 0)

    def _open(self, opened: _Frame) -> None:
        """Enter a bracket; the tokens before it count for the expression inside."""
        opened.one_by_one = self._before(1) in _GROUPINGS
        follows = self._tokens.at(self._index + 1)
        if follows.upper in _QUERIES and not opened.is_case:
            before = self._before(2 if self._before(1) == "ALL" else 1)
            in_list = before == "," and self._frames[-1].one_by_one
            is_table = before in _BEFORE_TABLES or in_list or self._index == 0
            opened.query = "table" if is_table else "scalar"
        self._frames.append(opened)
        self._most(len(self._frames) - 1, MAX_DEPTH, "levels of nested brackets")
        if opened.query:
            queries = [frame.query for frame in self._frames if frame.query]
            self._most(len(queries), MAX_QUERY_DEPTH, "levels of nested queries")
            depth = queries.count("scalar")
            self._most(depth, MAX_SCALAR_DEPTH, "levels of queries nested in expressions")
        if opened.query == "scalar":
            self._count("queries in expressions", MAX_SUBQUERIES)

    def _close(self) -> None:
        if len(self._frames) > 1:  # else DuckDB says that this bracket was never opened
            self._begin_anew()
            self._end_items()
            self._frames.pop()

    def _end_items(self) -> None:
        frame = self._frames[-1]
        if frame.has_call:
            self._counts[_ITEMS] += frame.items
            self._most(self._counts[_ITEMS], MAX_ITEMS, _ITEMS)

    def _arrow(self) -> None:
        self._frames[-1].arrows += 1
        self._count(_ARROWS, MAX_ARROWS)

    def _begin_anew(self) -> None:
        frame = self._frames[-1]
        self._counts[_CHAIN] -= frame.chain
        self._counts[_ARROWS] -= frame.arrows
        frame.chain = frame.arrows = 0

    def _literal_follows(self) -> bool:
        """Whether what follows is a number or string, and nothing is done with it."""
        literal, after = (self._tokens.at(self._index + n) for n in (1, 2))
        ends = not after.kind or after.closes or after.is_symbol(",")
        alone = ends or after.upper in _AFTER_LITERAL
        return literal.kind in {"number", "string"} and alone

    def _before(self, n: int) -> str:
        """The symbol or keyword n tokens before this one."""
        token = self._tokens.at(self._index - n)
        return token.upper or token.text

    def _count(self, what: str, limit: int) -> None:
        self._counts[what] += 1
        self._most(self._counts[what], limit, what)

    def _most(self, count: int, limit: int, what: str) -> None:
        if count > limit:
            hint = _HINTS.get(what, "Split it into several statements, or simplify it.")
            message = f"A statement has at most {limit:,} {what}."
            raise self._tokens[self._index].error(NotSupported, message, hint)


_CALLS = "DP calls"
_ITEMS = "other items in SELECT lists with DP calls"
_CHAIN = "words and symbols in one expression"
_ARROWS = "nested or chained arrows and lambdas"
_PARTS = "queries, tables, joins, windows and DISTINCT"
_HINTS = {
    "words and symbols": "A long list of values belongs in a public table.",
    "AND and OR": "Write x IN (…, …) instead of x = … OR x = …",
}
