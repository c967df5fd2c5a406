-- Functions in sources, conditions and items that are not known to be total.

-- NotPrivate: A source reads tables by their names.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM query('FROM ratings')

-- NotPrivate: A source reads tables by their names.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM query_table('ratings')

-- NotPrivate: A source reads tables by their names.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM query_table(['ratings', 'secret'])

-- NotPrivate: A source reads tables by their names.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM favourite(1)

-- NotPrivate: A source reads tables by their names.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM range(10)

-- NotPrivate: A source reads tables by their names.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM unnest([1, 2])

-- NotPrivate: A source reads tables by their names.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM generate_series(1, 10)

-- NotPrivate: FROM … AS name(column, …) hides whose row a row is.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (VALUES (1, 'a')) AS v(user_id, title)

-- NotPrivate: A source reads tables by their names.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM json_execute_serialized_sql('x')

-- NotPrivate: A source reads tables by their names.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM dp('SELECT 1')

-- NotPrivate: A source reads tables by their names.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings.query()

-- NotSupported: query is not available under a policy
FROM query('FROM ratings')

-- NotSupported: query_table is not available under a policy
FROM query_table('ratings')

-- NotSupported: query is not available under a policy
FROM query('SELECT * FROM shop.main.ratings')

-- NotSupported: query is not available under a policy
FROM query('DROP TABLE catalog')

-- NotSupported: query is not available under a policy
FROM query('SELECT 1; SELECT 2')

-- NotSupported: json_execute_serialized_sql is not available under a policy
FROM json_execute_serialized_sql(json_serialize_sql('FROM ratings'))

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
PRAGMA json_execute_serialized_sql('x')

-- BinderException: Binder Error: No function matches the given name and argument ty
SELECT json_serialize_plan('FROM ratings', 1)

-- CatalogException: Catalog Error: Table Function with name "sql_auto_complete" is n
FROM sql_auto_complete(1, 2)

-- NotPrivate: FAVOURITE(user_id) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE favourite(user_id) = 1

-- NotPrivate
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE main.favourite(user_id) = 1

-- NotPrivate: QUERY('x') is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE query('x') = 1

-- NotPrivate: MD5(title) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE md5(title) = 'x'

-- NotPrivate: HASH(title) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE hash(title) = 1

-- NotPrivate: LENGTH(title) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE length(title) > 3

-- NotPrivate: REGEXP_MATCHES(title, 'x') is not known to be total on every row
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE regexp_matches(title, 'x')

-- NotPrivate: REGEXP_
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title ~ 'can.*'

-- NotPrivate: SimilarTo is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title SIMILAR TO 'can.*'

-- NotPrivate: Glob is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title GLOB 'can*'

-- NotPrivate: ARRAY_CONTAINS([title], 'x') is not known to be total on every r
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE list_contains([title], 'x')

-- NotPrivate: title -> '$.x' is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE json_extract(title, '$.x') IS NULL

-- NotPrivate: Only a cast to VARCHAR succeeds on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title::JSON IS NOT NULL

-- NotPrivate: STRPTIME(title, '%Y') is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE strptime(title, '%Y') IS NULL

-- NotPrivate: TRY_CAST(title AS INT) has a part that is not known here.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE try_cast(title AS INTEGER) = 1

-- NotPrivate: TRY(CAST(title AS INT)) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE TRY(CAST(title AS INTEGER)) = 1

-- ParseError: dp_sql cannot read this part, so it cannot prove that it is priv
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE apply([1], x -> x + user_id) = [1]

-- NotPrivate: Add is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score + 1 > 5

-- NotPrivate: Mul is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score * 2 > 5

-- NotPrivate: Neg is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE -score > 5

-- NotPrivate: Mod is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score % 2 = 0

-- NotPrivate: IntDiv is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score // 0 = 1

-- NotPrivate: POWER(score, 2) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score ** 2 > 1

-- NotPrivate: BitwiseAnd is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score & 1 = 1

-- NotPrivate: BitwiseLeftShift is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score << 3 > 1

-- NotPrivate: DPipe is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title || 'x' = 'bx'

-- NotPrivate: CONCAT(title, user_id) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE concat(title, user_id) = 'x'

-- NotPrivate: ABS(score) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE abs(score) > 3

-- NotPrivate: GREATEST(score, user_id) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE greatest(score, user_id) > 3

-- NotPrivate: TYPEOF(title) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE typeof(title) = 'VARCHAR'

-- NotPrivate: {'a': title} is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE struct_pack(a := title) IS NULL

-- NotPrivate: {'a': title} is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE {'a': title} IS NOT NULL

-- NotPrivate: [title] is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE [title] = ['x']

-- NotPrivate: Tuple is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE (title, user_id) = ('x', 1)

-- NotPrivate: ROW(title, user_id) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE row(title, user_id) IN (('x', 1))

-- NotPrivate: title COLLATE NOCASE is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title COLLATE NOCASE = 'B0'

-- NotPrivate: CASE WHEN score > 3 THEN TRUE ELSE FALSE END is not known to be
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE if(score > 3, true, false)

-- NotPrivate: NULLIF(score, 3) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE nullif(score, 3) IS NULL

-- NotPrivate: CASE score WHEN 3 THEN TRUE ELSE FALSE END is not known to be to
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE CASE score WHEN 3 THEN true ELSE false END

-- NotPrivate: CASE WHEN user_id > 900000000 THEN ERROR('x') ELSE TRUE END is n
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE CASE WHEN user_id > 900000000 THEN error('x') ELSE true END

-- NotPrivate: Only a cast to VARCHAR succeeds on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score::VARCHAR::INTEGER = 3

-- NotPrivate: Only a cast to VARCHAR succeeds on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE CAST(title AS DATE) = day

-- NotPrivate: VARCHAR and DATE are compared only after a cast that may fail.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title = day

-- NotPrivate: BIGINT and VARCHAR are compared only after a cast that may fail.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score = title

-- NotPrivate: Add is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE day + INTERVAL 1 DAY > '2024-01-01'

-- NotPrivate: Sub is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE day - DATE '2024-01-01' > 3

-- NotPrivate: AGE(day) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE age(day) > INTERVAL 1 DAY

-- NotPrivate: STRFTIME(day, '%Y') is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE strftime(day, '%Y') = '2024'

-- NotPrivate: substr takes literal bounds up to a million.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE substr(title, user_id) = 'x'

-- NotPrivate: substr takes literal bounds up to a million.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE substr(title, 1, 10000000000) = 'x'

-- NotPrivate: date_trunc takes a part such as 'month', and a date.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE date_trunc(title, day) = '2024-01-01'

-- NotPrivate: epoch is not known here.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE extract(epoch FROM day) > 1

-- NotPrivate: coalesce takes a column and one literal.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE coalesce(title, region) = 'x'

-- NotPrivate: coalesce takes a column and one literal.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE coalesce(title, error('x')) = 'x'

-- NotPrivate: LIKE takes a text column and a pattern in quotes.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title LIKE region

-- NotPrivate: Escape is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title LIKE 'x' ESCAPE 'y'

-- NotPrivate: LIKE takes a text column and a pattern in quotes.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title LIKE ANY ['x']

-- NotPrivate: TRIM(title, region) has a part that is not known here.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE trim(title, region) = 'x'

-- NotPrivate: TRIM(title, 'x') has a part that is not known here.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE trim(BOTH 'x' FROM title) = 'x'

-- ParseError: dp_sql cannot read this part, so it cannot prove that it is priv
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE upper(title, 'x') = 'X'

-- NotPrivate: This takes text, not BIGINT.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE lower(score) = '1'

-- NotPrivate: year takes a date, not VARCHAR.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE year(title) = 1

-- NotPrivate: GETENV(title) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE getenv(title) IS NULL

-- NotPrivate: MD5(title) is not known to be total on every row.
SELECT DP_TOPK(md5(title), 1, epsilon := 1, domain := ['x']) FROM ratings

-- NotPrivate: DPipe is not known to be total on every row.
SELECT DP_TOPK(title || region, 1, epsilon := 1, domain := ['x']) FROM ratings

-- NotPrivate: ERROR(title) is not known to be total on every row.
SELECT DP_TOPK(error(title), 1, epsilon := 1, domain := ['x']) FROM ratings

-- NotPrivate: Subquery is not known to be total on every row.
SELECT DP_TOPK((SELECT max(title) FROM ratings), 1, epsilon := 1, domain := ['x']) FROM ratings

-- NotPrivate: FIRST(title) is not known to be total on every row.
SELECT DP_TOPK(first(title), 1, epsilon := 1, domain := ['x']) FROM ratings

-- NotPrivate: COUNT(*) is not known to be total on every row.
SELECT DP_TOPK(count(*), 1, epsilon := 1, domain := [1]) FROM ratings

-- NotPrivate: Window is not known to be total on every row.
SELECT DP_TOPK(row_number() OVER (), 1, epsilon := 1, domain := [1]) FROM ratings

-- NotSupported: DP_TOPK does not take ORDER BY; NULLs never count, and the order
SELECT DP_TOPK(lag(title) OVER (ORDER BY user_id), 1, epsilon := 1, domain := ['x']) FROM ratings

-- NotPrivate: UNNEST([title]) is not known to be total on every row.
SELECT DP_TOPK(unnest([title]), 1, epsilon := 1, domain := ['x']) FROM ratings

-- NotPrivate: Literal is not known to be total on every row.
SELECT DP_TOPK(1, 1, epsilon := 1, domain := [1]) FROM ratings

-- NotPrivate: Literal is not known to be total on every row.
SELECT DP_TOPK('x', 1, epsilon := 1, domain := ['x']) FROM ratings

-- NotPrivate: Null is not known to be total on every row.
SELECT DP_TOPK(NULL, 1, epsilon := 1, domain := ['x']) FROM ratings

-- ArgumentError: The item weight has type DOUBLE, whose equality is not exact
SELECT DP_TOPK(weight, 1, epsilon := 1, domain := [1.5]) FROM ratings

-- ArgumentError: The item tags has type VARCHAR[], whose equality is not exact
SELECT DP_COUNT_DISTINCT(tags, epsilon := 1) FROM ratings

-- NotPrivate: Bracket is not known to be total on every row.
SELECT DP_COUNT_DISTINCT(tags[1], epsilon := 1) FROM ratings

-- NotPrivate: PositionalColumn is not known to be total on every row.
SELECT DP_COUNT_DISTINCT(#1, epsilon := 1) FROM ratings

-- NotPrivate: COLUMNS(*) is not known to be total on every row.
SELECT DP_COUNT_DISTINCT(COLUMNS(*), epsilon := 1) FROM ratings

-- NotSupported: DP_SELECT is not available under a policy
SELECT DP_SELECT(title, score, 1, epsilon := 1) FROM ratings

-- NotPrivate: GETVARIABLE('x') is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score > getvariable('x')

-- NotPrivate: A source reads tables by their names.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title IN (FROM query('FROM ratings'))

-- NotPrivate: IN takes one column of public tables.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title IN (SELECT lower(title) FROM ratings)
