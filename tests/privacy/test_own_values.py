"""Groups and items whose values are known from the form of the expression alone."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import dp_sql
from dp_sql.errors import ArgumentError
from dp_sql.privacy.expressions.row_values import with_own_values
from dp_sql.privacy.expressions.value import Value
from dp_sql.sql.sqlglot_tree import projection

TABLES = """
CREATE TABLE regions AS SELECT unnest(['north', 'south']) AS name;
CREATE TABLE seen AS SELECT i % 90 AS user_id, i % 3 = 0 AS is_open, i % 7 AS stars,
    ['north', 'west'][i % 2 + 1] AS region, if(i % 5 = 0, NULL, 'x') AS note,
    DATE '2023-12-25' + INTERVAL (i * 31) HOUR AS moment, TIME '24:00:00' AS bedtime,
    INTERVAL (i) HOUR AS late FROM range(900) AS t(i);
CREATE VIEW shown AS SELECT user_id, if(stars > 3, 'high', 'low') AS k FROM seen;
"""
POLICY = """
tables.seen.privacy_unit = "user_id"
public.tables = ["regions"]
views.tables = ["shown"]
domains."seen.region" = "regions.name"
"""
PARTS = [
    "quarter", "month", "week", "weekofyear", "day", "dayofyear", "doy", "dayofweek", "dow",
    "weekday", "isodow", "hour", "minute", "second", "dayname", "monthname",
]  # fmt: skip
TIMES = ["hour", "minute", "second"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("own")
    with duckdb.connect(made / "a.duckdb") as con:
        con.execute(TABLES)
    (made / "policy.toml").write_text(POLICY)
    return made


@pytest.fixture(scope="module")
def analyst(folder: Path) -> Iterator[dp_sql.Session]:
    with dp_sql.connect(folder / "a.duckdb", policy=folder / "policy.toml") as session:
        yield session


@pytest.fixture(scope="module")
def owner(folder: Path) -> Iterator[dp_sql.Session]:
    with dp_sql.connect(folder / "a.duckdb", read_only=True) as session:
        yield session


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("key", "n_groups"),
    [
        ("is_open", 2), ("NOT is_open", 2), ("stars > 3", 2), ("note IS NULL", 2),
        ("is_open::VARCHAR", 2), ("region = 'west'", 2), ("stars > 99", 2),
        ("hour(moment)", 24), ("minute(moment::TIME)", 60), ("extract(month FROM moment)", 12), ("date_part('dow', moment)", 7),
        ("month(moment + INTERVAL 1 DAY)", 12), ("month(moment)::UTINYINT", 12),
        ("CAST(extract(dow FROM moment) AS INTEGER)", 7), ("TRY_CAST(hour(moment) AS TINYINT)", 24),
        ("(isodow(moment))", 7), ("dayname(moment)", 7), ("monthname(moment)", 12),
        ("CASE WHEN stars > 3 THEN 'high' WHEN is_open THEN NULL ELSE 'low' END", 2),
        ("CASE stars WHEN 1 THEN -1 ELSE 2.5 END", 2), ("if(is_open, 'yes', 'no')", 2),
        ("CASE WHEN is_open THEN DATE '2024-01-31' END", 1),
    ],
)  # fmt: skip
def test_groups_that_no_one_declares(
    key: str, n_groups: int, analyst: dp_sql.Session, owner: dp_sql.Session, folder: Path
) -> None:
    asked = f"SELECT {key} AS k, DP_COUNT(*, epsilon := 10000) AS n FROM seen GROUP BY k"
    found = dict(analyst.sql(asked).fetchall())
    with duckdb.connect(folder / "a.duckdb", read_only=True) as con:
        plain = f"SELECT {key} AS k, count(*) AS n FROM seen GROUP BY k HAVING k IS NOT NULL"
        expected = dict(con.execute(plain).fetchall())
    assert len(found) == n_groups and {k: n for k, n in found.items() if n} == expected
    inner = f"SELECT *, {key} AS k FROM seen"
    inside = f"SELECT k, DP_COUNT(*, epsilon := 10000) AS n FROM (FROM ({inner})) s GROUP BY s.k"
    assert dict(analyst.sql(inside).fetchall()) == found
    if "::VARCHAR" not in key:  # known by the values of is_open, which is a column for an owner
        for one in (asked, inside):
            mine = owner.sql(one.replace("10000)", "10000, privacy_unit := user_id)")).fetchall()
            assert dict(mine) == found


@pytest.mark.parametrize(
    ("keys", "n_groups"),
    [
        ("dayname(moment), isodow(moment)", 7), ("(weekday(moment)), is_open, dayname(moment)", 14),
        ("monthname(moment), month(moment), quarter(moment)", 12),
        ("month(moment), day(moment)", 366), ("hour(moment), minute(moment)", 1440),
        ("dayname(moment), isodow(moment + INTERVAL 1 DAY)", 49), ("stars > 3, stars > 4", 4),
    ],
)  # fmt: skip
def test_only_possible_combinations_of_parts_are_groups(
    keys: str, n_groups: int, analyst: dp_sql.Session, owner: dp_sql.Session, folder: Path
) -> None:
    asked = f"SELECT {keys}, DP_COUNT(*, epsilon := 10000) FROM seen GROUP BY ALL"
    found = analyst.sql(asked).fetchall()
    with duckdb.connect(folder / "a.duckdb", read_only=True) as con:
        expected = con.execute(f"SELECT {keys}, count(*) FROM seen GROUP BY ALL").fetchall()
    assert len(found) == n_groups and {row for row in found if row[-1]} == {*expected}
    mine = owner.sql(asked.replace("10000)", "10000, privacy_unit := user_id)")).fetchall()
    assert sorted(mine) == sorted(found)


@pytest.mark.parametrize(
    ("keys", "source", "n_groups"),
    [
        ("a, b", "(SELECT user_id, dayname(moment) a, isodow(moment) b FROM seen)", 7),
        ("a, b", "(SELECT user_id, dayname(moment) a FROM seen) x JOIN (SELECT user_id, isodow(moment) b FROM seen) y USING (user_id)", 49),
        ("a, b", "(SELECT user_id, dayname(moment) a, moment AS t FROM seen) x JOIN (SELECT user_id u, isodow(moment) b FROM seen) y ON u = x.user_id", 49),
        ("isodow(t), a", "(SELECT user_id, dayname(moment) a, moment AS t FROM seen)", 49),
        ("u, region", "(SELECT user_id, upper(region) u, region FROM seen)", 4),
        ("u, v", "(SELECT user_id, upper(region) u, left(region, 1) v FROM seen)", 2),
        ("lower(u)", "(SELECT user_id, upper(region) u FROM seen)", 2),
        ("coalesce(a, '?')", "(SELECT user_id, CASE WHEN is_open THEN 'open' END a FROM seen)", 2),
        ("a", "(SELECT DISTINCT user_id, if(is_open, 1, 2) a FROM seen)", 2),
    ],
)  # fmt: skip
def test_groups_of_what_a_subquery_computes(
    keys: str, source: str, n_groups: int, analyst: dp_sql.Session, folder: Path
) -> None:
    found = analyst.sql(
        f"SELECT {keys}, DP_COUNT(*, epsilon := 10000) FROM {source} GROUP BY ALL"
    ).fetchall()
    with duckdb.connect(folder / "a.duckdb", read_only=True) as con:
        expected = con.execute(f"SELECT {keys}, count(*) FROM {source} GROUP BY ALL").fetchall()
    assert len(found) == n_groups
    assert {row for row in found if row[-1]} <= {*expected}
    if "region" not in source:  # one of these is not declared
        assert {row[:-1] for row in found} >= {row[:-1] for row in expected if None not in row}


@pytest.mark.parametrize(
    ("key", "source"),
    [
        ("c", "(SELECT user_id, coalesce(m, 0) AS b, b AS c FROM #)"),
        ("c", "(SELECT user_id, ifnull(m, 77) AS b, b AS c FROM #)"),
        ("c", "(SELECT user_id, TRY_CAST(ifnull(m, 77) AS INTEGER) AS c FROM #)"),
        ("c", "(SELECT user_id, TRY_CAST(ifnull(m, 77) AS INTEGER) AS b, b AS c FROM #)"),
        ("TRY_CAST(c AS TINYINT)", "(SELECT user_id, ifnull(m, 77) AS c FROM #)"),
        ("c", "(SELECT DISTINCT user_id, coalesce(m, 0) AS b, b AS c FROM #)"),
        ("c", "(SELECT user_id, coalesce(m, 0) AS b, b AS c, lag(m) OVER (PARTITION BY user_id ORDER BY moment) FROM #)"),
        ("c", "(SELECT user_id, left(k, 2) AS b, b AS c FROM #)"),
        ("c", "(SELECT user_id, k[1:2] AS b, b AS c FROM #)"),
        ("lower(b)", "(SELECT user_id, k[1:2] AS b FROM #)"),
        ("c", "(SELECT user_id, coalesce(k, '?') AS b, b || '!' AS c FROM #)"),
    ],
)  # fmt: skip
def test_an_alias_of_what_is_computed_has_other_values(
    key: str, source: str, analyst: dp_sql.Session, folder: Path
) -> None:
    """Answered with all groups, or refused; never with those of the column behind it alone."""
    rows = "(SELECT *, month(nullif(moment, moment)) m, if(is_open, 'open', 'shut') k FROM seen)"
    source = source.replace("#", rows)
    with duckdb.connect(folder / "a.duckdb", read_only=True) as con:
        expected = con.execute(f"SELECT DISTINCT {key} FROM {source}").fetchall()
    try:
        found = analyst.sql(f"SELECT {key}, DP_COUNT(*, epsilon := 1) FROM {source} GROUP BY 1")
        assert {row[0] for row in found.fetchall()} >= {key for (key,) in expected if key}
    except ArgumentError as refused:
        assert "groups" in refused.message


@pytest.mark.parametrize(
    "source",
    [
        "shown",
        "(SELECT user_id, if(is_open, 1, 2) k FROM seen UNION ALL SELECT user_id, stars FROM seen)",
        "(SELECT user_id, first_value(k) OVER (PARTITION BY user_id ORDER BY k) AS k FROM (SELECT *, if(is_open, 1, 2) k FROM seen))",
        "(SELECT user_id, max(k) AS k FROM (SELECT *, if(is_open, 1, 2) k FROM seen) GROUP BY 1)",
        "(SELECT user_id, unnest(string_split(k, ' ')) AS k FROM (SELECT *, if(is_open, 'a', 'b') k FROM seen))",
    ],
)  # fmt: skip
def test_what_else_is_computed_has_other_values(source: str, analyst: dp_sql.Session) -> None:
    with pytest.raises(ArgumentError, match="the policy declares none for k"):
        analyst.sql(f"SELECT k, DP_COUNT(*, epsilon := 1) FROM {source} GROUP BY k")


def test_four_hundred_years_have_all_combinations() -> None:
    named = [f"{p}(d)" if p.endswith("name") else f"date_part('{p}', d)" for p in PARTS]
    listed = ", ".join(one for one in named if not any(f"'{t}'" in one for t in TIMES))
    of_days = f"SELECT {listed} FROM (SELECT {{}} + i::INTEGER AS d FROM range(146097) AS t(i))"
    calendar = of_days.format("DATE '2000-01-01'")
    for first in ("DATE '1583-05-20'", "DATE '0300-02-01 (BC)'", "DATE '200123-06-01 (BC)'"):
        other = of_days.format(first)
        assert duckdb.sql(f"{other} EXCEPT {calendar}").fetchall() == []


@pytest.mark.parametrize(
    "key",
    [
        "month(moment) + 1", "coalesce(month(moment), 13)", "year(moment)", "upper(note)",
        "CASE WHEN is_open THEN note ELSE 'none' END", "coalesce(note, 'none')",
        "date_trunc('month', moment)", "dayname(moment) || '!'", "hour(bedtime)",
        "extract(hour FROM bedtime)", "date_part('hour', bedtime)",
    ],
)  # fmt: skip
def test_other_values_must_be_declared(
    key: str, analyst: dp_sql.Session, owner: dp_sql.Session
) -> None:
    asked = f"SELECT {key} AS k, DP_COUNT(*, epsilon := 1) FROM seen GROUP BY k"
    with pytest.raises(ArgumentError, match="the policy declares none for"):
        analyst.sql(asked)
    with pytest.raises(ArgumentError, match="needs groups") as refused:
        owner.sql(asked.replace("1)", "1, privacy_unit := user_id)"))
    assert "groups := observed" in str(refused.value.suggestion)


@pytest.mark.parametrize(
    ("key", "joined", "expected"),
    [
        ("label", "(VALUES ('north', 'N'), ('west', 'W'), ('x', NULL)) v(code, label) ON code = region",
         [("N", 450), ("W", 450)]),
        ("label", "(VALUES (0, 1), (1, 2.5), (9, 1)) v(code, label) ON code = stars",
         [(1, 129), (2.5, 129)]),
        ("code, label", "(VALUES ('north', 'N'), ('west', 'W'), ('x', 'N')) v(code, label) ON code = region",
         [("north", "N", 450), ("west", "W", 450), ("x", "N", 0)]),
        ("s", "range(2, 9, 4) v(s) ON s = stars", [(2, 129), (6, 128)]),
    ],
)  # fmt: skip
def test_groups_that_the_statement_writes_out(
    key: str, joined: str, expected: list[object], analyst: dp_sql.Session, owner: dp_sql.Session
) -> None:
    asked = f"SELECT {key}, DP_COUNT(*, epsilon := 10000) AS n FROM seen JOIN {joined} GROUP BY ALL"
    assert sorted(analyst.sql(asked).fetchall()) == expected
    with pytest.raises(ArgumentError, match="needs groups"):  # an owner's may be people's
        owner.sql(asked.replace("10000)", "10000, privacy_unit := user_id)"))
    with pytest.raises(ArgumentError, match="the policy declares none"):
        analyst.sql(asked.replace(f"SELECT {key}", f"SELECT concat({key}, '!')"))


def test_parts_of_intervals_have_no_such_ranges(owner: dp_sql.Session) -> None:
    for part in ("hour(late)", "extract(minute FROM late)", "date_part('month', late)"):
        with pytest.raises(ArgumentError, match="needs groups"):
            owner.sql(
                f"SELECT {part}, DP_COUNT(*, epsilon := 1, privacy_unit := user_id) FROM seen "
                "GROUP BY 1"
            )


def test_where_the_name_of_a_key_begins(analyst: dp_sql.Session) -> None:
    for key, name in [("NOT is_open", "NOT is_open"), ("is_open::VARCHAR k", "k")]:
        found = analyst.sql(f"SELECT {key}, DP_COUNT(*, epsilon := 1) FROM seen GROUP BY 1")
        assert found.columns[0] == name and len(found.fetchall()) == 2


def test_an_owner_is_asked_for_what_is_not_known(owner: dp_sql.Session) -> None:
    asked = "SELECT region, is_open, DP_COUNT(*, epsilon := 1, privacy_unit := user_id) FROM seen"
    with pytest.raises(ArgumentError, match="groups := observed declares that the set") as refused:
        owner.sql(f"{asked} GROUP BY ALL")
    assert "groups := (observed, [FALSE, TRUE])" in str(refused.value.suggestion)
    assert len(owner.sql(str(refused.value.suggestion)).fetchall()) == 4
    asked = asked.replace("DP_COUNT(*,", "DP_TOPK(note, 1,")
    with pytest.raises(ArgumentError, match=r"needs a domain .* groups .* max_groups_contributed"):
        owner.sql(f"{asked} GROUP BY ALL")  # all in one error
    with pytest.raises(ArgumentError, match="max_groups_contributed"):  # of a list it is needed
        owner.sql(
            "SELECT is_open, DP_TOPK(region, 1, epsilon := 1, privacy_unit := user_id, "
            "domain := observed) FROM seen GROUP BY is_open"
        )


def test_items_that_no_one_declares(analyst: dp_sql.Session) -> None:
    """72 of the 90 people have a note, so the two items do not tie."""
    best = "SELECT DP_TOPK(CASE WHEN note IS NULL THEN 'a' ELSE 'b' END, 1, epsilon := 10000) FROM seen"
    assert analyst.sql(best).fetchall() == [(["b"],)]


def test_a_statement_names_them_where_others_are_missing(analyst: dp_sql.Session) -> None:
    with pytest.raises(ArgumentError, match="declares none for note") as refused:
        analyst.sql(
            "SELECT note, hour(moment) AS h, is_open, DP_COUNT(*, epsilon := 1) FROM seen "
            "GROUP BY note, h, is_open"
        )
    assert refused.value.suggestion is not None
    assert ", range(0, 24), [FALSE, TRUE]))" in refused.value.suggestion
    analyst.sql(refused.value.suggestion)


@pytest.mark.parametrize("part", PARTS)
def test_a_part_of_a_date_has_these_values_and_no_others(part: str) -> None:
    """Over four hundred years, at the ends of the calendar, and in BC."""
    read = f"{part}(d)" if part.endswith("name") else f"date_part('{part}', d)"
    tree = projection(read)
    assert tree is not None
    days = (
        "SELECT DATE '1999-12-20' + to_days(i::INT) + to_seconds(i * 7919) AS d "
        "FROM range(146100) AS t(i) UNION ALL SELECT unnest([TIMESTAMP '290309-12-22 (BC) 00:00:00', "
        "'0001-01-01 (BC) 23:59:59.999999', '294247-01-10 04:00:54', 'infinity', '-infinity', NULL])"
    )
    found = duckdb.sql(f"SELECT DISTINCT {read} AS v FROM ({days}) WHERE v IS NOT NULL").fetchall()
    kind = "VARCHAR" if part.endswith("name") else "BIGINT"
    value = with_own_values(Value("", kind), tree, lambda _: Value("d", "TIMESTAMP"))
    written = [one.strip("'") for one in value.own_values]
    assert {str(value) for (value,) in found} == {*written} and len(written) == len(found)
