-- The labels of a private ENUM, which differ with one person's rows.

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
SUMMARIZE ratings

-- ArgumentError: mood is not a column of a public table.
SELECT DP_TOPK(mood, 1, epsilon := 1, domain := mood) FROM ratings

-- ArgumentError: ratings.mood is not a column of a public table.
SELECT DP_TOPK(mood, 1, epsilon := 1, domain := ratings.mood) FROM ratings

-- ArgumentError: mood is not a column of a public table.
SELECT DP_TOPK(r.mood, 1, epsilon := 1, domain := mood) FROM ratings r

-- ArgumentError: Under a policy domain := observed is allowed only if the policy declares
SELECT DP_TOPK(mood, 1, epsilon := 1, domain := observed) FROM ratings

-- ArgumentError: recent.mood is not a column of a public table.
SELECT DP_TOPK(mood, 1, epsilon := 1, domain := recent.mood) FROM ratings

-- ArgumentError: DP_TOPK needs a domain (the public set of items that the answer may
SELECT DP_TOPK(mood, 1, epsilon := 1) FROM ratings
SELECT DP_TOPK(mood, 1, epsilon := 1) FROM recent

-- ArgumentError: k = 3 is more than the 2 items of the domain.
SELECT DP_TOPK(mood, 3, epsilon := 1, domain := ['calm', 'merry']) FROM ratings

-- ArgumentError: domain must be written in the statement: a public column, a 
SELECT DP_TOPK(mood, 1, epsilon := 1, domain := enum_range(NULL::mood)) FROM ratings

-- ArgumentError: A domain list holds literals only: strings, plain numbers, TRUE and FALSE, dates
SELECT DP_TOPK(mood, 1, epsilon := 1, domain := ['calm'::mood]) FROM ratings
SELECT DP_TOPK(mood, 1, epsilon := 1, domain := [CAST('calm' AS mood)]) FROM ratings

-- ArgumentError: mood has type VARCHAR, and its domain, a list in the stateme
SELECT DP_TOPK(mood, 1, epsilon := 1, domain := [1, 2]) FROM ratings

-- NotPrivate: The function enum_range is not supported here: dp_sql cannot prove that it
SELECT DP_TOPK(enum_range(mood), 1, epsilon := 1, domain := ['calm']) FROM ratings

-- NotPrivate: The function enum_first is not supported here: dp_sql cannot prove that it
SELECT DP_TOPK(enum_first(mood), 1, epsilon := 1, domain := ['calm']) FROM ratings

-- NotPrivate: The function enum_code is not supported here: dp_sql cannot prove that it
SELECT DP_TOPK(enum_code(mood), 1, epsilon := 1, domain := [0]) FROM ratings

-- NotPrivate: The function typeof is not supported here: dp_sql cannot prove that it
SELECT DP_TOPK(typeof(mood), 1, epsilon := 1, domain := ['calm']) FROM ratings

-- NotPrivate: The function enum_range_boundary is not supported here: dp_sql cannot
SELECT DP_COUNT_DISTINCT(enum_range_boundary(mood, NULL), epsilon := 1) FROM ratings

-- ArgumentError: DP_COUNT_DISTINCT needs groups (the public set of groups; the policy
SELECT mood, DP_COUNT_DISTINCT(title, epsilon := 1, max_groups_contributed := 1) FROM ratings GROUP BY mood

-- ArgumentError: mood is not a column of a public table.
SELECT mood, DP_COUNT_DISTINCT(title, epsilon := 1, groups := mood, max_groups_contributed := 1) FROM ratings GROUP BY mood

-- ArgumentError: Under a policy groups := observed is allowed only if the policy declares
SELECT mood, DP_COUNT_DISTINCT(title, epsilon := 1, groups := observed, max_groups_contributed := 1) FROM ratings GROUP BY mood

-- SourceError
SELECT enum_range(best[1]) FROM (SELECT DP_TOPK(mood, 1, epsilon := 0.1, domain := ['x']) AS best FROM ratings)
SELECT enum_first(best[1]) FROM (SELECT DP_TOPK(mood, 1, epsilon := 0.1, domain := ['x']) AS best FROM ratings)
SELECT enum_last(mood) FROM (SELECT mood, DP_COUNT_DISTINCT(title, epsilon := 0.1, groups := ['x'], max_groups_contributed := 1) FROM ratings GROUP BY mood)

-- CatalogException: Catalog Error: Type with name mood does not exist!
SELECT CAST(best[1] AS mood) FROM (SELECT DP_TOPK(mood, 1, epsilon := 0.1, domain := ['x']) AS best FROM ratings)
SELECT enum_range(NULL::shop.mood)

-- CatalogException|BinderException
SELECT enum_range(NULL::shop.main.mood)

-- CatalogException: Catalog Error: Type with name mood does not exist!
SELECT enum_range(NULL::main.mood)
SELECT enum_last(NULL::mood)
SELECT enum_code('calm'::mood)
SELECT enum_range_boundary('calm'::mood, NULL)
SELECT TRY_CAST('nobody' AS mood)

-- InvalidInputException|BinderException
SELECT ?::mood
SELECT $1::mood

-- CatalogException: Catalog Error: Type with name mood does not exist!
SELECT NULL::mood[]
SELECT NULL::STRUCT(m mood)
VALUES ('calm'::mood)
SELECT * FROM (VALUES (1)) AS t(m) WHERE m::mood = 'calm'
SELECT typeof(NULL::mood)

-- NotSupported: read_csv is not available under a policy
SELECT * FROM read_csv('x.csv', types = {'m': 'mood'})

-- CatalogException: Catalog Error: Table Function with name "from_json" is not i
SELECT * FROM from_json('{}', '{"m": "mood"}')

-- NotSupported: duckdb_types is not available under a policy
SELECT * FROM duckdb_types() WHERE logical_type = 'ENUM'

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
CREATE TYPE mood2 AS ENUM (SELECT mood FROM ratings)
ALTER TABLE catalog ADD COLUMN m mood

-- NotPrivate: This literal cannot be compared with VARCHAR.
SELECT DP_COUNT_DISTINCT(title, epsilon := 1) FROM ratings WHERE mood = 'nobody'::mood

-- NotPrivate: A cast to this type is not supported here.
SELECT DP_COUNT_DISTINCT(title, epsilon := 1) FROM ratings WHERE mood::mood = 'calm'

-- NotPrivate: This literal cannot be compared with VARCHAR.
SELECT DP_COUNT_DISTINCT(title, epsilon := 1) FROM ratings WHERE mood = 1
SELECT DP_COUNT_DISTINCT(title, epsilon := 1) FROM ratings WHERE mood > 1.5
SELECT DP_COUNT_DISTINCT(title, epsilon := 1) FROM ratings WHERE mood = DATE '2024-01-01'
SELECT DP_COUNT_DISTINCT(title, epsilon := 1) FROM ratings WHERE mood = TRUE

-- NotPrivate: A condition must be true or false; this is VARCHAR.
SELECT DP_COUNT_DISTINCT(title, epsilon := 1) FROM ratings WHERE mood

-- NotPrivate: BIGINT and VARCHAR have no common type here.
SELECT DP_COUNT_DISTINCT(title, epsilon := 1) FROM ratings WHERE mood = score

-- NotPrivate: year takes a date, not VARCHAR.
SELECT DP_COUNT_DISTINCT(title, epsilon := 1) FROM ratings WHERE year(mood) = 1

-- NotPrivate: IN compares VARCHAR with INTEGER; both must have the same type.
SELECT DP_COUNT_DISTINCT(title, epsilon := 1) FROM ratings WHERE mood IN (SELECT 1)

-- NotPrivate: The function enum_range is not supported here: dp_sql cannot prove that it depends on one row alone and never fails.
SELECT DP_COUNT_DISTINCT(title, epsilon := 1) FROM ratings WHERE mood IN enum_range(NULL::mood)

-- NotPrivate: INTEGER and VARCHAR have no common type here.
SELECT DP_COUNT_DISTINCT(title, epsilon := 1) FROM ratings WHERE coalesce(mood, 7) = 'calm'

-- NotPrivate: The function enum_code is not supported here: dp_sql cannot prove that it
SELECT DP_COUNT_DISTINCT(title, epsilon := 1) FROM ratings WHERE enum_code(mood) = 1

-- NotPrivate: This cast fails on some values of type VARCHAR.
SELECT DP_COUNT_DISTINCT(title, epsilon := 1) FROM ratings WHERE CAST(mood AS INTEGER) = 1

-- NotPrivate: A source may only use count, min, max, arg_min, arg_max, any_value, mode, bool_or, bool_and, and sum, avg, median, quantile_cont and quantile_disc of integers up to 64 bits and of decimals up to 18 digits.
SELECT DP_COUNT_DISTINCT(m, epsilon := 1) FROM (SELECT user_id, sum(mood) AS m FROM ratings GROUP BY user_id)

-- NotPrivate: Both sides of UNION must have the same columns and types
SELECT DP_COUNT_DISTINCT(m, epsilon := 1) FROM (SELECT user_id, mood AS m FROM ratings UNION ALL SELECT user_id, score FROM ratings)

-- NotPrivate: A join compares VARCHAR with BIGINT.
SELECT DP_COUNT_DISTINCT(r.title, epsilon := 1) FROM ratings r JOIN orders o ON r.mood = o.user_id AND r.user_id = o.user_id

-- ArgumentError: mood is not a column of a public table.
SELECT DP_TOPK(score, 1, epsilon := 1, domain := mood) FROM ratings
SELECT DP_TOPK(title, 1, epsilon := 1, domain := mood) FROM ratings

-- NotSupported: DP_SELECT is not available under a policy
SELECT DP_SELECT(mood, score, 1, epsilon := 1) FROM ratings
