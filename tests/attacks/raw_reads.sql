-- Private rows, asked for plainly or beside a DP call.
-- How such a file is read, and what the tables are, is said in attack_bench.py.

-- NotPrivate: ratings is private: it can be read only through DP functions.
SELECT * FROM ratings
FROM ratings

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
TABLE ratings

-- NotPrivate: ratings is private: it can be read only through DP functions.
SELECT count(*) FROM ratings
SELECT max(user_id) FROM main.ratings
SELECT title FROM shop.main.ratings
SELECT user_id, title FROM ratings LIMIT 1
SELECT approx_top_k(title, 3) FROM ratings
SELECT approx_count_distinct(title) FROM ratings

-- SourceError: There is no table secret.
SELECT * FROM secret

-- NotPrivate: recent is private: it can be read only through DP functions.
SELECT * FROM recent

-- NotPrivate: orders is private: it can be read only through DP functions.
SELECT * FROM orders

-- NotPrivate: order_items is private: it can be read only through DP functions.
SELECT * FROM order_items

-- NotPrivate: ratings is private: it can be read only through DP functions.
SELECT * FROM (FROM ratings)
WITH x AS (SELECT * FROM ratings) FROM x
SELECT 1 WHERE EXISTS (SELECT 1 FROM ratings WHERE user_id > 900000000)
SELECT (SELECT title FROM ratings WHERE user_id > 900000000)
SELECT [x.title FOR x IN (FROM ratings)]
SELECT DP_TOPK(title, 2, epsilon := 1), (SELECT max(user_id) FROM ratings) FROM ratings

-- NotSupported: count next to a DP call would be computed over the answer, not over the
SELECT DP_TOPK(title, 2, epsilon := 1), count(*) FROM ratings

-- NotSupported: title would show rows of the source next to the private answer.
SELECT DP_TOPK(title, 2, epsilon := 1), title FROM ratings

-- NotSupported: * would show rows of the source next to the private answer.
SELECT *, DP_TOPK(title, 2, epsilon := 1) FROM ratings

-- NotSupported: ratings would show rows of the source next to the private answer.
SELECT DP_TOPK(title, 2, epsilon := 1), ratings FROM ratings

-- NotSupported: max next to a DP call would be computed over the answer, not over the
SELECT DP_TOPK(title, 2, epsilon := 1), max(title) FROM ratings

-- NotPrivate: ratings is private: it can be read only through DP functions.
SELECT DP_TOPK(title, 2, epsilon := 1), (SELECT list(title) FROM ratings r2) FROM ratings

-- NotSupported: title would show rows of the source next to the private answer.
SELECT DP_TOPK(title, 2, epsilon := 1), count(title) OVER () FROM ratings

-- NotSupported
SELECT DP_TOPK(title, 2, epsilon := 1), COLUMNS('.*') FROM ratings

-- NotSupported: * would show rows of the source next to the private answer.
SELECT DP_TOPK(title, 2, epsilon := 1), * EXCLUDE (title) FROM ratings

-- NotSupported: ratings.* would show rows of the source next to the private answer.
SELECT DP_TOPK(title, 2, epsilon := 1), ratings.* FROM ratings

-- NotSupported: title would show rows of the source next to the private answer.
SELECT DP_TOPK(title, 2, epsilon := 1) || [title] FROM ratings

-- NotPrivate: ratings is private: it can be read only through DP functions.
SELECT DP_TOPK(title, 2, epsilon := 1)[(SELECT count(*) FROM ratings)] FROM ratings
SELECT answer FROM (SELECT DP_TOPK(title, 2, epsilon := 1) AS answer FROM ratings) JOIN ratings ON list_contains(answer, title)
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings UNION ALL SELECT [title] FROM ratings

-- NotPrivate: recent is private: it can be read only through DP functions.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings INTERSECT SELECT [title] FROM recent

-- NotPrivate: ratings is private: it can be read only through DP functions.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings ORDER BY (SELECT count(*) FROM ratings)

-- NotPrivate: There is no table secret.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM secret

-- NotPrivate: There is no table main.secret.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM main.secret

-- NotPrivate: There is no table secret.
SELECT DP_COUNT_DISTINCT(x, epsilon := 1) FROM secret

-- NotPrivate: This source is public: it contains no private rows.
SELECT DP_COUNT_DISTINCT(title, epsilon := 1) FROM catalog

-- NotPrivate: ratings is not a column of the source.
SELECT DP_COUNT_DISTINCT(ratings, epsilon := 1) FROM ratings

-- ArgumentError: DP_COUNT_DISTINCT takes a column, not *.
SELECT DP_COUNT_DISTINCT(*, epsilon := 1) FROM ratings

-- NotPrivate: ratings.* is not a column of the source.
SELECT DP_COUNT_DISTINCT(ratings.*, epsilon := 1) FROM ratings

-- BinderException: Binder Error: Catalog type does not support time travel
SELECT * FROM ratings AT (VERSION => 1)

-- NotPrivate: ratings is private: it can be read only through DP functions.
SELECT rowid FROM ratings

-- NotPrivate: rowid is not a column of the source.
SELECT DP_COUNT_DISTINCT(rowid, epsilon := 1) FROM ratings

-- NotPrivate: There is no table hidden_secret.
SELECT DP_COUNT_DISTINCT(title, epsilon := 1) FROM hidden_secret

-- SourceError: There is no table hidden_secret.
SELECT * FROM hidden_secret

-- SourceError: There is no table public_looking.
FROM public_looking

-- NotPrivate: There is no table public_looking.
SELECT DP_COUNT_DISTINCT(title, epsilon := 1) FROM public_looking

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
PIVOT ratings ON title USING count(*)
UNPIVOT ratings ON title INTO NAME n VALUE v
SUMMARIZE ratings

-- NotSupported: There is no table ratings_of_nobody.
SHOW ratings_of_nobody

-- NotPrivate: ratings is private: it can be read only through DP functions.
FROM (SUMMARIZE ratings)
FROM (DESCRIBE ratings)

-- SourceError: There is no table secret.
SELECT * FROM secret LIMIT 0
DESCRIBE SELECT * FROM secret

-- NotPrivate: ratings is private: it can be read only through DP functions.
DESCRIBE SELECT favourite(1) FROM ratings

-- SourceError: There is no table hidden_secret.
SELECT * FROM hidden_secret LIMIT 0

-- NotSupported: read_csv is not available under a policy
SELECT * FROM ratings, read_csv('/etc/passwd') LIMIT 0

-- ParseError: Syntax error at or near
SELECT * FROM ratings LIMIT 0 UNION ALL SELECT * FROM ratings

-- NotPrivate: ratings is private: it can be read only through DP functions.
SELECT count(*) FROM ratings WHERE 1 = 0
SELECT * FROM ratings UNION ALL SELECT * FROM ratings WHERE 1 = 0
SELECT * FROM ratings WHERE 1 = 0 OR TRUE

-- NotSupported: duckdb_settings is not available under a policy
SELECT * FROM ratings, duckdb_settings() LIMIT 0

-- NotPrivate: ratings is private: it can be read only through DP functions.
SELECT * FROM ratings LIMIT 0 OFFSET (SELECT max(user_id) FROM ratings)

-- NotSupported: getvariable is not available under a policy
SELECT getvariable('x') FROM ratings LIMIT 0

-- NotSupported: A query reads; it does not DELETE.
WITH a AS (WITH b AS (SELECT 1) DELETE FROM catalog RETURNING *) FROM a

-- NotSupported: A query reads; it does not INSERT.
WITH a AS (WITH b AS (SELECT 1) INSERT INTO catalog SELECT 'x', 'y' FROM b RETURNING *) FROM a
