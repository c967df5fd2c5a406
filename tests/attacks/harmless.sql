-- Answered, because they read nothing but the public side: the same for every database.

-- answered
SELECT 1

-- answered
VALUES (1), (2)

-- answered
FROM catalog ORDER BY ALL

-- answered
SELECT count(*) FROM catalog

-- answered
SHOW TABLES

-- answered
SHOW ALL TABLES

-- answered
DESCRIBE ratings

-- answered
DESC orders

-- answered
SHOW order_items

-- answered
DESCRIBE main.ratings

-- answered
DESCRIBE recent

-- answered
DESCRIBE catalog

-- answered
FROM sqlite_master

-- answered
FROM pragma_database_list

-- answered
FROM (DESCRIBE catalog)

-- NotSupported: SHOW lists tables as a statement of its own, and not in a query.
FROM (SHOW TABLES)

-- NotSupported: SHOW lists tables as a statement of its own, and not in a query.
FROM (SHOW ALL TABLES)

-- answered
FROM (SUMMARIZE catalog)

-- answered
SELECT stats(title) FROM catalog LIMIT 1

-- answered
SELECT current_schema(), current_database()

-- answered
SELECT current_query()

-- answered
SELECT 'DP_TOPK(title, 3)' AS text

-- answered
SELECT $$ DP_TOPK(title, 3) $$ AS text

-- answered
SELECT 1 AS dp_topk

-- answered
SELECT 1 -- DP_TOPK(title, 2, epsilon := 1) FROM ratings

-- answered
SELECT /* DP_TOPK(title, 2, epsilon := 1) FROM ratings */ 1

-- answered
FROM range(3)

-- answered
WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t WHERE n < 5) FROM t

-- answered
WITH ratings AS (SELECT 1 AS x) FROM ratings

-- answered
SELECT [x + 1 FOR x IN [1, 2, 3]]

-- answered
SELECT list_transform([1, 2], lambda x: x + 1)

-- answered
SELECT 5!

-- answered
SELECT title, count(*) FROM catalog GROUP BY ALL ORDER BY ALL

-- answered
(SELECT 1)

-- answered
SELECT 1;

-- answered
SELECT ';'

-- answered
SELECT txid_current() IS NOT NULL

-- answered
SHOW ratings

-- answered
EXPLAIN SELECT DP_TOPK(mood, 1, epsilon := 1, domain := ['nobody']) FROM ratings

-- answered
EXPLAIN SELECT DP_TOPK(mood, 1, epsilon := 1, domain := ['calm']) FROM ratings WHERE mood = 'calm'

-- answered
SELECT * FROM pg_catalog.pg_enum

-- answered
SELECT * FROM pg_enum

-- answered
DESCRIBE SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings

-- answered
DESCRIBE SELECT * FROM ratings

-- answered
SELECT * FROM ratings LIMIT 0

-- answered
SELECT mood, max(title), count(*) FROM ratings WHERE user_id = 1 GROUP BY ALL LIMIT 0

-- answered
SELECT r.* FROM (SELECT * FROM ratings) AS r WHERE 1 = 0

-- answered
SELECT * FROM (SELECT DP_TOPK(title, 2, epsilon := 1) AS best FROM ratings) AS q LIMIT 0

-- answered
SELECT (SELECT error(max(title)) FROM ratings) FROM catalog LIMIT 0

-- answered
DESCRIBE SELECT title FROM recent

-- answered
SELECT version()
