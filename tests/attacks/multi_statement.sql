-- Anything but one SELECT.

-- NotSupported: Under a policy you can run one statement at a time.
SELECT 1; SELECT 2

-- NotSupported: Under a policy you can run one statement at a time.
SELECT 1; SELECT * FROM ratings

-- NotSupported: Under a policy you can run one statement at a time.
SELECT 1; DROP TABLE catalog

-- NotSupported: Under a policy you can run one statement at a time.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings; SELECT * FROM ratings

-- NotSupported: Under a policy you can run one statement at a time.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings;
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings

-- NotSupported: Under a policy you can run one statement at a time.
; ; SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings; ;SELECT 1

-- NotSupported: Under a policy you can run one statement at a time.
SELECT 1;;SELECT 2

-- NotSupported: Under a policy you can run one statement at a time.
SELECT 1; -- x
SELECT 2

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
SET threads = 1

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
SET enable_external_access = true

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
SET SESSION TimeZone = 'UTC'

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
SET GLOBAL memory_limit = '1GB'

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
SET lock_configuration = false

-- ParseError: Syntax error at
RESET ALL

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
RESET threads

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
SET VARIABLE x = (SELECT max(user_id) FROM ratings)

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
SET search_path = 'shop.main'

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
SET schema = 'shop.main'

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
USE shop

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
USE memory.main

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
PRAGMA threads = 1

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
PRAGMA enable_profiling

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
PRAGMA version

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
PRAGMA enable_verification

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
PRAGMA force_checkpoint

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
PRAGMA disable_checkpoint_on_shutdown

-- NotSupported: EXPLAIN shows what DP calls would cost, and this query has none.
EXPLAIN SELECT * FROM ratings

-- NotSupported: EXPLAIN must be followed by a SELECT with DP calls.
EXPLAIN ANALYZE SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings

-- NotSupported: EXPLAIN must be followed by a SELECT with DP calls.
EXPLAIN ANALYZE SELECT 1

-- NotSupported: EXPLAIN must be followed by a SELECT with DP calls.
EXPLAIN (FORMAT json) SELECT 1

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
ANALYZE

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
ANALYZE ratings

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
PREPARE p AS SELECT * FROM ratings

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
PREPARE p AS SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
EXECUTE p

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
EXECUTE p(1)

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
DEALLOCATE p

-- ParseError: Syntax error at
DEALLOCATE ALL

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
CREATE MACRO f() AS (SELECT count(*) FROM ratings)

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
CREATE TABLE t AS SELECT 1

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
CREATE TABLE t AS SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
CREATE TEMP TABLE ratings (user_id INT, title VARCHAR)

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
CREATE VIEW ratings AS SELECT 1 AS user_id, 'x' AS title

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
CREATE OR REPLACE VIEW catalog AS SELECT 1

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
CREATE VIEW v AS SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
CREATE SCHEMA s

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
CREATE TYPE t AS ENUM (SELECT title FROM ratings)

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
CREATE SEQUENCE s

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
CREATE INDEX i ON catalog (title)

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
CREATE OR REPLACE MACRO count(x) AS 7

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
CREATE TEMP MACRO lower(x) AS error(x)

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
CREATE FUNCTION f(x) AS x

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
CREATE TRIGGER t AFTER INSERT ON catalog BEGIN SELECT 1 END

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
INSERT INTO catalog VALUES ('x', 'y')

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
INSERT INTO catalog SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
INSERT INTO ratings VALUES (1)

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
UPDATE catalog SET genre = 'x'

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
UPDATE ratings SET title = 'x'

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
DELETE FROM catalog

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
DELETE FROM ratings WHERE user_id > 900000000

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
TRUNCATE catalog

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
MERGE INTO catalog USING catalog c ON false WHEN NOT MATCHED THEN INSERT VALUES ('x', 'y')

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
DROP TABLE catalog

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
DROP VIEW recent

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
ALTER TABLE catalog ADD COLUMN x INTEGER

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
ALTER TABLE ratings RENAME TO r

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
COMMENT ON TABLE catalog IS 'x'

-- NotSupported|ParserException
WITH x AS (INSERT INTO catalog VALUES ('x', 'y') RETURNING *) FROM x

-- NotSupported|ParserException
WITH x AS (DELETE FROM catalog RETURNING *) FROM x

-- NotSupported|ParserException
WITH x AS (UPDATE catalog SET genre = 'x' RETURNING *) FROM x

-- NotSupported|ParserException
WITH x AS (DELETE FROM ratings RETURNING *) FROM x

-- NotSupported: Under a policy you can run one SELECT at a time.
WITH x AS (SELECT 1) INSERT INTO catalog SELECT 'x', 'y'

-- NotSupported: Under a policy you can run one SELECT at a time.
WITH x AS (SELECT 1) DELETE FROM catalog

-- NotSupported: Under a policy you can run one SELECT at a time.
WITH x AS (SELECT 1) UPDATE catalog SET genre = 'x'

-- ParseError: A CTE body must be a SELECT, INSERT, UPDATE, DELETE, or COPY TO
WITH x AS (CREATE TABLE t AS SELECT 1) FROM x

-- NotSupported|ParserException
WITH x AS (COPY catalog TO 'x.csv') FROM x

-- NotSupported|ParserException
WITH x AS (DELETE FROM catalog RETURNING *) SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings

-- NotSupported|ParserException
WITH x AS MATERIALIZED (DELETE FROM temp.main.__dp_release_1 RETURNING *) FROM x

-- ParseError: Syntax error at
SELECT * FROM (DELETE FROM catalog RETURNING *)

-- ParseError: Syntax error at
FROM (INSERT INTO catalog VALUES ('x', 'y') RETURNING *)

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
BEGIN

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
BEGIN TRANSACTION

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
COMMIT

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
ROLLBACK

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
ABORT

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
START TRANSACTION

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
CALL duckdb_tables()

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
CALL pragma_version()

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
CALL query('FROM ratings')

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
CALL dp('SELECT 1')

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
CHECKPOINT

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
FORCE CHECKPOINT

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
CHECKPOINT shop

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
VACUUM

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
VACUUM ANALYZE ratings

-- ParseError: FULL is not yet implemented.
VACUUM FULL

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
LOAD 'x.duckdb_extension'

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
INSTALL json FROM community

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
UPDATE EXTENSIONS

-- ParseError: Syntax error at
KILL 1

-- ParseError: Syntax error at
SHUTDOWN

-- ParseError: Syntax error at
RELEASE SAVEPOINT x

-- ParseError: Syntax error at
GRANT SELECT ON ratings TO x

-- ParseError: Syntax error at
DO $$ BEGIN END $$

-- ParseError: Syntax error at
LISTEN x

-- ParseError: Syntax error at
DECLARE x CURSOR FOR SELECT 1

-- ParseError: Syntax error at
SELECT 1 INTO x

-- NotSupported: Under a policy you can run one statement at a time.
WITH x AS (SELECT 1) SELECT * FROM x; DROP TABLE catalog

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
PIVOT catalog ON genre USING count(*)

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
UNPIVOT catalog ON genre INTO NAME n VALUE v

-- NotSupported: Under a policy you can run one SELECT at a time.
FROM (PIVOT catalog ON genre USING count(*))

-- NotSupported: DP_TOPK is not allowed in FROM; it is an answer, not a condition.
FROM (SUMMARIZE SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings)

-- NotSupported: DP_TOPK is not allowed in FROM; it is an answer, not a condition.
FROM (DESCRIBE SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings)

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
SUMMARIZE SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings

-- ParseError: Syntax error at
FROM (EXPLAIN SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings)
