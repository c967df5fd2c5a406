"""The refusal of a private table that a statement reads without a DP call."""

from collections.abc import Callable, Sequence
from fractions import Fraction

from sqlglot import exp

from dp_sql.errors import NotPrivate, QueryError
from dp_sql.privacy.plans.scores import call_of
from dp_sql.privacy.refusals import Refused
from dp_sql.privacy.relations.policy_tables import ONLY_SELECTED, PolicyTables
from dp_sql.privacy.relations.source_compiler import Compiler
from dp_sql.session.corrections.aggregates import read_directly
from dp_sql.sql.formatting import quote, shown_name
from dp_sql.sql.restated import OtherQuestion
from dp_sql.sql.select_list import Functions
from dp_sql.sql.tokens import Tokens, folded, relation_token
from dp_sql.udfs.mechanism import in_words


def private_table(
    parts: Sequence[str],
    tokens: Tokens,
    tables: PolicyTables,
    functions: Functions,
    epsilon: Callable[[], Fraction],
) -> QueryError | None:
    """The refusal, with statements that read the table by a DP call; None if it is not private.

    epsilon: gives one for these, once they are needed.
    """
    name, policy = parts[-1], tables.policy
    at, node = relation_token(tokens, name), exp.to_table(".".join(map(quote, parts)))
    try:
        rows = Compiler(tables).listed_view(parts) or tables.rows(node, parts)
    except Refused as why:  # of a view that analysts cannot use
        return at.error(NotPrivate, why.message, why.hint)
    if rows is None and (scores := tables.scores(parts)) is not None:
        instead = OtherQuestion(f"SELECT {call_of(scores)} AS best FROM {shown_name(name)}")
        return at.error(NotPrivate, f"{name} {ONLY_SELECTED}.", instead=[instead])
    if rows is None or not rows.is_private:
        return None
    private = {folded(table[-1]) for table in (*policy.tables, *policy.views)}
    return read_directly(name, tokens, private, functions, in_words(epsilon()))
