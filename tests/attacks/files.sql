-- The database file itself, other files, the network, and Python's variables.

-- PermissionException: Permission Error: Cannot access file "shop.duckdb" - file system
FROM 'shop.duckdb'

-- CatalogException: Catalog Error: Table with name
FROM '/etc/passwd'

-- PermissionException: Permission Error: Cannot access file "shop.duckdb" - file system
FROM "shop.duckdb"

-- NotSupported: read_csv is not available under a policy
SELECT * FROM read_csv('/etc/passwd')

-- NotSupported: read_csv_auto is not available under a policy
SELECT * FROM read_csv_auto('shop.duckdb')

-- NotSupported: read_text is not available under a policy
SELECT * FROM read_text('policy.toml')

-- NotSupported: read_blob is not available under a policy
SELECT * FROM read_blob('shop.duckdb')

-- NotSupported: read_parquet is not available under a policy
SELECT * FROM read_parquet('*.parquet')

-- NotSupported: parquet_page_index is not available under a policy
FROM parquet_page_index('*.parquet')

-- NotSupported: parquet_metadata is not available under a policy
SELECT * FROM parquet_metadata('x.parquet')

-- NotSupported: read_json is not available under a policy
SELECT * FROM read_json('x.json')

-- NotSupported: read_json_objects is not available under a policy
SELECT * FROM read_json_objects('x.json')

-- NotSupported: read_ndjson is not available under a policy
SELECT * FROM read_ndjson('x.json')

-- NotSupported: glob is not available under a policy
SELECT * FROM glob('*')

-- NotSupported: sniff_csv is not available under a policy
SELECT * FROM sniff_csv('/etc/passwd')

-- NotSupported: read_duckdb is not available under a policy
FROM read_duckdb('shop.duckdb')

-- NotSupported: read_text is not available under a policy
SELECT * FROM read_text('/proc/self/maps')

-- NotSupported: read_blob is not available under a policy
SELECT * FROM read_blob('/proc/self/mem')

-- PermissionException: Permission Error: Cannot access file "https://example.org/x.csv"
FROM 'https://example.org/x.csv'

-- PermissionException: Permission Error: Cannot access file "s3://bucket/x.parquet" - f
FROM 's3://bucket/x.parquet'

-- NotSupported: read_csv is not available under a policy
SELECT * FROM read_csv('/dev/stdin')

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
COPY (SELECT 1) TO 'x.csv'
COPY ratings TO 'x.csv'
COPY (SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings) TO 'x.csv'
COPY catalog FROM 'x.csv'
COPY FROM DATABASE shop TO memory
EXPORT DATABASE 'x'
IMPORT DATABASE 'x'
ATTACH 'shop.duckdb' AS y
ATTACH ':memory:' AS y
DETACH memory
ATTACH 'shop.duckdb' AS y (READ_ONLY)
LOAD httpfs
INSTALL httpfs
FORCE INSTALL httpfs
CREATE SECRET s (TYPE s3)

-- NotPrivate: There is no table shop.duckdb.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM 'shop.duckdb'

-- NotPrivate: There is no table ratings.parquet.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM 'ratings.parquet'

-- NotPrivate: FROM of a source takes tables, views, CTEs and subqueries.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM read_csv('ratings.csv')

-- NotPrivate: There is no table x.csv.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings JOIN 'x.csv' AS x USING (title)

-- ArgumentError: domain must be written in the statement: a public column, a list
SELECT DP_TOPK(title, 1, epsilon := 1, domain := 'x.csv') FROM ratings

-- NotSupported: read_text is not available under a policy
SELECT DP_TOPK(title, 2, epsilon := 1), (SELECT content FROM read_text('policy.toml')) FROM ratings

-- NotPrivate: There is no table x.csv.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title IN (SELECT column0 FROM 'x.csv')

-- CatalogException: Catalog Error: Scalar Function with name getenv does not exist!
SELECT getenv('HOME')

-- NotSupported: pandas_scan is not available under a policy
FROM pandas_scan(1)

-- NotSupported: arrow_scan is not available under a policy
FROM arrow_scan(1, 2, 3)

-- NotSupported: arrow_scan_dumb is not available under a policy
FROM arrow_scan_dumb(NULL, NULL, NULL)

-- NotSupported: python_map_function is not available under a policy
FROM python_map_function(1)

-- SourceError: There is no table session.
FROM session

-- SourceError: There is no table policy.
FROM policy

-- SourceError: There is no table text.
FROM text

-- SourceError: There is no table frame.
FROM frame

-- NotSupported: force_checkpoint is not available under a policy
FROM force_checkpoint('shop')

-- CatalogException: Catalog Error: Table Function with name "load_aws_credentials" i
SELECT * FROM load_aws_credentials()

-- NotSupported: seq_scan is not available under a policy
FROM seq_scan('ratings')
