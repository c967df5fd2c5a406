-- Texts that two parsers may read differently, and texts that none reads.

-- NotSupported: LIMIT next to a DP call does not limit the source.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings /* LIMIT */ LIMIT /* 5 */ 5
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings /* /* */ WHERE true */ LIMIT 5

-- NotPrivate: ratings is private: it can be read only through DP functions.
SELECT * /* DP_TOPK(title, 2, epsilon := 1) */ FROM ratings
SELECT * FROM ratings -- DP_TOPK(title, 2, epsilon := 1)
SELECT 'DP_TOPK(title, 2, epsilon := 1)' FROM ratings
SELECT $$ DP_TOPK(title, 2, epsilon := 1) $$ FROM ratings
SELECT "DP_TOPK(title, 2, epsilon := 1)" FROM ratings
SELECT E'\' DP_TOPK(title, 2, epsilon := 1) \'' FROM ratings
SELECT ';' FROM ratings
SELECT $x$ ; $x$ FROM ratings
SELECT 1 /* ; */ FROM ratings

-- ParseError: Syntax error at
SELECT (DP_TOPK(title, 2, epsilon := 1) FROM ratings; SELECT 1)
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (ratings; SELECT 1)
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE (true; SELECT 1)

-- NotPrivate: ratings is private: it can be read only through DP functions.
FROM ratings
FROM ratings SELECT title
FROM ratings r SELECT r
FROM ratings WHERE user_id > 900000000

-- NotPrivate: LIMIT is not supported in the source of a DP call, because one person's
FROM (FROM ratings LIMIT 3) SELECT DP_TOPK(title, 2, epsilon := 1)

-- NotSupported: LIMIT next to a DP call does not limit the source.
FROM ratings SELECT DP_TOPK(title, 2, epsilon := 1) LIMIT 3

-- NotSupported: title would show rows of the source next to the private answer.
FROM ratings SELECT DP_TOPK(title, 2, epsilon := 1), title

-- NotPrivate: There is no table secret.
FROM secret SELECT DP_TOPK(title, 2, epsilon := 1)

-- ParseError: Syntax error at
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings FROM secret

-- NotPrivate: Two tables in FROM are called ratings.
SELECT DP_TOPK(title, 2, epsilon := 1), DP_TOPK(title, 2, epsilon := 1) FROM ratings, ratings

-- ParseError: Syntax error at
SELECT SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings

-- ArgumentError: Inside a call, epsilon = … is a comparison, not an argument.
SELECT DP_TOPK(title, 2, epsilon = 1) FROM ratings
SELECT DP_TOPK(title, 2, epsilon == 1) FROM ratings

-- ArgumentError: A named argument is written with := or =>.
SELECT DP_TOPK(title, 2, epsilon : 1) FROM ratings

-- ArgumentError: An argument is missing here.
SELECT DP_TOPK(title, 2, epsilon := 1,) FROM ratings
SELECT DP_TOPK(title,, 2, epsilon := 1) FROM ratings

-- ArgumentError: epsilon is given twice.
SELECT DP_TOPK(title, 2, epsilon := 1, epsilon => 100) FROM ratings
SELECT DP_TOPK(title, 2, EPSILON := 1, epsilon := 2) FROM ratings
SELECT DP_TOPK(title, 2, "epsilon" := 1, epsilon := 2) FROM ratings

-- ArgumentError: epsilon has no value.
SELECT DP_TOPK(title, 2, epsilon :=) FROM ratings

-- ArgumentError: Positional arguments come before named ones.
SELECT DP_TOPK(title, epsilon := 1, 2) FROM ratings

-- ArgumentError: k is written without its name.
SELECT DP_TOPK(title, k := 2, epsilon := 1) FROM ratings

-- ArgumentError: item is written without its name.
SELECT DP_TOPK(item := title, k := 2, epsilon := 1) FROM ratings

-- NotPrivate: The function struct_pack is not supported here: dp_sql cannot prove that it depends
SELECT DP_TOPK(struct_pack(a := title), 2, epsilon := 1) FROM ratings

-- ArgumentError: DP_TOPK has no argument seed.
SELECT DP_TOPK(title, 2, epsilon := 1, seed := 1) FROM ratings

-- ArgumentError: DP_TOPK has no argument noise.
SELECT DP_TOPK(title, 2, epsilon := 1, noise := false) FROM ratings

-- ArgumentError: DP_TOPK needs the positional arguments item and k, epsilon := <number> (the privacy loss)
SELECT DP_TOPK() FROM ratings

-- ParseError: This bracket is never closed.
SELECT DP_TOPK(title, 2, epsilon := 1 FROM ratings

-- ParseError: Syntax error at
SELECT DP_TOPK(title, 2, epsilon := 1)) FROM ratings

-- ArgumentError: k must be a number written in the statement, not a column, a par
SELECT DP_TOPK(title, [2}, epsilon := 1) FROM ratings

-- ParseError: This bracket is never closed.
SELECT DP_TOPK(title, 2, epsilon := 1

-- NotSupported: This clause is empty.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE

-- ParseError: DP_TOPK needs a table to read.
SELECT DP_TOPK(title, 2, epsilon := 1)

-- NotPrivate: ratings is private: it can be read only through DP functions.
SELECT DP_TOPK FROM ratings

-- NotPrivate: This expression is not supported here: dp_sql cannot prove that it depends
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title = E'\x62\x30'

-- NotPrivate: A constant without a column is not supported here.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title = 'b' '0'

-- ParseError: dp_sql cannot read this part, so it cannot prove that it is priv
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title = x'6230'

-- NotPrivate: U is not a column of the source.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title = U&'b0'

-- ParseError: dp_sql cannot read this part, so it cannot prove that it is priv
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title = B'1'

-- ParseError: Syntax error at
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score = 0x10

-- ParseError|NotPrivate
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score > 5!

-- NotPrivate: A constant without a column is not supported here: dp_sql cannot prove that it
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score > @ 5

-- NotPrivate: This literal cannot be compared with BIGINT.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score > 1e400

-- NotPrivate: BIGINT and VARCHAR have no common type here.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score IS NOT DISTINCT FROM title

-- NotPrivate: BETWEEN is supported here only in its basic form.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score BETWEEN SYMMETRIC 5 AND 1

-- NotPrivate: IN is supported only with a list or a column of a public table.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score IN ()

-- NotPrivate: catalog is not a column of the source.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title IN catalog

-- NotPrivate: A condition must be true or false; this is VARCHAR.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE NOT title
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title OR score > 1

-- NotPrivate: A constant without a column is not supported here: dp_sql cannot prove
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE 1
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE NULL

-- NotPrivate: title.x is not a column of the source.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title.x = 1

-- NotPrivate: This expression is not supported here: dp_sql cannot prove that it depends
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE [x FOR x IN [title]] = ['b0']

-- NotPrivate: The function list_filter is not supported here: dp_sql cannot prove that
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE list_filter([title], x -> x = 'b0') = ['b0']
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE list_filter([title], lambda x: x = 'b0') = ['b0']

-- NotPrivate: A source needs a FROM clause.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title IN (SELECT unnest([x FOR x IN ['b0']]))

-- NotPrivate: This expression is not supported here: dp_sql cannot prove that it depends
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE *

-- NotPrivate: The function columns is not supported here: dp_sql cannot prove that it
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE COLUMNS(*) > 3

-- NotPrivate: ratings.* is not a column of the source.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE ratings.* = 1

-- ArgumentError: Values were not provided for the following parameters: 1
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE ? = 1
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE $1 = 1

-- ArgumentError: Values were not provided for the following parameters: name
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE $name = 1

-- NotPrivate: This expression is not supported here: dp_sql cannot prove that it depends
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title = :name

-- NotPrivate: x is not a column of the source.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE user_id = @x

-- NotPrivate: This expression is not supported here: dp_sql cannot prove that it depends
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE #1 = 3

-- ParseError: Syntax error at or near "WHERE".
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score = 1 WHERE score = 2

-- NotSupported: GROUP BY names no column here.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score = 1 GROUP BY

-- NotSupported: LIMIT next to a DP call does not limit the source.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score > 3 LIMIT 3
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score > 3 ORDER BY title LIMIT 3

-- ParseError: Syntax error at
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score > 3) OR (score < 3
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score > 3 --<U+000A>) LIMIT 3

-- ParseError: dp_sql cannot read this part, so it cannot prove that it is priv
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE (score > 3

-- ParseError: Syntax error at
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score > 3]

-- NotPrivate: ratings is private: it can be read only through DP functions.
SELECT 5! FROM ratings
SELECT user_id 'alias' FROM ratings
SELECT x: title FROM ratings
SELECT title AS "x""y" FROM ratings
FROM ratings NEAREST JOIN catalog USING (title)
SELECT * FROM ratings ORDER BY ALL

-- NotPrivate: A sample is not supported in the source of a DP call, because one person's
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings r TABLESAMPLE 5

-- NotSupported: EXPLAIN shows what DP calls would cost, and this query has none.
EXPLAIN SELECT 1

-- NotPrivate: ratings is private: it can be read only through DP functions.
SELECT * LIKE 'u%' FROM ratings
SELECT * REPLACE (1 AS title) FROM ratings
SELECT * RENAME (title AS t) FROM ratings
SELECT user_id, title FROM ratings, LATERAL (SELECT 1)

-- BinderException: Binder Error: Referenced column "ratings" was not found because
SELECT 1 IN ratings

-- ParseError: Syntax error at
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings ) UNION ALL ( SELECT 1

-- ParseError: This quote is never closed.
'
"

-- ParseError: This quote is never closed
$$

-- ParseError: This comment is never closed.
/*

-- ParseError: Syntax error at
(

-- ParseError: This quote is never closed.
SELECT '

-- ParseError: Unterminated string literal.
E'\'

-- ParseError: This quote is never closed.
SELECT "x

-- ParseError: This quote is never closed
SELECT $a$ b $c$

-- NotSupported: There is no statement to run.
<U+002D>- nothing
<EMPTY>
<U+0020><U+0020><U+0020>
;
;;

-- ParseError: Syntax error at
()
)

-- ParseError: SELECT clause without selection list.
SELECT

-- ParseError: Syntax error at
FROM
WITH
WITH x AS
VALUES
\
?
$1
\d
!ls
.tables

-- NotSupported: A statement has at most 500 digits in one number
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings GROUP BY <5000*1>
SELECT DP_COUNT_DISTINCT(n, epsilon := 1) FROM (SELECT user_id, count(*) AS n FROM ratings GROUP BY <5000*1>)
