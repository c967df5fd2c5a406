-- Anything but one SELECT.

-- NotSupported: Under a policy one statement is answered at a time.
SELECT 1; SELECT 2

-- NotSupported: Under a policy one statement is answered at a time.
SELECT 1; SELECT * FROM ratings

-- NotSupported: Under a policy one statement is answered at a time.
SELECT 1; DROP TABLE catalog

-- NotSupported: Under a policy one statement is answered at a time.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings; SELECT * FROM ratings

-- NotSupported: Under a policy one statement is answered at a time.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings;
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings

-- NotSupported: Under a policy one statement is answered at a time.
; ; SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings; ;SELECT 1

-- NotSupported: Under a policy one statement is answered at a time.
SELECT 1;;SELECT 2

-- NotSupported: Under a policy one statement is answered at a time.
SELECT 1; -- x
SELECT 2

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
SET threads = 1

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
SET enable_external_access = true

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
SET SESSION TimeZone = 'UTC'

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
SET GLOBAL memory_limit = '1GB'

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
SET lock_configuration = false

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
RESET ALL

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
RESET threads

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
SET VARIABLE x = (SELECT max(user_id) FROM ratings)

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
SET search_path = 'shop.main'

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
SET schema = 'shop.main'

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
USE shop

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
USE memory.main

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
PRAGMA threads = 1

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
PRAGMA enable_profiling

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
PRAGMA version

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
PRAGMA enable_verification

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
PRAGMA force_checkpoint

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
PRAGMA disable_checkpoint_on_shutdown

-- NotSupported: EXPLAIN shows what DP calls would cost, and there is none here.
EXPLAIN SELECT * FROM ratings

-- NotSupported: EXPLAIN takes a SELECT with DP calls.
EXPLAIN ANALYZE SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings

-- NotSupported: EXPLAIN takes a SELECT with DP calls.
EXPLAIN ANALYZE SELECT 1

-- NotSupported: EXPLAIN takes a SELECT with DP calls.
EXPLAIN (FORMAT json) SELECT 1

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
ANALYZE

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
ANALYZE ratings

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
PREPARE p AS SELECT * FROM ratings

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
PREPARE p AS SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
EXECUTE p

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
EXECUTE p(1)

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
DEALLOCATE p

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
DEALLOCATE ALL

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
CREATE MACRO f() AS (SELECT count(*) FROM ratings)

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
CREATE TABLE t AS SELECT 1

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
CREATE TABLE t AS SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
CREATE TEMP TABLE ratings (user_id INT, title VARCHAR)

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
CREATE VIEW ratings AS SELECT 1 AS user_id, 'x' AS title

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
CREATE OR REPLACE VIEW catalog AS SELECT 1

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
CREATE VIEW v AS SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
CREATE SCHEMA s

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
CREATE TYPE t AS ENUM (SELECT title FROM ratings)

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
CREATE SEQUENCE s

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
CREATE INDEX i ON catalog (title)

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
CREATE OR REPLACE MACRO count(x) AS 7

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
CREATE TEMP MACRO lower(x) AS error(x)

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
CREATE FUNCTION f(x) AS x

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
CREATE TRIGGER t AFTER INSERT ON catalog BEGIN SELECT 1 END

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
INSERT INTO catalog VALUES ('x', 'y')

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
INSERT INTO catalog SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
INSERT INTO ratings VALUES (1)

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
UPDATE catalog SET genre = 'x'

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
UPDATE ratings SET title = 'x'

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
DELETE FROM catalog

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
DELETE FROM ratings WHERE user_id > 900000000

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
TRUNCATE catalog

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
MERGE INTO catalog USING catalog c ON false WHEN NOT MATCHED THEN INSERT VALUES ('x', 'y')

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
DROP TABLE catalog

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
DROP VIEW recent

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
ALTER TABLE catalog ADD COLUMN x INTEGER

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
ALTER TABLE ratings RENAME TO r

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
COMMENT ON TABLE catalog IS 'x'

-- NotSupported|ParserException
WITH x AS (INSERT INTO catalog VALUES ('x', 'y') RETURNING *) FROM x

-- NotSupported|ParserException
WITH x AS (DELETE FROM catalog RETURNING *) FROM x

-- NotSupported|ParserException
WITH x AS (UPDATE catalog SET genre = 'x' RETURNING *) FROM x

-- NotSupported|ParserException
WITH x AS (DELETE FROM ratings RETURNING *) FROM x

-- NotSupported: Under a policy one SELECT is answered, and nothing else.
WITH x AS (SELECT 1) INSERT INTO catalog SELECT 'x', 'y'

-- NotSupported: Under a policy one SELECT is answered, and nothing else.
WITH x AS (SELECT 1) DELETE FROM catalog

-- NotSupported: Under a policy one SELECT is answered, and nothing else.
WITH x AS (SELECT 1) UPDATE catalog SET genre = 'x'

-- ParserException: Parser Error:
WITH x AS (CREATE TABLE t AS SELECT 1) FROM x

-- NotSupported|ParserException
WITH x AS (COPY catalog TO 'x.csv') FROM x

-- NotSupported|ParserException
WITH x AS (DELETE FROM catalog RETURNING *) SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings

-- NotSupported|ParserException
WITH x AS MATERIALIZED (DELETE FROM temp.main.__dp_release_1 RETURNING *) FROM x

-- ParserException: Parser Error: syntax error at or near "FROM"
SELECT * FROM (DELETE FROM catalog RETURNING *)

-- ParserException: Parser Error: syntax error at or near "INTO"
FROM (INSERT INTO catalog VALUES ('x', 'y') RETURNING *)

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
BEGIN

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
BEGIN TRANSACTION

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
COMMIT

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
ROLLBACK

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
ABORT

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
START TRANSACTION

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
CALL duckdb_tables()

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
CALL pragma_version()

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
CALL query('FROM ratings')

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
CALL dp('SELECT 1')

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
CHECKPOINT

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
FORCE CHECKPOINT

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
CHECKPOINT shop

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
VACUUM

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
VACUUM ANALYZE ratings

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
VACUUM FULL

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
LOAD 'x.duckdb_extension'

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
INSTALL json FROM community

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
UPDATE EXTENSIONS

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
KILL 1

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
SHUTDOWN

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
RELEASE SAVEPOINT x

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
GRANT SELECT ON ratings TO x

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
DO $$ BEGIN END $$

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
LISTEN x

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
DECLARE x CURSOR FOR SELECT 1

-- ParserException: Parser Error:
SELECT 1 INTO x

-- NotSupported: Under a policy one statement is answered at a time.
WITH x AS (SELECT 1) SELECT * FROM x; DROP TABLE catalog

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
PIVOT catalog ON genre USING count(*)

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
UNPIVOT catalog ON genre INTO NAME n VALUE v

-- NotSupported: Under a policy one SELECT is answered, and nothing else.
FROM (PIVOT catalog ON genre USING count(*))

-- NotSupported: DP_TOPK is not allowed in FROM; it is an answer, not a condition.
FROM (SUMMARIZE SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings)

-- NotSupported: DP_TOPK is not allowed in FROM; it is an answer, not a condition.
FROM (DESCRIBE SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings)

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
DESCRIBE SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
SUMMARIZE SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings

-- NotSupported: DP_TOPK is not allowed in FROM; it is an answer, not a condition.
FROM (EXPLAIN SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings)
