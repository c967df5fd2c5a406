-- Names, sizes, statistics and definitions of what no policy names.

-- NotSupported: There is no table secret.
DESCRIBE secret
DESC secret
SHOW secret

-- NotSupported: There is no table public_looking.
DESCRIBE public_looking

-- NotSupported: There is no table shop.main.secret.
DESCRIBE shop.main.secret

-- NotSupported: There is no table duckdb_tables.
DESCRIBE duckdb_tables

-- NotSupported: There is no table information_schema.tables.
DESCRIBE information_schema.tables

-- NotSupported: There is no table ratings.title.
DESCRIBE "ratings"."title"

-- NotSupported: There is no table sqlite_master.
DESCRIBE sqlite_master

-- NotSupported: Under a policy you can run SELECT
DESCRIBE TABLE ratings

-- NotSupported: There is no table databases.
SHOW DATABASES

-- NotSupported: There is no table schemas.
SHOW SCHEMAS

-- NotSupported: There is no table variables.
SHOW VARIABLES

-- NotSupported: SHOW TABLES FROM is not supported here.
SHOW TABLES FROM shop

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
SHOW
DESCRIBE

-- NotSupported: There is no table ratings.title.x.y.
DESCRIBE ratings.title.x.y

-- ParseError: Syntax error at
SHOW COLUMNS FROM ratings

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
PRAGMA storage_info('ratings')
PRAGMA table_info('ratings')
PRAGMA show_tables
PRAGMA database_size
PRAGMA metadata_info
PRAGMA database_list
PRAGMA functions

-- NotSupported: pragma_storage_info is not available under a policy
FROM pragma_storage_info('ratings')

-- NotSupported: pragma_table_info is not available under a policy
FROM pragma_table_info('ratings')

-- NotSupported: pragma_show is not available under a policy
FROM pragma_show('ratings')

-- NotSupported: pragma_storage_info is not available under a policy
SELECT * FROM pragma_storage_info('shop.main.ratings')

-- NotPrivate: ratings is private: it can be read only through DP functions.
SELECT stats(title) FROM ratings
SELECT alias(title) FROM ratings

-- NotSupported: information_schema is not available under a policy
SELECT count(*) FROM shop.information_schema.tables

-- NotSupported: sqlite_master is not available under a policy
FROM shop.sqlite_master

-- NotSupported: duckdb_tables is not available under a policy
FROM shop.main.duckdb_tables
SELECT estimated_size / 0 + error('x') FROM duckdb_tables() WHERE table_name = 'ratings' UNION ALL SELECT error('nothing')

-- NotSupported: duckdb_columns is not available under a policy
SELECT CASE WHEN count(*) = 0 THEN error('no such table here') END FROM duckdb_columns() WHERE table_name = 'secret'

-- NotSupported: duckdb_views is not available under a policy
SELECT CASE WHEN count(*) = 0 THEN error('no view here') END FROM duckdb_views() WHERE view_name = 'recent'

-- NotSupported: duckdb_types is not available under a policy
SELECT CASE WHEN count(*) = 0 THEN error('no type here') END FROM duckdb_types() WHERE type_name = 'mood'

-- NotSupported: duckdb_sequences is not available under a policy
SELECT CASE WHEN count(*) = 0 THEN error('no sequence here') END FROM duckdb_sequences()

-- NotSupported: duckdb_constraints is not available under a policy
SELECT CASE WHEN count(*) = 0 THEN error('no constraint here') END FROM duckdb_constraints()

-- NotSupported: duckdb_indexes is not available under a policy
SELECT CASE WHEN count(*) = 0 THEN error('no index here') END FROM duckdb_indexes()

-- NotSupported: duckdb_functions is not available under a policy
SELECT CASE WHEN count(*) = 0 THEN error('no macro here') END FROM duckdb_functions() WHERE NOT internal

-- NotSupported: nextval is not available under a policy
SELECT nextval('ids')

-- NotSupported: currval is not available under a policy
SELECT currval('ids')

-- CatalogException: Catalog Error: Type with name mood does not exist!
SELECT enum_range(NULL::mood)
SELECT 'x'::mood
SELECT enum_first(NULL::mood)

-- CatalogException: Catalog Error: Scalar Function with name favourite does not exis
SELECT favourite(1)

-- CatalogException|BinderException
FROM shop.main.favourite(1)

-- NotPrivate: FROM of a source takes tables, views, CTEs and subqueries.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM duckdb_tables()

-- NotPrivate: There is no table information_schema.tables.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM information_schema.tables

-- NotPrivate: FROM of a source takes tables, views, CTEs and subqueries.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM pragma_storage_info('ratings')

-- NotPrivate: There is no table duckdb_tables.
SELECT DP_COUNT_DISTINCT(table_name, epsilon := 1) FROM duckdb_tables

-- NotPrivate: FROM of a source takes tables, views, CTEs and subqueries.
SELECT DP_TOPK(table_name, 1, epsilon := 1, domain := ['ratings']) FROM duckdb_tables()

-- ArgumentError: duckdb_tables.table_name is not a column of a public table.
SELECT DP_TOPK(title, 1, epsilon := 1, domain := duckdb_tables.table_name) FROM ratings

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
COMMENT ON TABLE ratings IS 'x'

-- NotSupported: duckdb_prepared_statements is not available under a policy
FROM duckdb_prepared_statements('x')

-- NotSupported: information_schema is not available under a policy
SELECT table_name FROM shop.information_schema.columns

-- NotSupported: duckdb_tables is not available under a policy
SELECT table_name, estimated_size FROM duckdb_tables()

-- NotSupported: duckdb_views is not available under a policy
FROM duckdb_views() WHERE NOT internal

-- NotSupported: duckdb_databases is not available under a policy
SELECT database_name, path, type, readonly FROM duckdb_databases()

-- NotSupported: duckdb_schemas is not available under a policy
FROM duckdb_schemas() WHERE NOT internal

-- NotSupported: duckdb_sequences is not available under a policy
FROM duckdb_sequences()

-- NotSupported: duckdb_constraints is not available under a policy
FROM duckdb_constraints()

-- NotSupported: duckdb_indexes is not available under a policy
FROM duckdb_indexes()

-- NotSupported: duckdb_types is not available under a policy
FROM duckdb_types() WHERE NOT internal

-- NotSupported: duckdb_functions is not available under a policy
SELECT * FROM duckdb_functions() WHERE NOT internal

-- NotSupported: duckdb_dependencies is not available under a policy
FROM duckdb_dependencies()

-- NotSupported: duckdb_prepared_statements is not available under a policy
FROM duckdb_prepared_statements()

-- NotSupported: duckdb_logs is not available under a policy
FROM duckdb_logs()

-- NotSupported: duckdb_temporary_files is not available under a policy
FROM duckdb_temporary_files()

-- NotSupported: duckdb_variables is not available under a policy
FROM duckdb_variables()

-- NotSupported: duckdb_external_file_cache is not available under a policy
FROM duckdb_external_file_cache()

-- NotSupported: pragma_table_info is not available under a policy
FROM pragma_table_info('catalog')

-- NotSupported: pragma_storage_info is not available under a policy
SELECT column_name, stats FROM pragma_storage_info('catalog')

-- NotSupported: query is not available under a policy
FROM query('SELECT 42 AS n')

-- NotSupported: query_table is not available under a policy
FROM query_table('catalog') ORDER BY ALL

-- NotSupported: json_execute_serialized_sql is not available under a policy
FROM json_execute_serialized_sql(json_serialize_sql('SELECT 42'))

-- NotSupported: current_setting is not available under a policy
SELECT current_setting('lock_configuration'), current_setting('enable_external_access'), current_setting('TimeZone')

-- NotSupported: getvariable is not available under a policy
SELECT getvariable('x')

-- NotSupported: write_log is not available under a policy
SELECT write_log('x')

-- NotSupported: duckdb_tables is not available under a policy
SELECT count(*) FROM duckdb_tables() WHERE table_name IN ('ratings', 'orders', 'order_items', 'secret')

-- NotSupported: duckdb_memory is not available under a policy
FROM duckdb_memory() WHERE false

-- NotSupported: duckdb_databases is not available under a policy
SELECT database_name FROM duckdb_databases() WHERE path IS NOT NULL

-- NotSupported: duckdb_tables is not available under a policy
SELECT * EXCLUDE (database_oid, schema_oid, table_oid) FROM duckdb_tables()

-- NotSupported: duckdb_columns is not available under a policy
SELECT * EXCLUDE (database_oid, schema_oid, table_oid) FROM duckdb_columns() WHERE NOT internal

-- NotSupported: EXPLAIN must be followed by a SELECT with DP calls.
EXPLAIN (FORMAT json) SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings

-- NotSupported: duckdb_live_query_metrics is not available under a policy
FROM duckdb_live_query_metrics()

-- NotSupported: add_grammar_extension is not available under a policy
FROM add_grammar_extension('x')

-- NotSupported: remove_grammar_extension is not available under a policy
FROM remove_grammar_extension('x')

-- NotSupported: information_schema is not available under a policy
FROM information_schema.tables
FROM information_schema.columns WHERE table_schema = 'main'
SELECT 1 WHERE 'ratings' IN (SELECT table_name FROM information_schema.tables)
SELECT * FROM information_schema.columns WHERE data_type LIKE 'ENUM%'

-- NotSupported: pg_tables is not available under a policy: it does not show your tables.
SELECT * FROM pg_catalog.pg_tables

-- NotSupported: pg_class is not available under a policy: it does not show your tables.
SELECT relname FROM pg_catalog.pg_class

-- NotSupported: pg_settings is not available under a policy: it does not show your tables.
FROM pg_settings
FROM 'pg_settings'
SELECT (SELECT max(setting) FROM system.pg_catalog.pg_settings)
SELECT * FROM catalog, pg_settings
SELECT * FROM catalog POSITIONAL JOIN 'pg_settings'
FROM (SUMMARIZE pg_settings)
FROM (DESCRIBE 'pg_settings')
FROM (PIVOT pg_settings ON name IN ('secret_directory') USING max(setting))
FROM (UNPIVOT 'pg_settings' ON setting)
WITH s AS MATERIALIZED (FROM pg_settings) SELECT 1 LIMIT (SELECT count(*) FROM s)
SELECT DP_COUNT(*, epsilon := 1) + (SELECT count(*) FROM pg_settings) FROM ratings

-- NotSupported: sqlite_master is not available under a policy
FROM sqlite_master

-- NotSupported: pragma_database_list is not available under a policy
FROM pragma_database_list

-- NotSupported: pg_enum is not available under a policy
SELECT * FROM pg_catalog.pg_enum
SELECT * FROM pg_enum

-- NotSupported: duckdb_tables is not available under a policy
SELECT estimated_size FROM duckdb_tables
SELECT pg_class.* FROM main.duckdb_tables AS pg_class

-- NotSupported|ParseError|CatalogException
FROM e'pg\x5fsettings'
FROM $$pg_settings$$
FROM pg_catalog.'pg_settings'

-- NotSupported: SHOW is a statement of its own, and not part of a query.
FROM (DESCRIBE)
FROM (/* */ DESC TABLES) AS t
SELECT * FROM (SUMMARIZE databases)
FROM (DESCRIBE TABLES FROM main)
SELECT 1 WHERE 1 IN (SELECT 1 UNION ALL BY NAME DESC TABLES)
FROM (SHOW secret_directory)
SELECT (SHOW memory_limit)
SELECT 1 UNION ALL SHOW memory_limit
SELECT ARRAY(SHOW temp_directory)
FROM (SUMMARIZE SHOW secret_directory)
WITH a AS (SHOW home_directory) FROM a
FROM (SHOW databases)
FROM (SHOW ratings)

-- NotSupported: json_serialize_plan is not available under a policy
SELECT json_serialize_plan('SELECT current_setting(''secret_directory'')', optimize := true)
SELECT json_serialize_plan('FROM (SHOW secret_directory)', optimize := true)
SELECT 'FROM duckdb_settings()'.json_serialize_plan()
