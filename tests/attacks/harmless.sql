-- Answered, because they read nothing but the public side: the same for every database.

-- answered
SELECT 1
VALUES (1), (2)
FROM catalog ORDER BY ALL
SELECT count(*) FROM catalog
SHOW TABLES
SHOW ALL TABLES
DESCRIBE ratings
DESC orders
SHOW order_items
DESCRIBE main.ratings
DESCRIBE recent
DESCRIBE catalog
FROM (DESCRIBE catalog)

-- NotSupported: SHOW is a statement of its own, and not part of a query.
FROM (SHOW TABLES)
FROM (SHOW ALL TABLES)

-- answered
FROM (SUMMARIZE catalog)
SELECT stats(title) FROM catalog LIMIT 1
SELECT current_schema(), current_database()
SELECT current_query()
SELECT 'DP_TOPK(title, 3)' AS text
SELECT $$ DP_TOPK(title, 3) $$ AS text
SELECT 1 AS dp_topk
SELECT 1 -- DP_TOPK(title, 2, epsilon := 1) FROM ratings
SELECT /* DP_TOPK(title, 2, epsilon := 1) FROM ratings */ 1
FROM range(3)
WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t WHERE n < 5) FROM t
WITH ratings AS (SELECT 1 AS x) FROM ratings
SELECT [x + 1 FOR x IN [1, 2, 3]]
SELECT list_transform([1, 2], lambda x: x + 1)
SELECT 5!
SELECT title, count(*) FROM catalog GROUP BY ALL ORDER BY ALL
(SELECT 1)
SELECT 1;
SELECT ';'
SELECT txid_current() IS NOT NULL
SHOW ratings
EXPLAIN SELECT DP_TOPK(mood, 1, epsilon := 1, domain := ['nobody']) FROM ratings
EXPLAIN SELECT DP_TOPK(mood, 1, epsilon := 1, domain := ['calm']) FROM ratings WHERE mood = 'calm'
DESCRIBE SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings
DESCRIBE SELECT * FROM ratings
SELECT * FROM ratings LIMIT 0
SELECT mood, max(title), count(*) FROM ratings WHERE user_id = 1 GROUP BY ALL LIMIT 0
SELECT r.* FROM (SELECT * FROM ratings) AS r WHERE 1 = 0
SELECT * FROM (SELECT DP_TOPK(title, 2, epsilon := 1) AS best FROM ratings) AS q LIMIT 0
SELECT (SELECT error(max(title)) FROM ratings) FROM catalog LIMIT 0
DESCRIBE SELECT title FROM recent
SELECT version()
