"""Statements that nest or repeat a part n times: every bracket, operator and clause that recurses.

`SHAPES[name](n)` is a statement for DuckDB; most are valid for small n, some are left open.
"""

from collections.abc import Callable

Shape = Callable[[int], str]


def wrap(a: str, b: str, core: str = "1", head: str = "SELECT ") -> Shape:
    return lambda n: head + a * n + core + b * n


def chain(link: str, core: str = "1", head: str = "SELECT ") -> Shape:
    return lambda n: head + core + link * n


def pre(a: str, core: str = "1", head: str = "SELECT ") -> Shape:
    return lambda n: head + a * n + core


def joined(sep: str, item: str, head: str = "SELECT ", tail: str = "") -> Shape:
    return lambda n: head + sep.join([item] * n) + tail


SHAPES: dict[str, Shape] = {
    "parens": wrap("(", ")"),
    "brackets": wrap("[", "]"),
    "braces": wrap("{'a': ", "}"),
    "lower(": wrap("lower(", ")", "'a'"),
    "f(1,": wrap("greatest(1, ", ")"),
    "f(,1": wrap("greatest(", ", 1)"),
    "(select": wrap("(SELECT ", ")"),
    "(from (": wrap("(FROM ", ")", "range(1)", "FROM "),
    "from(select": wrap("(SELECT * FROM ", ")", "range(1)", "SELECT * FROM "),
    "FROM FROM": pre("FROM ", "range(1)", ""),
    "(from from": wrap("(FROM ", ")", "range(1)", ""),
    "SELECT SELECT": pre("SELECT ", "1", ""),
    "((table))": wrap("(", ")", "range(1)", "SELECT * FROM "),
    "((stmt))": wrap("(", ")", "SELECT 1", ""),
    "(values": wrap("(VALUES (", "))"),
    "case when": wrap("CASE WHEN true THEN ", " END"),
    "case else": wrap("CASE WHEN false THEN 1 ELSE ", " END"),
    "case case": wrap("CASE ", " WHEN 1 THEN 1 END"),
    "case open": pre("CASE WHEN "),
    "exists": wrap("EXISTS (SELECT ", ")"),
    "in (": wrap("1 IN (", ")"),
    "in (select": wrap("1 IN (SELECT ", ")"),
    "lambda": wrap("list_transform([1], lambda x: ", ")"),
    "lambda->": wrap("list_transform([1], x -> ", ")"),
    "x->x->": pre("x -> "),
    "lambda x:": pre("lambda x: "),
    "for": wrap("[x FOR x IN ", "]", "[1]"),
    "cast(": wrap("CAST(", " AS INT)"),
    "try_cast": wrap("TRY_CAST(", " AS INT)"),
    "try(": wrap("TRY(", ")"),
    "interval(": wrap("INTERVAL (", ") DAY"),
    "extract": wrap("EXTRACT(year FROM ", ")"),
    "struct type": lambda n: "SELECT NULL::" + "STRUCT(a " * n + "INT" + ")" * n,
    "type[]": lambda n: "SELECT NULL::INT" + "[]" * n,
    "map type": lambda n: "SELECT NULL::" + "MAP(INT, " * n + "INT" + ")" * n,
    "not": pre("NOT ", "true"),
    "-": pre("- "),
    "+": pre("+ "),
    "~": pre("~ "),
    "@": pre("@ "),
    "!": pre("! "),
    "star": pre("* "),
    "**": pre("** "),
    "::int": chain("::INT"),
    ".x": chain(".x", "x"),
    "[1]": chain("[1]", "[1]"),
    "[1:": chain("[1:1]", "[1]"),
    ".f()": chain(".lower()", "'a'"),
    "(x).y": chain(".x", "(x)"),
    "1+1": chain(" + 1"),
    "1*1": chain(" * 1"),
    "||": chain(" || 'a'", "'a'"),
    "and": chain(" AND true", "true"),
    "or": chain(" OR true", "true"),
    "and mix": chain(" AND true OR true", "true"),
    "=": chain(" = 1"),
    "<": chain(" < 1"),
    "^": chain(" ^ 1"),
    "->": chain(" -> 1"),
    "->>": chain(" ->> 1"),
    "is null": chain(" IS NULL"),
    "isnull": chain(" ISNULL"),
    "is not distinct": chain(" IS NOT DISTINCT FROM 1"),
    "between": chain(" BETWEEN 1 AND 1"),
    "between pre": pre("1 BETWEEN 1 AND "),
    "like": chain(" LIKE 'a'", "'a'"),
    "escape": chain(" LIKE 'a' ESCAPE 'b'", "'a'"),
    "similar": chain(" SIMILAR TO 'a'", "'a'"),
    "glob": chain(" GLOB 'a'", "'a'"),
    "in chain": chain(" IN (1)"),
    "not in": chain(" NOT IN (1)"),
    "in x": chain(" IN x", "x"),
    "collate": chain(" COLLATE nocase", "'a'"),
    "at tz": chain(" AT TIME ZONE 'UTC'", "now()"),
    "postfix!": chain("!"),
    "operator()": chain(" OPERATOR(+) 1"),
    "&": chain(" & 1"),
    "odd op": chain(" <-> 1"),
    "=any": chain(" = ANY ([1])"),
    "union": chain(" UNION ALL SELECT 1"),
    "union(": wrap("(SELECT 1 UNION ", ")", "SELECT 1", ""),
    "except": chain(" EXCEPT SELECT 1"),
    "union by name": chain(" UNION BY NAME SELECT 1 AS a", "1 AS a"),
    "intersect": chain(" INTERSECT SELECT 1"),
    "comma join": joined(", ", "range(1)", "SELECT 1 FROM "),
    "join": joined(" CROSS JOIN ", "range(1)", "SELECT 1 FROM "),
    "join on": chain(" JOIN range(1) ON true", "range(1)", "SELECT 1 FROM "),
    "join nested": wrap("(range(1) CROSS JOIN ", ")", "range(1)", "SELECT 1 FROM "),
    "join on on": lambda n: "SELECT 1 FROM range(1)" + " JOIN range(1)" * n + " ON true" * n,
    "left join": chain(
        " LEFT JOIN (SELECT 1 AS y) AS z ON z.y = t.x", "(SELECT 1 AS x) AS t", "SELECT 1 FROM "
    ),
    "natural": chain(" NATURAL JOIN range(1)", "range(1)", "SELECT 1 FROM "),
    "positional": chain(" POSITIONAL JOIN range(1)", "range(1)", "SELECT 1 FROM "),
    "lateral": chain(", LATERAL (SELECT 1)", "range(1)", "SELECT 1 FROM "),
    "using": chain(" JOIN (SELECT 1 AS x) USING (x)", "(SELECT 1 AS x)", "SELECT 1 FROM "),
    "asof": chain(
        " ASOF JOIN (SELECT 1 AS x) AS b ON a.x >= b.x", "(SELECT 1 AS x) AS a", "SELECT 1 FROM "
    ),
    "cte flat": lambda n: (
        "WITH " + ", ".join(f"a{i} AS (SELECT 1)" for i in range(n)) + " SELECT 1"
    ),
    "cte chain": lambda n: (
        "WITH a0 AS (SELECT 1 AS x), "
        + ", ".join(f"a{i + 1} AS (SELECT * FROM a{i})" for i in range(n))
        + f" SELECT * FROM a{n}"
    ),
    "cte double": lambda n: (
        "WITH a0 AS (SELECT 1 AS x), "
        + ", ".join(
            f"a{i + 1} AS (SELECT * FROM a{i} UNION ALL SELECT * FROM a{i})" for i in range(n)
        )
        + f" SELECT * FROM a{n}"
    ),
    "cte nm double": lambda n: (
        "WITH a0 AS NOT MATERIALIZED (SELECT 1 AS x), "
        + ", ".join(
            f"a{i + 1} AS NOT MATERIALIZED (SELECT * FROM a{i} UNION ALL SELECT * FROM a{i})"
            for i in range(n)
        )
        + f" SELECT * FROM a{n}"
    ),
    "cte nested": wrap("WITH a AS (", ") SELECT 1", "SELECT 1", ""),
    "with recursive": wrap(
        "WITH RECURSIVE a AS (SELECT 1 UNION ALL (", ")) SELECT 1", "SELECT 1", ""
    ),
    "list": joined(", ", "1"),
    "list strings": joined(", ", "'a'", "SELECT 1 IN (", ")"),
    "list []": joined(", ", "'a'", "SELECT [", "]"),
    "values": joined(", ", "(1)", "VALUES "),
    "in ints": joined(", ", "1", "SELECT 5 IN (", ")"),
    "struct flat": lambda n: "SELECT {" + ", ".join(f"'a{i}': 1" for i in range(n)) + "}",
    "case flat": lambda n: "SELECT CASE" + " WHEN false THEN 1" * n + " END",
    "coalesce": joined(", ", "NULL", "SELECT coalesce(", ")"),
    "concat": joined(", ", "'a'", "SELECT concat(", ")"),
    "row": joined(", ", "1", "SELECT row(", ")"),
    "subq flat": joined(", ", "(SELECT 1)"),
    "exists and": joined(" AND ", "EXISTS (SELECT 1)"),
    "in sub and": joined(" AND ", "1 IN (SELECT 1)"),
    "order by": joined(", ", "1", "SELECT 1 ORDER BY "),
    "group by": lambda n: "SELECT 1 FROM range(1) t(x) GROUP BY " + ", ".join(["x"] * n),
    "cube": lambda n: (
        "SELECT 1 FROM range(1) t(x) GROUP BY CUBE(" + ", ".join(f"x+{i}" for i in range(n)) + ")"
    ),
    "rollup": lambda n: (
        "SELECT 1 FROM range(1) t(x) GROUP BY ROLLUP(" + ", ".join(f"x+{i}" for i in range(n)) + ")"
    ),
    "cube,cube": lambda n: (
        "SELECT 1 FROM range(1) t(x) GROUP BY " + ", ".join(f"CUBE(x+{i})" for i in range(n))
    ),
    "gsets": wrap("GROUPING SETS (", ")", "x", "SELECT 1 FROM range(1) t(x) GROUP BY "),
    "windows": joined(", ", "row_number() OVER ()"),
    "windows2": lambda n: (
        "SELECT "
        + ", ".join(f"row_number() OVER (ORDER BY {i}+x)" for i in range(n))
        + " FROM range(1) t(x)"
    ),
    "aliases": lambda n: (
        "SELECT 1 AS a0, " + ", ".join(f"a{i} + a{i} AS a{i + 1}" for i in range(n))
    ),
    "pivot": lambda n: "FROM " + "(PIVOT " * n + "(SELECT 1 AS a)" + " ON a)" * n,
    "unpivot": lambda n: "FROM " + "(UNPIVOT " * n + "(SELECT 1 AS a)" + " ON a)" * n,
    "filter": wrap("count(*) FILTER (", ")", "true"),
    "order in agg": wrap("list(1 ORDER BY ", ")"),
    "over": wrap("sum(1) OVER (ORDER BY ", ")"),
    "over2": wrap("sum(", ") OVER ()"),
    "columns": wrap("COLUMNS(", ")", "'a'", "SELECT "),
    "star exclude": lambda n: (
        "SELECT * EXCLUDE (" + ", ".join(f"a{i}" for i in range(n)) + ") FROM range(1)"
    ),
    "replace": wrap("* REPLACE (", " AS x)", "1"),
    "explain": pre("EXPLAIN ", "SELECT 1", ""),
    "describe": pre("DESCRIBE ", "SELECT 1", ""),
    "(describe": wrap("(DESCRIBE ", ")", "SELECT 1", "FROM "),
    "from describe": wrap("FROM (SUMMARIZE ", ")", "SELECT 1", ""),
    "limit": wrap("1 LIMIT (SELECT ", ")"),
    "map": wrap("MAP {1: ", "}"),
    "array": wrap("ARRAY[", "]"),
    "array(": wrap("ARRAY(SELECT ", ")"),
    "grouping": wrap("GROUPING(", ")"),
    "position": wrap("POSITION('a' IN ", ")", "'a'"),
    "substring": wrap("SUBSTRING(", " FROM 1)", "'a'"),
    "trim": wrap("TRIM(BOTH 'a' FROM ", ")", "'a'"),
    "overlay": wrap("OVERLAY(", " PLACING 'a' FROM 1)", "'a'"),
    "named arg": wrap("struct_pack(a := ", ")"),
    "operator chain pre": pre("1 + "),
    "pre -1*": pre("- 1 * "),
    "if": wrap("if(true, ", ", 1)"),
    "dots": lambda n: "SELECT " + "a." * n + "a",
    "quoted dots": lambda n: "SELECT " + '"a".' * n + '"a"',
    "from dots": lambda n: "FROM " + "a." * n + "a",
    "fn dots": lambda n: "SELECT " + "a." * n + "f()",
    "params": lambda n: "SELECT " + ", ".join(f"${i + 1}" for i in range(n)),
    "strings adj": lambda n: "SELECT " + "'a' " * n,
    "semi": lambda n: ";" * n + "SELECT 1",
    "names": lambda n: "SELECT " + "a " * n,
    "nums": lambda n: "SELECT " + "1 " * n,
    "commas": lambda n: "SELECT " + "," * n,
    "open (": pre("("),
    "open [": pre("["),
    "open {": pre("{"),
    "open {'a':": pre("{'a': "),
    "open lower(": pre("lower("),
    "open (select": pre("(SELECT "),
    "open from (": pre("(FROM ", "", "FROM "),
    "close )": lambda n: "SELECT 1" + ")" * n,
    "([{": wrap("([{'a':", "}])"),
    "(1+": wrap("(1+", ")"),
    "((1)+": wrap("(", "+1)"),
    "lower((": wrap("lower((", "))", "'a'"),
    "open f(a,": pre("greatest(1, "),
    "open case": pre("CASE "),
    "qualify": wrap("1 QUALIFY (SELECT ", ")"),
    "group all": lambda n: "SELECT 1" + " GROUP BY ALL" * n,
    "wheres": lambda n: "SELECT 1" + " WHERE true" * n,
    "distinct on": wrap("DISTINCT ON (", ") 1"),
    "at": lambda n: "FROM range(1)" + " AT (VERSION => 1)" * n,
    "tablesample": lambda n: "FROM range(1)" + " TABLESAMPLE 1%" * n,
    "alias as": lambda n: "SELECT 1" + " AS a" * n,
    "prefix alias": lambda n: "SELECT " + "a: " * n + "1",
    "from prefix alias": lambda n: "FROM " + "a: " * n + "range(1)",
    "unnest": wrap("unnest(", ")", "[1]"),
    "generate": wrap("range(", ")"),
    "#1": pre("#"),
    "?": joined(", ", "?"),
    "is true": chain(" IS TRUE", "true"),
    "notnull": chain(" NOTNULL"),
    "is not null": chain(" IS NOT NULL"),
    "of": chain(" OFFSET 1"),
    "json paths": chain("->'a'", "'{}'"),
    "string long": lambda n: "SELECT '" + "a" * n * 10 + "'",
    "comment": lambda n: "SELECT 1 --" + "a" * n * 10,
    "block": lambda n: "SELECT " + "/*" * n + "*/" * n + "1",
    "digits": lambda n: "SELECT " + "9" * n * 10,
    "long name": lambda n: 'SELECT "' + "x" * n * 10 + '"',
    "blobs": lambda n: "SELECT '" + "\\x41" * n + "'::BLOB",
    "spaces": lambda n: "SELECT " + " " * n * 10 + "1",
    "star double": wrap("(SELECT *, * FROM ", ")", "range(1)", "FROM "),
    "struct double": wrap("(SELECT {'a': x, 'b': x} AS x FROM ", ")", "range(1) t(x)", "FROM "),
    "from struct double": lambda n: (
        "FROM " + "(FROM " * n + "range(1) t(x)" + " SELECT {'a': x, 'b': x} AS x)" * n
    ),
    "sub double": wrap("(SELECT x + x AS x FROM ", ")", "range(1) t(x)", "FROM "),
    "pivot in": lambda n: (
        "PIVOT (SELECT 1 AS a, 2 AS b, 3 AS c) ON a IN ("
        + ", ".join(map(str, range(n)))
        + "), b IN ("
        + ", ".join(map(str, range(n)))
        + ") USING sum(c)"
    ),
    "cast chain deep": lambda n: "SELECT " + "CAST(" * n + "1" + " AS VARCHAR)" * n,
    "interval open": pre("INTERVAL ("),
    "struct access fn": lambda n: "SELECT " + "struct_extract(" * n + "{'a': 1}" + ", 'a')" * n,
    "lambda flat": joined(", ", "list_transform([1], lambda x: x + 1)"),
    "not like": chain(" NOT LIKE 'a'", "'a'"),
    "row(": wrap("row(", ")"),
    "((1,": wrap("(1, ", ")"),
    "any(": wrap("1 = ANY (", ")"),
    "all(sel": wrap("1 >= ALL (SELECT ", ")"),
    "sel from in": wrap("1 FROM range(1) WHERE 1 IN (SELECT ", ")"),
    "correlated": lambda n: (
        "SELECT 1 FROM range(1) t0(x0) WHERE "
        + "".join(
            f"EXISTS (SELECT 1 FROM range(1) t{i + 1}(x{i + 1}) WHERE x{i + 1} = x{i} AND "
            for i in range(n)
        )
        + "true"
        + ")" * n
    ),
    "correlated flat": lambda n: (
        "SELECT " + ", ".join("(SELECT x)" for _ in range(n)) + " FROM range(1) t(x)"
    ),
    "correlated nested": lambda n: (
        "SELECT " + "(SELECT x + " * n + "1" + ")" * n + " FROM range(1) t(x)"
    ),
    "aggs": lambda n: (
        "SELECT " + ", ".join(f"sum(x+{i})" for i in range(n)) + " FROM range(1) t(x)"
    ),
    "distinct aggs": lambda n: (
        "SELECT " + ", ".join(f"count(DISTINCT x+{i})" for i in range(n)) + " FROM range(1) t(x)"
    ),
    "union distinct": chain(" UNION SELECT 1"),
    "group by and": lambda n: (
        "SELECT 1 FROM range(1) t(x) WHERE " + " AND ".join(f"x + {i} = x" for i in range(n))
    ),
    "or eq": lambda n: (
        "SELECT 1 FROM range(1) t(x) WHERE " + " OR ".join(f"x = {i}" for i in range(n))
    ),
    "join eqs": lambda n: (
        "SELECT 1 FROM range(1) t(x) JOIN range(1) u(y) ON "
        + " AND ".join("x = y" for i in range(n))
    ),
    "trans": lambda n: (
        "SELECT 1 FROM "
        + ", ".join(f"range(1) t{i}(x{i})" for i in range(n))
        + " WHERE "
        + " AND ".join(f"x{i} = x{i + 1}" for i in range(n - 1))
    ),
    "clique": lambda n: (
        "SELECT 1 FROM "
        + ", ".join(f"range(1) t{i}(x{i})" for i in range(n))
        + " WHERE "
        + " AND ".join(f"x{i} + x{j} = 2" for i in range(n) for j in range(i))
    ),
}
