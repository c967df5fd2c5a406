-- Functions in sources, conditions and items that are not known to be total.

-- NotPrivate: FROM of a source takes tables, views, CTEs and subqueries.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM query('FROM ratings')
SELECT DP_TOPK(title, 2, epsilon := 1) FROM query_table('ratings')
SELECT DP_TOPK(title, 2, epsilon := 1) FROM query_table(['ratings', 'secret'])
SELECT DP_TOPK(title, 2, epsilon := 1) FROM favourite(1)

-- NotPrivate: This source is public: it contains no private rows.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM range(10)
SELECT DP_TOPK(title, 2, epsilon := 1) FROM unnest([1, 2])
SELECT DP_TOPK(title, 2, epsilon := 1) FROM generate_series(1, 10)
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (VALUES (1, 'a')) AS v(user_id, title)

-- NotPrivate: FROM of a source takes tables, views, CTEs and subqueries.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM json_execute_serialized_sql('x')
SELECT DP_TOPK(title, 2, epsilon := 1) FROM dp('SELECT 1')
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings.query()

-- NotSupported: query is not available under a policy
FROM query('FROM ratings')

-- NotSupported: query_table is not available under a policy
FROM query_table('ratings')

-- NotSupported: query is not available under a policy
FROM query('SELECT * FROM shop.main.ratings')
FROM query('DROP TABLE catalog')
FROM query('SELECT 1; SELECT 2')

-- NotSupported: json_execute_serialized_sql is not available under a policy
FROM json_execute_serialized_sql(json_serialize_sql('FROM ratings'))

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
PRAGMA json_execute_serialized_sql('x')

-- NotSupported: json_serialize_plan is not available under a policy
SELECT json_serialize_plan('FROM ratings', 1)

-- CatalogException: Catalog Error: Table Function with name "sql_auto_complete" is n
FROM sql_auto_complete(1, 2)

-- NotPrivate: There is no function favourite
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE favourite(user_id) = 1

-- NotPrivate
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE main.favourite(user_id) = 1

-- NotPrivate: The function query is not supported here: dp_sql cannot prove that it
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE query('x') = 1

-- NotPrivate: The operator ~ is not supported here.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title ~ 'can.*'

-- NotPrivate: A cast to this type is not supported here.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title::JSON IS NOT NULL

-- NotPrivate: strptime takes a string in quotes here.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE strptime('%Y', title) IS NULL

-- ParseError: dp_sql cannot read this part, so it cannot prove that it is priv
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE apply([1], x -> x + user_id) = [1]

-- NotPrivate: The function typeof is not supported here: dp_sql cannot prove that it
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE typeof(title) = 'VARCHAR'

-- NotPrivate: The function struct_pack is not supported here: dp_sql cannot prove that it depends
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE struct_pack(a := title) IS NULL

-- NotPrivate: This expression is not supported here: dp_sql cannot prove that it depends
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE {'a': title} IS NOT NULL

-- NotPrivate: The function row is not supported here: dp_sql cannot prove that it
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE row(title, user_id) IN (('x', 1))

-- NotPrivate: The function error is not supported here: dp_sql cannot prove that it depends on one
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE CASE WHEN user_id > 900000000 THEN error('x') ELSE true END

-- NotPrivate: This cast fails on some values of type VARCHAR.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score::VARCHAR::INTEGER = 3
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE CAST(title AS DATE) = day

-- NotPrivate: DATE and VARCHAR have no common type here.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title = day

-- NotPrivate: BIGINT and VARCHAR have no common type here.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score = title

-- NotPrivate: substr is supported only with literal bounds of up to a million.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE substr(title, user_id) = 'x'
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE substr(title, 1, 10000000000) = 'x'

-- NotPrivate: date_trunc takes one of these parts: year, quarter, month, week, day, hour, minute, second, decade, century, millennium, millisecond, microsecond.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE date_trunc(title, day) = '2024-01-01'

-- NotPrivate: The function error is not supported here: dp_sql cannot prove that it depends on one
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE coalesce(title, error('x')) = 'x'

-- NotPrivate: LIKE is supported only for a string column and a pattern in quotes.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title LIKE region

-- NotPrivate: ESCAPE takes an escape character in quotes here, no letter.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title LIKE 'x' ESCAPE 'y'

-- NotPrivate: LIKE is supported only for a string column and a pattern in quotes.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title LIKE ANY ['x']

-- NotPrivate: trim takes a string in quotes here.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE trim(title, region) = 'x'

-- ParseError: dp_sql cannot read this part, so it cannot prove that it is priv
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE upper(title, 'x') = 'X'

-- NotPrivate: This function takes a string, not BIGINT.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE lower(score) = '1'

-- NotPrivate: year takes a date, not VARCHAR.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE year(title) = 1

-- NotPrivate: There is no function getenv
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE getenv(title) IS NULL

-- ArgumentError: hash(title) has type UBIGINT, and its domain, a list in the statement, holds strings
SELECT DP_TOPK(hash(title), 1, epsilon := 1, domain := ['x']) FROM ratings

-- NotPrivate: The function error is not supported here: dp_sql cannot prove that it
SELECT DP_TOPK(error(title), 1, epsilon := 1, domain := ['x']) FROM ratings

-- NotPrivate: A subquery is not supported here: dp_sql cannot prove that
SELECT DP_TOPK((SELECT max(title) FROM ratings), 1, epsilon := 1, domain := ['x']) FROM ratings

-- NotPrivate: The function first is not supported here: it reads other rows.
SELECT DP_TOPK(first(title), 1, epsilon := 1, domain := ['x']) FROM ratings

-- NotPrivate: The function count is not supported here: it reads other rows.
SELECT DP_TOPK(count(*), 1, epsilon := 1, domain := [1]) FROM ratings

-- NotPrivate: A window function is not supported here: it reads other rows
SELECT DP_TOPK(row_number() OVER (), 1, epsilon := 1, domain := [1]) FROM ratings

-- NotPrivate: A window function is not supported here: it reads other rows.
SELECT DP_TOPK(lag(title) OVER (ORDER BY user_id), 1, epsilon := 1, domain := ['x']) FROM ratings

-- NotPrivate: The function unnest is not supported here: dp_sql cannot prove that it
SELECT DP_TOPK(unnest([title]), 1, epsilon := 1, domain := ['x']) FROM ratings

-- ArgumentError: the item must be a column, not the constant 1.
SELECT DP_TOPK(1, 1, epsilon := 1, domain := [1]) FROM ratings

-- ArgumentError: the item must be a column, not the constant 'x'.
SELECT DP_TOPK('x', 1, epsilon := 1, domain := ['x']) FROM ratings

-- NotPrivate: A constant without a column is not supported here: dp_sql cannot prove
SELECT DP_TOPK(NULL, 1, epsilon := 1, domain := ['x']) FROM ratings

-- ArgumentError: The item weight has type DOUBLE, whose equality is not exact
SELECT DP_TOPK(weight, 1, epsilon := 1, domain := [1.5]) FROM ratings

-- ArgumentError: The item tags has type VARCHAR[], which is not supported
SELECT DP_COUNT_DISTINCT(tags, epsilon := 1) FROM ratings

-- NotPrivate: This expression is not supported here: dp_sql cannot prove that it depends
SELECT DP_COUNT_DISTINCT(#1, epsilon := 1) FROM ratings

-- NotPrivate: The function columns is not supported here: dp_sql cannot prove that it
SELECT DP_COUNT_DISTINCT(COLUMNS(*), epsilon := 1) FROM ratings

-- NotSupported: DP_SELECT is not available under a policy
SELECT DP_SELECT(title, score, 1, epsilon := 1) FROM ratings

-- NotPrivate: The function getvariable is not supported here: dp_sql cannot prove that
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score > getvariable('x')

-- NotPrivate: FROM of a source takes tables, views, CTEs and subqueries.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title IN (FROM query('FROM ratings'))

-- NotPrivate: IN (SELECT …) must read public tables only, or compare privacy units.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title IN (SELECT lower(title) FROM ratings)

-- NotPrivate: Values of type VARCHAR[] are not compared or combined here.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE [title] = ['x']
