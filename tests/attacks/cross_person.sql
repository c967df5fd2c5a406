-- Rows and answers that would depend on several people at once.

-- NotPrivate: This subquery compares no column with the outer query.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE EXISTS (SELECT 1 FROM ratings x WHERE x.user_id > 900000000)

-- NotPrivate|ParseError
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE NOT EXISTS (FROM ratings x WHERE x.user_id > 900000000)

-- NotPrivate: IN (SELECT …) must read public tables only, or compare privacy units.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title IN (SELECT title FROM ratings WHERE user_id > 900000000)
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title NOT IN (SELECT title FROM recent)

-- NotPrivate: A subquery is not supported here: dp_sql cannot prove that
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score > (SELECT avg(score) FROM ratings)

-- NotPrivate
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score = ANY (SELECT score FROM ratings)

-- NotPrivate: A subquery is not supported here: dp_sql cannot prove that
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score >= ALL (SELECT score FROM ratings)
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score > (SELECT count(*) FROM ratings x WHERE x.user_id = ratings.user_id)

-- NotPrivate: ratings.region is not a column of the source.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title IN (SELECT title FROM catalog WHERE genre = ratings.region)

-- NotPrivate: IN (SELECT …) must read public tables only, or compare privacy units.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title IN (SELECT c.title FROM catalog c JOIN ratings r USING (title))

-- NotPrivate: IN (SELECT …) must select one column, from public tables only.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title IN (FROM catalog)

-- NotPrivate: The function max is not supported here: it reads other rows.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title IN (SELECT max(title) FROM catalog)

-- NotPrivate: LIMIT without ORDER BY may keep other rows each time.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title IN (SELECT title FROM catalog LIMIT 1)

-- NotPrivate: Both sides of UNION must have the same columns and types: only one of them lists the privacy unit.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title IN (SELECT title FROM catalog UNION SELECT title FROM ratings)

-- NotPrivate: A subquery is not supported here: dp_sql cannot prove that
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title = (SELECT title FROM catalog LIMIT 1)

-- NotPrivate: LIMIT is not supported in the source of a DP call, because one person's
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT * FROM ratings LIMIT 5)
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT * FROM ratings ORDER BY score LIMIT 5)

-- NotPrivate: OFFSET is not supported in the source of a DP call, because one person's
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT * FROM ratings OFFSET 1)

-- NotPrivate: LIMIT is not supported in the source of a DP call, because one person's
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT * FROM ratings LIMIT 10%)

-- NotPrivate: A sample is not supported in the source of a DP call, because one person's
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT * FROM ratings USING SAMPLE 10)
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT * FROM ratings USING SAMPLE 10% (bernoulli, 42))

-- NotPrivate: A window function in a source must have the privacy unit in PARTITION BY.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT * FROM ratings QUALIFY row_number() OVER (PARTITION BY title) = 1)

-- NotPrivate: No function uses the window w.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT * FROM ratings WINDOW w AS (PARTITION BY title))

-- NotPrivate: LIMIT is not supported in the source of a DP call, because one person's
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT * FROM ratings FETCH FIRST 5 ROWS ONLY)

-- NotPrivate: A sample is not supported in the source of a DP call, because one person's
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings TABLESAMPLE 10%
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings TABLESAMPLE reservoir(5)

-- NotSupported: A SELECT with DP_TOPK cannot have USING SAMPLE.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings USING SAMPLE 5

-- NotSupported: LIMIT next to a DP call does not limit the source.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings LIMIT 5

-- NotSupported: OFFSET next to a DP call does not limit the source.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings OFFSET 5

-- NotSupported: A SELECT with DP_TOPK cannot have QUALIFY without GROUP BY.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings QUALIFY true

-- NotSupported: A SELECT with DP_TOPK cannot have HAVING without GROUP BY.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings HAVING count(*) > 5

-- NotSupported: A SELECT with DP_TOPK cannot have WINDOW without GROUP BY.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WINDOW w AS ()

-- NotPrivate: SELECT DISTINCT must list the privacy unit
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT DISTINCT title, 1 AS user_id FROM ratings)

-- NotPrivate: DISTINCT ON in a source must list the privacy unit.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT DISTINCT ON (title) * FROM ratings)
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT DISTINCT ON (title) user_id, title FROM ratings ORDER BY score)

-- NotPrivate: SELECT DISTINCT must list the privacy unit.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT DISTINCT title FROM ratings)

-- NotPrivate: A window function in a source must have the privacy unit in PARTITION BY.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT user_id, max(title) OVER () AS title FROM ratings)
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT user_id, lag(title) OVER (ORDER BY score) AS title FROM ratings)
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT user_id, row_number() OVER () AS title FROM ratings)

-- NotPrivate: GROUP BY in a source must list the privacy unit.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT title, max(user_id) AS user_id FROM ratings GROUP BY title)
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT title, count(*) AS n FROM ratings GROUP BY title)

-- NotPrivate: The function max is not supported here: it reads other rows.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT max(user_id) AS user_id, max(title) AS title FROM ratings)

-- NotPrivate: GROUP BY in a source must list the privacy unit.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT title FROM ratings GROUP BY ALL)

-- NotPrivate: ROLLUP is not supported
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT user_id, title FROM ratings GROUP BY ROLLUP (user_id, title))

-- NotPrivate: CUBE is not supported
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT user_id, title FROM ratings GROUP BY CUBE (user_id, title))

-- NotPrivate: GROUPING SETS is not supported
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT user_id, title FROM ratings GROUP BY GROUPING SETS ((user_id, title), ()))

-- NotPrivate: A source may only use count, min, max, arg_min, arg_max, any_value, mode, bool_or, bool_and, and sum, avg, median, quantile_cont and quantile_disc of integers up to 64 bits and of decimals up to 18 digits.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT user_id, first(title) AS title FROM ratings GROUP BY user_id)
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT user_id, string_agg(title) AS title FROM ratings GROUP BY user_id)

-- ArgumentError: DP_TOPK needs a domain
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT user_id, max(title) FILTER (WHERE score > 3) AS title FROM ratings GROUP BY user_id)

-- ArgumentError: DP_TOPK needs a domain (the public set of items that the answer may
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT user_id, sum(score) AS title FROM ratings GROUP BY user_id)

-- ArgumentError: The item title has type DOUBLE
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT user_id, avg(score) AS title FROM ratings GROUP BY user_id)

-- NotPrivate: title must be in GROUP BY or in an aggregate.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT user_id, title FROM ratings GROUP BY user_id)

-- NotPrivate
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT user_id, min(title, 2) AS title FROM ratings GROUP BY user_id)

-- ArgumentError: DP_TOPK needs a domain (the public set of items that the answer may contain
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT user_id, upper(max(title)) || 'x' AS title FROM ratings GROUP BY user_id)

-- NotPrivate: GROUP BY in a source must list the privacy unit.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT coalesce(user_id, 7) AS user_id, max(title) AS title FROM ratings GROUP BY coalesce(user_id, 7))

-- NotPrivate: A subquery is not supported here: dp_sql cannot prove that
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT user_id, max(title) AS title FROM ratings GROUP BY user_id HAVING max(score) > (SELECT avg(score) FROM ratings))

-- NotPrivate: score must be in GROUP BY or in an aggregate.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT user_id, max(title) AS title FROM ratings GROUP BY user_id HAVING score > 1)
SELECT DP_COUNT_DISTINCT(n, epsilon := 1) FROM (SELECT user_id, count(*) > score AS n FROM ratings GROUP BY user_id)

-- NotPrivate: Two private tables must be joined on their privacy units, so that no row
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings a JOIN ratings b ON a.title = b.title
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings a JOIN ratings b ON a.user_id = b.score
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings a JOIN ratings b ON a.user_id <> b.user_id
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings a JOIN ratings b ON a.user_id < b.user_id
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings a JOIN ratings b ON a.user_id = b.user_id OR a.title = b.title
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings a JOIN ratings b USING (title)
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings a JOIN ratings b ON true
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings a CROSS JOIN ratings b
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings a, ratings b

-- NotPrivate: title is more than one column of the source.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings a, catalog c WHERE a.title = c.title

-- NotPrivate: Two private tables must be joined on their privacy units, so that no row
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings a, orders o WHERE a.score = o.user_id
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings a, orders o WHERE a.user_id = 1 AND o.user_id = 1
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings a, orders o WHERE a.user_id = o.user_id OR a.score = 1

-- NotPrivate: This kind of join is not supported in the source of a DP call, because one
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings POSITIONAL JOIN catalog

-- NotPrivate: ASOF JOIN is not supported in the source of a DP call.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings a ASOF JOIN ratings b ON a.user_id = b.user_id AND a.day >= b.day

-- NotPrivate: Two private tables must be joined on their privacy units, so that no row
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings r SEMI JOIN orders o ON r.score = o.user_id
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings r ANTI JOIN orders o ON r.score = o.user_id

-- NotPrivate: A source may only use inner, left, cross, semi and anti joins.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings a FULL JOIN orders USING (user_id)
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings a RIGHT JOIN orders USING (user_id)

-- NotPrivate: Put the private table first: this LEFT JOIN keeps rows that belong to no
SELECT DP_TOPK(title, 2, epsilon := 1) FROM catalog LEFT JOIN ratings USING (title)

-- NotPrivate: A source may only use inner, left, cross, semi and anti joins.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM catalog RIGHT JOIN ratings USING (title)

-- NotPrivate: LIMIT is not supported in the source of a DP call, because one person's
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings a JOIN (SELECT * FROM ratings LIMIT 1) b USING (user_id)

-- NotPrivate: GROUP BY in a source must list the privacy unit.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings a LEFT JOIN (SELECT title, count(*) AS n FROM ratings GROUP BY title) b USING (title)

-- NotPrivate: LATERAL is not supported in the source of a DP call.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings a, LATERAL (SELECT * FROM ratings b WHERE b.title = a.title) c
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings a JOIN LATERAL (SELECT 1) b ON true

-- NotPrivate: u.score is not a column of the source.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings a CROSS JOIN unnest([a.score, u.score]) u

-- NotPrivate: Two private tables must be joined on their privacy units, so that no row
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings JOIN order_items ON ratings.score = order_items.order_id
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings JOIN order_items ON ratings.user_id = order_items.order_id

-- NotPrivate: There is no table secret.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings JOIN secret ON user_id = x

-- NotPrivate: Two private tables must be joined on their privacy units, so that no row
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings JOIN recent ON ratings.title = recent.title
SELECT DP_TOPK(ratings.title, 2, epsilon := 1) FROM ratings LEFT JOIN recent ON ratings.title < recent.title
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings a JOIN ratings b ON upper(a.title) = upper(b.title)
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings a JOIN orders b ON coalesce(a.user_id, 1) = b.user_id

-- NotPrivate: UNION must list the privacy unit.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT title FROM ratings UNION SELECT title FROM ratings)

-- NotPrivate: EXCEPT ALL is not supported in a source.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT user_id, title FROM ratings EXCEPT ALL SELECT user_id, title FROM recent)

-- NotPrivate: INTERSECT ALL is not supported in a source.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT user_id, title FROM ratings INTERSECT ALL SELECT user_id, title FROM recent)

-- NotPrivate: BY NAME is not supported in the source of a DP call
SELECT DP_COUNT(*, epsilon := 1) FROM (SELECT user_id, title FROM ratings EXCEPT BY NAME SELECT title, user_id FROM recent)

-- NotPrivate: EXCEPT must list the privacy unit.
SELECT DP_COUNT(*, epsilon := 1) FROM (SELECT title FROM ratings EXCEPT SELECT title FROM ratings WHERE user_id = 7)

-- NotPrivate: INTERSECT must list the privacy unit.
SELECT DP_COUNT(*, epsilon := 1) FROM (SELECT title FROM ratings INTERSECT SELECT title FROM ratings WHERE user_id = 7)

-- NotPrivate: Both sides of EXCEPT must have the same columns and types
SELECT DP_COUNT(*, epsilon := 1) FROM (SELECT user_id, score FROM ratings EXCEPT SELECT 7, 7)

-- NotPrivate: Both sides of UNION must have the same columns and types
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT user_id, title FROM ratings UNION ALL SELECT 7, 'x')
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT user_id, title FROM ratings UNION ALL SELECT user_id, score FROM ratings)

-- NotPrivate: LIMIT is not supported in the source of a DP call, because one person's
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT user_id, title FROM ratings UNION ALL SELECT score, title FROM ratings LIMIT 3)

-- NotPrivate: Both sides of UNION must have the same columns and types
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT title, genre FROM catalog UNION ALL SELECT title, region FROM ratings)

-- NotPrivate: There is no table secret.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (FROM ratings UNION ALL FROM secret)

-- NotPrivate: In r: WITH RECURSIVE is not supported.
WITH RECURSIVE r AS (SELECT user_id, title FROM ratings UNION ALL SELECT r.user_id + 1, x.title FROM r JOIN ratings x USING (title)) SELECT DP_TOPK(title, 2, epsilon := 1) FROM r

-- NotPrivate: LIMIT is not supported in the source of a DP call, because one
WITH r AS (SELECT user_id, title FROM ratings LIMIT 3) SELECT DP_TOPK(title, 2, epsilon := 1) FROM r

-- NotPrivate: PIVOT is not supported in the source of a DP call.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (PIVOT ratings ON region USING max(title) GROUP BY user_id)

-- NotPrivate: UNPIVOT is not supported in the source of a DP call.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (UNPIVOT ratings ON title, region INTO NAME n VALUE title)

-- NotPrivate: PIVOT is not supported in the source of a DP call.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings PIVOT (max(title) FOR region IN ('north', 'south'))

-- NotPrivate: UNPIVOT is not supported in the source of a DP call.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings UNPIVOT (x FOR y IN (title, region))

-- NotPrivate: A source cannot use c.n: it cannot refer to the query around it.
SELECT (SELECT DP_TOPK(title, 1, epsilon := 1) FROM ratings WHERE score > c.n) FROM (SELECT 5 AS n) c

-- NotPrivate: A source cannot use c.title: it cannot refer to the query around it.
SELECT (SELECT DP_TOPK(title, 1, epsilon := 1) FROM ratings r WHERE r.title = c.title) FROM catalog c

-- NotSupported: DP_TOPK does not take OVER: a DP call is an aggregate of the who
SELECT DP_TOPK(title, 1, epsilon := 1) OVER (PARTITION BY user_id) FROM ratings

-- NotSupported: DP_TOPK does not take DISTINCT; each person counts once for each
SELECT DP_TOPK(DISTINCT title, 1, epsilon := 1) FROM ratings

-- NotSupported: DP_TOPK does not take ORDER BY; NULLs never count, and the order
SELECT DP_TOPK(title ORDER BY score, 1, epsilon := 1) FROM ratings

-- NotPrivate: A subquery is not supported here: dp_sql cannot prove that
SELECT DP_TOPK(title, 1, epsilon := 1) FILTER (WHERE score > (SELECT avg(score) FROM ratings)) FROM ratings
SELECT DP_SUM(score, epsilon := 1) FILTER (score >= (SELECT max(score) FROM ratings)) FROM ratings

-- NotPrivate: IN (SELECT …) must read public tables only, or compare privacy units.
SELECT DP_COUNT(*, epsilon := 1) FILTER (WHERE title IN (SELECT title FROM ratings WHERE user_id > 900000000)) FROM ratings
SELECT region, DP_COUNT(*, epsilon := 1) FILTER (WHERE title NOT IN (SELECT title FROM recent)) FROM ratings GROUP BY region

-- NotPrivate: This subquery compares no column with the outer query.
SELECT DP_COUNT(*, epsilon := 1) FILTER (WHERE EXISTS (SELECT 1 FROM ratings x WHERE x.user_id > 900000000)) FROM ratings

-- NotPrivate: The function count is not supported here: it reads other rows.
SELECT DP_COUNT(*, epsilon := 1) FILTER (WHERE count(*) > 3) FROM ratings

-- NotPrivate: A window function is not supported here: it reads other rows.
SELECT DP_MEDIAN(score, epsilon := 1, lower := 0, upper := 5) FILTER (WHERE count(*) OVER () > 3) FROM ratings

-- NotPrivate
SELECT DP_COUNT(*, epsilon := 1) FILTER (WHERE random() < 0.5) FROM ratings
SELECT DP_COUNT(*, epsilon := 1) FILTER (WHERE 1 / (score - 3) > 0 OR error('x') IS NULL) FROM ratings
SELECT DP_COUNT(*, epsilon := 1) FILTER (WHERE title::INTEGER > 3) FROM ratings
SELECT DP_COUNT(*, epsilon := 1) FILTER (WHERE nextval('s') > 3) FROM ratings
SELECT DP_COUNT(*, epsilon := 1) FILTER (WHERE user_id) FROM ratings

-- NotSupported: A DP call is not allowed inside the arguments of another DP call.
SELECT DP_COUNT(*, epsilon := 1) FILTER (WHERE DP_COUNT(*, epsilon := 1) > 3) FROM ratings
SELECT DP_COUNT(*, epsilon := 1) FILTER (WHERE (SELECT DP_COUNT(*, epsilon := 1) FROM ratings) > 3) FROM ratings

-- NotSupported: DP_COUNT takes one FILTER
SELECT DP_COUNT(*, epsilon := 1) FILTER (WHERE score > 3) FILTER (WHERE user_id > 900000000) FROM ratings

-- NotSupported: DP_COUNT does not take OVER
SELECT DP_COUNT(*, epsilon := 1) FILTER (WHERE score > 3) OVER (PARTITION BY user_id) FROM ratings

-- ParseError: Syntax error at
SELECT DP_COUNT(*, epsilon := 1) FILTER (WHERE score > 3 THEN 1 WHEN user_id > 900000000) FROM ratings
SELECT DP_COUNT(*, epsilon := 1) FILTER (WHERE score > 3 FROM ratings) FROM ratings
SELECT DP_COUNT(*, epsilon := 1) FILTER (WHERE score > 3 ORDER BY user_id) FROM ratings

-- ParseError: FILTER needs a condition.
SELECT DP_COUNT(*, epsilon := 1) FILTER () FROM ratings

-- ParseError: Syntax error at
SELECT DP_TOPK(title LIMIT 1, 1, epsilon := 1) FROM ratings
SELECT DP_TOPK(title WHERE user_id > 900000000, 1, epsilon := 1) FROM ratings
SELECT DP_TOPK(title FROM secret, 1, epsilon := 1) FROM ratings

-- ArgumentError: A domain list holds literals only
SELECT DP_TOPK(title, 1, epsilon := 1, domain := ['b0'] FROM secret WHERE x IN ['b1']) FROM ratings

-- NotSupported: A SELECT with a DP call cannot have DISTINCT ON.
SELECT DISTINCT ON (1) DP_TOPK(title, 1, epsilon := 1) FROM ratings

-- NotSupported: DP_COUNT_DISTINCT is not allowed in WHERE; it is an answer, not a
SELECT 1 FROM ratings WHERE DP_COUNT_DISTINCT(title, epsilon := 1) > 3

-- NotSupported: DP_COUNT_DISTINCT is not allowed in HAVING; it is an answer, not a
SELECT 1 FROM ratings HAVING DP_COUNT_DISTINCT(title, epsilon := 1) > 3

-- NotSupported: DP_COUNT_DISTINCT is not allowed in ORDER BY; it is an answer, not
SELECT 1 FROM ratings ORDER BY DP_COUNT_DISTINCT(title, epsilon := 1)

-- NotSupported: A DP call is not allowed inside the arguments of another DP call.
SELECT DP_TOPK(title, DP_COUNT_DISTINCT(title, epsilon := 1), epsilon := 1) FROM ratings

-- NotSupported: A DP call is not allowed in the source of another DP call.
SELECT DP_COUNT_DISTINCT(x, epsilon := 1) FROM (SELECT unnest(DP_TOPK(title, 2, epsilon := 1)) AS x FROM ratings)

-- NotSupported: A DP call is not allowed in the source of another DP call.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title IN (SELECT unnest(DP_TOPK(title, 2, epsilon := 1)) FROM ratings)

-- NotPrivate: A window function in a source must have the privacy unit in PARTITION BY.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (FROM ratings QUALIFY rank() OVER (PARTITION BY score ORDER BY user_id) = 1)
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT user_id, lag(title) OVER (PARTITION BY user_id % 2 ORDER BY score) AS title FROM ratings)
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT user_id, lag(title) OVER (PARTITION BY u ORDER BY score) AS title FROM (SELECT user_id, user_id // 10 AS u, title, score FROM ratings))
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT user_id, first_value(title) OVER (PARTITION BY score ORDER BY title ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS title FROM ratings)

-- NotPrivate: Frames are ROWS BETWEEN rows, up to 1000 away, of aggregates, first_value, last_value and nth_value.
SELECT DP_COUNT(n, epsilon := 1) FROM (SELECT user_id, sum(score) OVER (PARTITION BY user_id ORDER BY score RANGE BETWEEN 3 PRECEDING AND CURRENT ROW) AS n FROM ratings)

-- NotPrivate: The supported window functions are row_number, rank, dense_rank, percent_rank, cume_dist, ntile, lag, lead, first_value
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT user_id, string_agg(title) OVER (PARTITION BY user_id ORDER BY score) AS title FROM ratings)

-- NotPrivate: Window functions are not supported over public tables here.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings JOIN (SELECT title, row_number() OVER (PARTITION BY year ORDER BY title) AS n FROM catalog) USING (title)

-- NotPrivate: GROUP BY in a source must list the privacy unit.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT u, min(title) AS title FROM (SELECT title, lag(user_id) OVER (PARTITION BY user_id ORDER BY score) AS u FROM ratings) GROUP BY u)

-- NotPrivate: Two private tables must be joined on their privacy units, so that no row
SELECT DP_COUNT(*, epsilon := 1) FROM (SELECT lag(user_id) OVER (PARTITION BY user_id ORDER BY score) AS u FROM ratings) AS a JOIN ratings AS b ON a.u = b.user_id

-- NotPrivate: A window function beside GROUP BY is not supported in a source.
SELECT DP_COUNT(*, epsilon := 1) FROM (SELECT user_id, title, rank() OVER (ORDER BY count(*)) AS r FROM ratings GROUP BY user_id, title) WHERE r = 1

-- NotPrivate: Two private tables must be joined on their privacy units, so that no row
SELECT DP_COUNT(*, epsilon := 1) FROM (SELECT * REPLACE (score AS user_id) FROM ratings) AS z JOIN orders USING (user_id)
SELECT DP_COUNT(*, epsilon := 1) FROM (SELECT * RENAME (user_id AS w, score AS user_id) FROM ratings) AS z JOIN orders USING (user_id)
SELECT DP_COUNT(*, epsilon := 1) FROM (SELECT o.user_id, r.title FROM ratings AS r LEFT JOIN orders AS o ON o.user_id = r.user_id AND r.score > 3) AS z JOIN orders USING (user_id)
SELECT DP_COUNT(*, epsilon := 1) FROM (SELECT user_id, score FROM ratings UNION ALL SELECT score, user_id FROM ratings) AS z JOIN orders USING (user_id)
SELECT DP_COUNT(*, epsilon := 1) FROM (SELECT greatest(user_id, score) AS user_id FROM ratings) AS z JOIN orders USING (user_id)
SELECT DP_COUNT(*, epsilon := 1) FROM (SELECT unnest([user_id, score]) AS e FROM ratings) AS z JOIN orders AS o ON z.e = o.user_id
SELECT DP_COUNT(*, epsilon := 1) FROM (SELECT max(user_id) AS user_id, title FROM ratings GROUP BY user_id, title) AS z JOIN orders USING (user_id)
SELECT DP_COUNT(*, epsilon := 1) FROM (SELECT first_value(user_id) OVER (PARTITION BY user_id ORDER BY score) AS w FROM ratings) AS z JOIN orders AS o ON z.w = o.user_id

-- NotPrivate: EXCEPT must list the privacy unit.
SELECT DP_COUNT(*, epsilon := 1) FROM (SELECT user_id FROM ratings EXCEPT SELECT score FROM ratings)

-- NotPrivate: INTERSECT must list the privacy unit.
SELECT DP_COUNT(*, epsilon := 1) FROM (SELECT user_id FROM ratings INTERSECT SELECT score FROM ratings)

-- NotPrivate: This subquery compares no column with the outer query.
SELECT DP_COUNT(*, epsilon := 1) FROM ratings AS r WHERE EXISTS (SELECT 1 FROM orders AS o WHERE o.user_id = r.user_id OR o.order_id = r.score)
SELECT DP_COUNT(*, epsilon := 1) FROM ratings AS r WHERE EXISTS (SELECT 1 FROM orders AS o WHERE o.user_id >= r.user_id AND o.user_id <= r.user_id)
SELECT DP_COUNT(*, epsilon := 1) FROM ratings AS r SEMI JOIN orders AS o ON o.user_id IS NOT DISTINCT FROM r.user_id

-- NotPrivate: IN (SELECT …) must read public tables only, or compare privacy units.
SELECT DP_COUNT(*, epsilon := 1) FROM ratings WHERE user_id NOT IN (SELECT NULL FROM orders)
