-- What stands around a DP call belongs to DuckDB, whether or not sqlglot would read it. In each
-- statement :answer is a query of one row and one column, best VARCHAR[]; it is run once with a DP
-- call there and once with the value itself, and must give the same rows and the same names.

SELECT 5!, best FROM (:answer);

SELECT best AS 'the alias' FROM (:answer);

SELECT struct_pack(a => 1, b => best) FROM (:answer);

SELECT list(best), list(1) FROM (:answer);

SELECT * FROM (:answer), (VALUES (2), (NULL), (1)) AS t(x) ORDER BY ALL DESC NULLS LAST;

SELECT best[1:1], best[-1], {'a': best}.a, best::VARCHAR[] FROM (:answer);

SELECT list_transform(best, lambda x: upper(x) || '!') FROM (:answer);

SELECT [upper(x) FOR x IN best IF x <> ''] FROM (:answer);

SELECT COLUMNS(lambda c: c LIKE 'b%') FROM (:answer);

SELECT * REPLACE (len(best) AS best) FROM (:answer);

SELECT best: 42, other: best FROM (:answer);

SELECT $$a 'quoted' -- text$$, $tag$ $$ $tag$, E'it\'s' AS a, 'it''s' AS b, best FROM (:answer);

SELECT /* a /* nested */ comment */ best -- and a line; with ( brackets
FROM (:answer) -- the end

FROM (:answer) SELECT best, 1_000_000, 0x1F, 1e3;

FROM (:answer);

WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3), a AS (:answer)
SELECT i, best FROM n, a ORDER BY i;

WITH a AS NOT MATERIALIZED (:answer) SELECT x.best, y.best = x.best FROM a AS x, a AS y;

SELECT t.x, (:answer) AS y FROM range(2) AS t(x) ORDER BY x;

SELECT 1 WHERE (:answer) IS NOT NULL;

SELECT 1 AS one WHERE EXISTS (:answer);

(:answer) UNION ALL BY NAME (SELECT ['x'] AS best) ORDER BY best;

(:answer) UNION ALL SELECT ['x'] ORDER BY 1;

SELECT unnest(best) AS title, generate_subscripts(best, 1) AS place FROM (:answer) ORDER BY place;

SELECT a.title FROM (SELECT unnest(best) AS title FROM (:answer)) a ASOF JOIN (VALUES ('A')) b(t) ON a.title >= b.t;

SELECT best, x FROM (:answer) POSITIONAL JOIN (VALUES (1)) AS t(x);

PIVOT (SELECT unnest(best) AS title, 1 AS n FROM (:answer)) ON title USING sum(n);

SELECT count(*) FILTER (WHERE len(best) = 1) AS n, any_value(best) FROM (:answer) GROUP BY ALL;

SELECT best, 1 IS DISTINCT FROM 2 AS differs, 7 // 2, 2 ** 3, 'a' ^@ 'a' FROM (:answer) LIMIT 100%;

DESCRIBE SELECT best FROM (:answer);

SELECT "best" AS "a ""quoted"" name", "best" AS "select" FROM (:answer) AS "from";

SELECT best FROM (:answer) TABLESAMPLE 100%;

VALUES ((:answer), 1);
