"""What DuckDB's parser cannot read is refused, also where sqlglot guesses what is meant."""

from collections.abc import Iterator

import duckdb
import pytest

import dp_sql
from dp_sql.errors import ParseError
from dp_sql.privacy.expressions import predicates
from dp_sql.sql.tokens import Tokens, tokenize
from tests.conftest import SURE, free
from tests.integrations.test_dbapi import write_shop

_COUNT = f"SELECT DP_COUNT(*, {SURE}%s) AS n FROM ratings"
_TESTED = "WHERE title IN (SELECT title FROM catalog) AND"
UNREAD = [  # ^ before what DuckDB does not expect; behind each what sqlglot reads
    "JOIN (SELECT 1 AS a, title FROM catalog) SAMPLE (^10) USING (title)",  # the name "10" of a
    f"{_TESTED} user_id BETWEEN 1 ^2",  # BETWEEN 1 AND 2
    f"{_TESTED} regexp_replace(title, 'D',^, 'g') = 'x'",  # 'g' for 'D'
    f"{_TESTED} title IN (^, 'Emma')",  # IN ('Emma')
    f"{_TESTED} coalesce(title,^, '') = 'Emma'",  # coalesce(title, '')
    f"{_TESTED} user_id NOT ^IS NULL",  # IS NOT NULL
    f"{_TESTED} CASE title WHEN 'Emma' ^1 ELSE 2 END = 1",  # THEN 1
]


@pytest.fixture(scope="module")
def analyst(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dp_sql.Session]:
    shop = write_shop(tmp_path_factory.mktemp("shop"))
    policy = shop / "policy.toml"
    with dp_sql.connect(str(shop / "shop.duckdb"), policy=policy, analyst="ann") as session:
        yield session


@pytest.mark.parametrize("behind", UNREAD)
def test_it_is_refused_with_a_caret_and_costs_nothing(
    behind: str, shared: dp_sql.Session, analyst: dp_sql.Session
) -> None:
    behind, rest = behind.split("^")
    for asked, unit in ((shared, ", privacy_unit := user_id"), (analyst, "")):
        begin = f"{_COUNT % unit} {behind}"
        for explain in ("", "EXPLAIN "):
            with free(asked), pytest.raises(ParseError, match="Syntax error") as refused:
                asked.sql(f"{explain}{begin}{rest}")
            assert refused.value.text is not None
            assert refused.value.text[refused.value.position :].startswith(rest)
    con = shared.connection
    assert con is not None
    asked_in_dp = f"FROM dp($$ {_COUNT % ', privacy_unit := user_id'} {behind}{rest} $$)"
    with free(shared), pytest.raises(duckdb.Error, match="ParseError: Syntax error"):
        con.sql(asked_in_dp)


@pytest.mark.parametrize(
    "condition", ["user_id ! IS NULL", "! (user_id > 3)", "title ! LIKE 'E%'", "user_id ! IN (6)"]
)
def test_a_sign_that_duckdb_reads_otherwise_is_refused(
    condition: str, analyst: dp_sql.Session
) -> None:
    with free(analyst), pytest.raises(dp_sql.QueryError, match=r"! is not supported|Syntax error"):
        analyst.sql(f"{_COUNT % ''} WHERE {condition}")


@pytest.mark.parametrize(
    "asked",
    ["DP_COUNT_DISTINCT(left^, {}) FROM t WHERE left > 1", "DP_COUNT(*, {}) FROM t WHERE binary ^> 1 AND left(s, 1) = 'x'",
     "group^, DP_COUNT(*, {}, groups := [3]) FROM t GROUP BY group"],
)  # fmt: skip
def test_a_column_called_as_a_keyword_is_proposed_in_quotes(asked: str) -> None:
    asked = f"SELECT {asked.format('epsilon := 1, privacy_unit := user_id')}"
    with dp_sql.connect() as owner:
        listed = '1 AS user_id, 2 AS "left", 2 AS "binary", \'x\' AS s, 3 AS "group"'
        owner.sql(f"CREATE TABLE t AS SELECT {listed}")
        with pytest.raises(ParseError, match="Write instead") as refused:
            owner.sql(asked.replace("^", ""))
        proposed = refused.value.instead[-1]
        assert any(name in proposed for name in ('"left"', '"binary"', '"group"'))
        owner.sql(proposed)


@pytest.mark.parametrize("value", ["'nan'::DOUBLE", "repeat('x', 2000)", "['a']"])
def test_a_value_that_cannot_be_written_is_not_proposed(
    value: str, analyst: dp_sql.Session
) -> None:
    source = f"ratings WHERE (SELECT arg_max({value}, title) FROM catalog) = title"
    with free(analyst), pytest.raises(dp_sql.QueryError) as refused:
        analyst.sql(f"SELECT DP_COUNT(*, {SURE}) AS n FROM {source}")
    assert not any("arg_max" not in proposed for proposed in refused.value.instead)


@pytest.mark.parametrize(
    "drawn",
    [
        "random() * 10",
        "(SELECT random() * 10)",
        "txid_current()",
        "(SELECT max(length(title)) FROM catalog USING SAMPLE 1)",
    ],
)
def test_a_drawn_value_is_not_proposed(drawn: str, analyst: dp_sql.Session) -> None:
    with free(analyst), pytest.raises(dp_sql.QueryError) as refused:
        analyst.sql(f"SELECT DP_COUNT(*, {SURE}) AS n FROM ratings WHERE user_id < {drawn}")
    assert not refused.value.suggestion


@pytest.mark.parametrize(
    "source", ["(SELECT user_id FROM ratings ORDER BY nothing)", "ratings WHERE if(user_id > 3, TRUE)", "ratings WHERE title = (SELECT title FROM catalog)"]
)  # fmt: skip
def test_what_duckdb_cannot_bind_is_refused(source: str, analyst: dp_sql.Session) -> None:
    with (
        free(analyst),
        pytest.raises(dp_sql.QueryError, match=r"ORDER BY nothing|[Ii][Ff]|more than one row"),
    ):
        analyst.sql(f"SELECT DP_COUNT(*, {SURE}) AS n FROM {source}")


def test_a_text_with_many_conditions_is_searched_once(
    analyst: dp_sql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts: list[str] = []

    def counted(text: str) -> Tokens:
        texts.append(text)
        return tokenize(text)

    monkeypatch.setattr(predicates, "tokenize", counted)
    many = " AND ".join(f"NOT user_id = {i}" for i in range(50))
    analyst.sql(f"EXPLAIN {_COUNT % ''} WHERE {many}")
    assert len(texts) == 1


@pytest.mark.parametrize(
    "template", ["{{ title }}", "$__timeFrom()", "[[AND title = 'Emma']]", "{% if a %}"]
)
def test_a_template_of_a_dashboard_is_called_so(template: str, analyst: dp_sql.Session) -> None:
    with free(analyst), pytest.raises(ParseError, match="a dashboard fills in") as refused:
        analyst.sql(f"{_COUNT % ''} WHERE title = {template}")
    assert template in (refused.value.hint or "")


def test_what_duckdb_has_not_implemented_is_refused_in_a_sentence(
    shared: dp_sql.Session, analyst: dp_sql.Session
) -> None:
    where = "WHERE user_id BETWEEN SYMMETRIC 5 AND 1"  # DuckDB 1.5: NotImplementedException
    for asked, unit in ((shared, ", privacy_unit := user_id"), (analyst, "")):
        with free(asked), pytest.raises(dp_sql.QueryError, match=r"(?i)syntax error|T_List|basic"):
            asked.sql(f"{_COUNT % unit} {where}")
    con = shared.connection
    assert con is not None
    with free(shared), pytest.raises(duckdb.Error, match=r"(Parse|Source)Error: "):
        con.sql(f"FROM dp($$ {_COUNT % ', privacy_unit := user_id'} {where} $$)")
