-- Names that mean something else than they seem: shadowing, renaming, full names, our own names.

-- NotPrivate: This source is public: it contains no private rows.
WITH ratings AS (SELECT 1 AS user_id, 'a' AS title) SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings
WITH ratings AS (FROM catalog) SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings
WITH ratings AS (SELECT title AS user_id, title FROM catalog) SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings

-- ArgumentError: Under a policy domain := observed is allowed only if the policy declares
WITH catalog AS (SELECT user_id, title FROM ratings) SELECT DP_TOPK(title, 1, epsilon := 1, domain := observed) FROM catalog

-- ArgumentError: c.title is not a column of a public table.
WITH c AS (SELECT title FROM ratings) SELECT DP_TOPK(title, 1, epsilon := 1, domain := c.title) FROM ratings

-- NotPrivate
WITH RECURSIVE ratings AS (SELECT user_id, title FROM secret) SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings
WITH ratings(title, user_id) AS (SELECT user_id, title FROM orders) SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings
WITH a AS (SELECT 1), ratings(title, user_id) AS (SELECT user_id, title FROM secret) SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings
SELECT * FROM (WITH ratings AS (SELECT x AS user_id, x AS title FROM secret) SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings)

-- NotPrivate: There is no table b.
WITH a AS (SELECT * FROM b), b AS (SELECT * FROM ratings) SELECT DP_TOPK(title, 2, epsilon := 1) FROM a

-- NotPrivate: There is no table a.
WITH a AS (SELECT * FROM a) SELECT DP_TOPK(title, 2, epsilon := 1) FROM a

-- NotPrivate: There is no table secret.
WITH secret AS (SELECT * FROM secret) SELECT DP_COUNT_DISTINCT(x, epsilon := 1) FROM secret

-- ArgumentError: Each title is one person, and an answer about one person is not released.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings AS r(title, user_id)
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings r(title)
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT * FROM ratings) AS r(title, user_id)
WITH r(title, user_id) AS (SELECT user_id, title FROM ratings) SELECT DP_TOPK(title, 2, epsilon := 1) FROM r

-- NotPrivate: There is no table RATINGS .
SELECT DP_TOPK(title, 2, epsilon := 1) FROM "RATINGS "

-- NotPrivate: There is no table main.ratings.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM "main.ratings"

-- NotPrivate: There is no table shop.main.ratings.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM "shop.main.ratings"

-- NotPrivate: There is no table other.main.ratings.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM other.main.ratings

-- NotPrivate: There is no table shop.other.ratings.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM shop.other.ratings

-- NotPrivate: There is no table temp.main.ratings.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM temp.main.ratings

-- NotPrivate: There is no table memory.main.ratings.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM memory.main.ratings

-- NotPrivate: There is no table system.main.ratings.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM system.main.ratings

-- NotPrivate: FROM of a source takes tables, views, CTEs and subqueries.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM a.b.c.ratings

-- NotPrivate: There is no table ratings.ratings.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings.ratings

-- NotPrivate: There is no table main.main.ratings.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM main.main.ratings

-- NotPrivate: There is no table .
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ""

-- NotPrivate: There is no table main..
SELECT DP_TOPK(title, 2, epsilon := 1) FROM main.""

-- NotPrivate: There is no table twice.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM twice

-- NotPrivate: There is no table temp.twice.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM temp.twice

-- NotPrivate: There is no table temp.main.twice.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM temp.main.twice

-- NotPrivate: There is no table rat
SELECT DP_TOPK(title, 2, epsilon := 1) FROM "ratıngs"

-- NotPrivate: There is no table RAT
SELECT DP_TOPK(title, 2, epsilon := 1) FROM "RATİNGS"

-- NotPrivate: There is no table r
SELECT DP_TOPK(title, 2, epsilon := 1) FROM räTings

-- NotPrivate: There is no table ratings.title.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings.title

-- NotPrivate: There is no table recent.title.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM recent.title

-- NotPrivate: There is no table temp.main.recent.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM temp.main.recent

-- NotPrivate: There is no table main.ratings.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM 'main.ratings'

-- ParseError: Syntax error at
SELECT DP_TOPK(title, 2, epsilon := 1) FROM $$ratings$$

-- NotPrivate: r.title is not a column of the source.
SELECT DP_TOPK(r.title, 2, epsilon := 1) FROM ratings AS s

-- NotPrivate: ratings.title is not a column of the source.
SELECT DP_TOPK(ratings.title, 2, epsilon := 1) FROM ratings AS s

-- NotPrivate: temp.ratings.title is not a column of the source.
SELECT DP_TOPK(temp.ratings.title, 2, epsilon := 1) FROM ratings

-- NotPrivate: temp.main.ratings.title is not a column of the source.
SELECT DP_TOPK(temp.main.ratings.title, 2, epsilon := 1) FROM ratings

-- NotPrivate: main.ratings.title is not a column of the source.
SELECT DP_TOPK(main.ratings.title, 2, epsilon := 1) FROM ratings AS s

-- NotPrivate: There is no table temp.recent.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM temp.recent

-- NotPrivate: There is no table main.public_looking.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM main.public_looking

-- NotPrivate: __dp_person is not a column of the source.
SELECT DP_TOPK(__dp_person, 2, epsilon := 1, domain := [1, 2]) FROM ratings

-- NotPrivate: c0 is not a column of the source.
SELECT DP_TOPK(c0, 2, epsilon := 1, domain := [1, 2]) FROM ratings

-- NotPrivate: r0.c1 is not a column of the source.
SELECT DP_TOPK(r0.c1, 2, epsilon := 1) FROM ratings

-- NotPrivate: r0.__dp_person is not a column of the source.
SELECT DP_TOPK(r0.__dp_person, 2, epsilon := 1, domain := [1, 2]) FROM ratings

-- NotPrivate: w.c1 is not a column of the source.
SELECT DP_TOPK(w.c1, 2, epsilon := 1) FROM ratings

-- ArgumentError: main.secret.x is not a column of a public table.
SELECT DP_TOPK(title, 2, epsilon := 1, domain := main.secret.x) FROM ratings

-- ArgumentError: ratings.title is not a column of a public table.
SELECT DP_TOPK(title, 2, epsilon := 1, domain := ratings.title) FROM ratings

-- ArgumentError: title is not a column of a public table.
SELECT DP_TOPK(title, 2, epsilon := 1, domain := title) FROM ratings

-- ArgumentError: recent.title is not a column of a public table.
SELECT DP_TOPK(title, 2, epsilon := 1, domain := recent.title) FROM ratings

-- ArgumentError: main.main.catalog.title is not a column of a public table.
SELECT DP_TOPK(title, 2, epsilon := 1, domain := main.main.catalog.title) FROM ratings

-- ArgumentError: catalog has no column nothing.
SELECT DP_TOPK(title, 2, epsilon := 1, domain := catalog.nothing) FROM ratings

-- ArgumentError: catalog has no column title".
SELECT DP_TOPK(title, 2, epsilon := 1, domain := catalog."title""") FROM ratings

-- ArgumentError: "catalog.title" is not a column of a public table.
SELECT DP_TOPK(title, 2, epsilon := 1, domain := "catalog.title") FROM ratings

-- ArgumentError: public_looking.title is not a column of a public table.
SELECT DP_TOPK(title, 2, epsilon := 1, domain := public_looking.title) FROM ratings

-- ArgumentError: mood is not a column of a public table.
SELECT DP_TOPK(title, 2, epsilon := 1, domain := mood) FROM ratings

-- ArgumentError: orders.user_id is not a column of a public table.
SELECT DP_TOPK(title, 2, epsilon := 1, domain := orders.user_id) FROM ratings

-- ArgumentError: "observed" is not a column of a public table.
SELECT DP_TOPK(title, 2, epsilon := 1, domain := "observed") FROM ratings

-- ArgumentError: Under a policy domain := observed is allowed only if the policy declares
SELECT DP_TOPK(title, 2, epsilon := 1, domain := OBSERVED) FROM ratings

-- ArgumentError: Under a policy privacy_unit is not an argument: the policy names the
SELECT DP_TOPK(title, 2, epsilon := 1, privacy_unit := title) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, privacy_unit := score) FROM ratings

-- NotSupported: DP_TOPK belongs to no schema; write it without one.
SELECT main.DP_TOPK(title, 2, epsilon := 1) FROM ratings
SELECT system.main."DP_TOPK"(title, 2, epsilon := 1) FROM ratings
SELECT title.DP_TOPK(2, epsilon := 1) FROM ratings

-- CatalogException: Catalog Error: Scalar Function with name __dp_sql_topk does not
SELECT __dp_sql_topk('once-1', 1, 1, [1, 2])

-- CatalogException: Catalog Error: Scalar Function with name __dp_sql_count_distinct
SELECT __dp_sql_count_distinct('once-1', 1, 1, [[1]])

-- CatalogException: Catalog Error: Scalar Function with name __dp_sql_rewrite does n
SELECT __dp_sql_rewrite('SELECT 1', 'main', 'shop')

-- CatalogException: Catalog Error: Scalar Function with name __dp_sql_desk does not
SELECT __dp_sql_desk()

-- SourceError: There is no table __dp_rows.
FROM __dp_rows

-- NotSupported: This session answers DP functions itself: it needs no dp(…)
FROM dp($$ SELECT 1 $$)
FROM dp('FROM ratings')

-- NotPrivate: This source is public: it contains no private rows.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT title, title AS user_id FROM catalog)

-- NotPrivate: There is no table secret.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT title AS user_id, user_id AS title FROM secret)

-- NotPrivate: title is not a column of the source.
SELECT DP_TOPK(user_id, 1, epsilon := 1, domain := catalog.title) FROM (SELECT title AS user_id, user_id AS who FROM ratings) WHERE title = 'b0'

-- NotPrivate: Two private tables must be joined on their privacy units, so that no row
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings r, ratings s

-- NotPrivate: Two tables in FROM are called r.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings r JOIN catalog r USING (title)

-- NotPrivate: A subquery is not supported here
WITH catalog AS (SELECT score, title FROM ratings) SELECT DP_COUNT(*, epsilon := 1) FROM ratings WHERE score > (SELECT max(score) FROM catalog)
SELECT DP_COUNT(*, epsilon := 1) FROM ratings WHERE score > (WITH catalog AS (SELECT score FROM ratings) SELECT max(score) FROM catalog)
SELECT DP_COUNT(*, epsilon := 1) FROM ratings WHERE score > (SELECT max(score) FROM catalog)
SELECT DP_COUNT(*, epsilon := 1) FROM ratings WHERE score > (SELECT count(*) FROM catalog LEFT JOIN ratings USING (title))
SELECT DP_COUNT(*, epsilon := 1) FROM ratings r WHERE score > (SELECT count(*) FROM catalog c WHERE c.title = r.title)

-- ArgumentError|NotPrivate
WITH catalog AS (SELECT region AS title FROM ratings) SELECT DP_TOPK(title, 1, epsilon := 1, domain := (SELECT title FROM catalog)) FROM ratings
SELECT DP_TOPK(title, 1, epsilon := 1, domain := (WITH catalog AS (SELECT region AS title FROM ratings) SELECT title FROM catalog)) FROM ratings
