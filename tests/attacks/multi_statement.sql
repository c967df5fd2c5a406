-- Anything but one SELECT.

-- NotSupported: Under a policy you can run one statement at a time.
SELECT 1; SELECT 2
SELECT 1; SELECT * FROM ratings
SELECT 1; DROP TABLE catalog
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings; SELECT * FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings;<U+000A>SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings
; ; SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings; ;SELECT 1
SELECT 1;;SELECT 2
SELECT 1; -- x<U+000A>SELECT 2

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
SET threads = 1
SET enable_external_access = true
SET SESSION TimeZone = 'UTC'
SET GLOBAL memory_limit = '1GB'
SET lock_configuration = false

-- ParseError: Syntax error at
RESET ALL

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
RESET threads
SET VARIABLE x = (SELECT max(user_id) FROM ratings)
SET search_path = 'shop.main'
SET schema = 'shop.main'
USE shop
USE memory.main
PRAGMA threads = 1
PRAGMA enable_profiling
PRAGMA version
PRAGMA enable_verification
PRAGMA force_checkpoint
PRAGMA disable_checkpoint_on_shutdown

-- NotSupported: EXPLAIN shows what DP calls would cost, and this query has none.
EXPLAIN SELECT * FROM ratings

-- NotSupported: EXPLAIN must be followed by a SELECT with DP calls.
EXPLAIN ANALYZE SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings
EXPLAIN ANALYZE SELECT 1
EXPLAIN (FORMAT json) SELECT 1

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
ANALYZE
ANALYZE ratings
PREPARE p AS SELECT * FROM ratings
PREPARE p AS SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings
EXECUTE p
EXECUTE p(1)
DEALLOCATE p

-- ParseError: Syntax error at
DEALLOCATE ALL

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
CREATE MACRO f() AS (SELECT count(*) FROM ratings)
CREATE TABLE t AS SELECT 1
CREATE TABLE t AS SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings
CREATE TEMP TABLE ratings (user_id INT, title VARCHAR)
CREATE VIEW ratings AS SELECT 1 AS user_id, 'x' AS title
CREATE OR REPLACE VIEW catalog AS SELECT 1
CREATE VIEW v AS SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings
CREATE SCHEMA s
CREATE TYPE t AS ENUM (SELECT title FROM ratings)
CREATE SEQUENCE s
CREATE INDEX i ON catalog (title)
CREATE OR REPLACE MACRO count(x) AS 7
CREATE TEMP MACRO lower(x) AS error(x)
CREATE FUNCTION f(x) AS x
CREATE TRIGGER t AFTER INSERT ON catalog BEGIN SELECT 1 END
INSERT INTO catalog VALUES ('x', 'y')
INSERT INTO catalog SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings
INSERT INTO ratings VALUES (1)
UPDATE catalog SET genre = 'x'
UPDATE ratings SET title = 'x'
DELETE FROM catalog
DELETE FROM ratings WHERE user_id > 900000000
TRUNCATE catalog
MERGE INTO catalog USING catalog c ON false WHEN NOT MATCHED THEN INSERT VALUES ('x', 'y')
DROP TABLE catalog
DROP VIEW recent
ALTER TABLE catalog ADD COLUMN x INTEGER
ALTER TABLE ratings RENAME TO r
COMMENT ON TABLE catalog IS 'x'

-- NotSupported|ParserException
WITH x AS (INSERT INTO catalog VALUES ('x', 'y') RETURNING *) FROM x
WITH x AS (DELETE FROM catalog RETURNING *) FROM x
WITH x AS (UPDATE catalog SET genre = 'x' RETURNING *) FROM x
WITH x AS (DELETE FROM ratings RETURNING *) FROM x

-- NotSupported: Under a policy you can run one SELECT at a time.
WITH x AS (SELECT 1) INSERT INTO catalog SELECT 'x', 'y'
WITH x AS (SELECT 1) DELETE FROM catalog
WITH x AS (SELECT 1) UPDATE catalog SET genre = 'x'

-- ParseError: A CTE body must be a SELECT, INSERT, UPDATE, DELETE, or COPY TO
WITH x AS (CREATE TABLE t AS SELECT 1) FROM x

-- NotSupported|ParserException
WITH x AS (COPY catalog TO 'x.csv') FROM x
WITH x AS (DELETE FROM catalog RETURNING *) SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings
WITH x AS MATERIALIZED (DELETE FROM temp.main.__dp_release_1 RETURNING *) FROM x

-- ParseError: Syntax error at
SELECT * FROM (DELETE FROM catalog RETURNING *)
FROM (INSERT INTO catalog VALUES ('x', 'y') RETURNING *)

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
BEGIN
BEGIN TRANSACTION
COMMIT
ROLLBACK
ABORT
START TRANSACTION
CALL duckdb_tables()
CALL pragma_version()
CALL query('FROM ratings')
CALL dp('SELECT 1')
CHECKPOINT
FORCE CHECKPOINT
CHECKPOINT shop
VACUUM
VACUUM ANALYZE ratings

-- ParseError: FULL is not yet implemented.
VACUUM FULL

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
LOAD 'x.duckdb_extension'
INSTALL json FROM community
UPDATE EXTENSIONS

-- ParseError: Syntax error at
KILL 1
SHUTDOWN
RELEASE SAVEPOINT x
GRANT SELECT ON ratings TO x
DO $$ BEGIN END $$
LISTEN x
DECLARE x CURSOR FOR SELECT 1
SELECT 1 INTO x

-- NotSupported: Under a policy you can run one statement at a time.
WITH x AS (SELECT 1) SELECT * FROM x; DROP TABLE catalog

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
PIVOT catalog ON genre USING count(*)
UNPIVOT catalog ON genre INTO NAME n VALUE v

-- NotSupported: Under a policy you can run one SELECT at a time.
FROM (PIVOT catalog ON genre USING count(*))

-- NotSupported: DP_TOPK is not allowed in FROM; it is an answer, not a condition.
FROM (SUMMARIZE SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings)
FROM (DESCRIBE SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings)

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
SUMMARIZE SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings

-- ParseError: Syntax error at
FROM (EXPLAIN SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings)
