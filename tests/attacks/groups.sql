-- Groups, their bounds, and what would stand beside them.

-- ArgumentError: DP_TOPK needs max_groups_contributed := <number> (in how many groups one person
SELECT region, DP_TOPK(title, 2, epsilon := 1) FROM ratings GROUP BY region

-- ArgumentError: Each user_id is one person
SELECT user_id, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM ratings GROUP BY user_id

-- ArgumentError: DP_TOPK needs groups (the public set of groups; the policy declares none for
SELECT day, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM ratings GROUP BY day
SELECT score, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM ratings GROUP BY score
SELECT score + 1, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM ratings GROUP BY score + 1

-- NotPrivate|ArgumentError
SELECT region || title, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM ratings GROUP BY region || title

-- NotPrivate
SELECT CASE WHEN user_id > 900000000 THEN error('x') END, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM ratings GROUP BY CASE WHEN user_id > 900000000 THEN error('x') END

-- NotSupported: GROUP BY of a SELECT with a DP call takes columns.
SELECT 1, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM ratings GROUP BY 1
SELECT 99, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM ratings GROUP BY 99
SELECT 0, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM ratings GROUP BY 0
SELECT -1, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM ratings GROUP BY -1

-- ParseError: Syntax error at
SELECT ALL, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM ratings GROUP BY ALL

-- ArgumentError: Each user_id is one person
SELECT DP_TOPK(user_id, 2, epsilon := 1) FROM ratings

-- NotSupported: groups and max_groups_contributed need a GROUP BY clause.
SELECT (), DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM ratings GROUP BY ()

-- NotSupported: ROLLUP is not supported with a DP call: one person is in a group
SELECT ROLLUP (region), DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM ratings GROUP BY ROLLUP (region)

-- NotSupported: CUBE is not supported with a DP call: one person is in a group
SELECT CUBE (region, title), DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM ratings GROUP BY CUBE (region, title)

-- NotSupported|ParseError
SELECT GROUPING SETS ((region), ()), DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM ratings GROUP BY GROUPING SETS ((region), ())

-- ArgumentError: DP_TOPK needs groups (the public set of groups; the policy declares none for
SELECT (score), DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM ratings GROUP BY (score)

-- NotSupported: HAVING beside a DP call is a condition on its answers
SELECT region, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM ratings GROUP BY region HAVING count(*) > 3

-- SourceError
SELECT region, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM ratings GROUP BY region ORDER BY count(*)

-- NotSupported: title is neither a group nor a name in the SELECT list
SELECT region, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM ratings GROUP BY region QUALIFY row_number() OVER (ORDER BY title) = 1

-- NotSupported: QUALIFY filters by window functions
SELECT region, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM ratings GROUP BY region QUALIFY count(*) > 1

-- NotSupported: user_id would show rows of the source next to the private answer.
SELECT user_id, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM ratings GROUP BY region

-- NotSupported: max next to a DP call would be computed over the answer, not over the
SELECT max(title), DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM ratings GROUP BY region

-- NotSupported: * would show rows of the source next to the private answer.
SELECT *, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM ratings GROUP BY region

-- NotSupported: count next to a DP call would be computed over the answer, not over the
SELECT count(*), DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM ratings GROUP BY region

-- NotPrivate: ratings is private: it can be read only through DP functions.
SELECT region, (SELECT count(*) FROM ratings), DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM ratings GROUP BY region

-- NotSupported: r.user_id would show rows of the source next to the private answer.
SELECT r.user_id, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM ratings r GROUP BY region

-- ArgumentError: max_groups_contributed must be a whole number from 1 to 1000.
SELECT region, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 0) FROM ratings GROUP BY region
SELECT region, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := -1) FROM ratings GROUP BY region
SELECT region, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1.5) FROM ratings GROUP BY region

-- ArgumentError: max_groups_contributed must be a number written in the statement
SELECT region, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := nan) FROM ratings GROUP BY region
SELECT region, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := NULL) FROM ratings GROUP BY region
SELECT region, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := '1') FROM ratings GROUP BY region
SELECT region, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := (SELECT 1)) FROM ratings GROUP BY region
SELECT region, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := (SELECT count(*) FROM ratings)) FROM ratings GROUP BY region
SELECT region, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := score) FROM ratings GROUP BY region
SELECT region, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := ?) FROM ratings GROUP BY region

-- ArgumentError: max_groups_contributed must be a whole number from 1 to 1000.
SELECT region, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1e9) FROM ratings GROUP BY region
SELECT region, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1000000000) FROM ratings GROUP BY region

-- ArgumentError: max_groups_contributed must be a number written in the statement
SELECT region, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := true) FROM ratings GROUP BY region

-- ArgumentError: max_groups_contributed must be a whole number from 1 to 1000.
SELECT region, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1e400) FROM ratings GROUP BY region

-- ArgumentError: epsilon is more than the policy allows: at most 10.
SELECT region, DP_TOPK(title, 2, epsilon := 11, max_groups_contributed := 1) FROM ratings GROUP BY region

-- ArgumentError: max_groups_contributed is given twice.
SELECT region, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1, max_groups_contributed := 2) FROM ratings GROUP BY region

-- ArgumentError: Under a policy domain := observed is allowed only if the policy declares
SELECT region, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1, domain := observed) FROM ratings GROUP BY region

-- ArgumentError: DP_TOPK needs groups (the public set of groups; the policy declares none for
SELECT mood, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM ratings GROUP BY mood

-- ArgumentError: The group weight has type DOUBLE, whose equality is not exact
SELECT weight, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM ratings GROUP BY weight

-- ArgumentError: The group tags has type VARCHAR[], which is not supported
SELECT tags, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM ratings GROUP BY tags

-- ArgumentError: DP_TOPK needs groups (the public set of groups; the policy declares none for
SELECT price, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM ratings GROUP BY price

-- NotPrivate: There is no table secret.
SELECT region, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM secret GROUP BY region

-- NotPrivate: This source is public: it contains no private rows.
SELECT region, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM catalog GROUP BY region
SELECT genre, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM catalog GROUP BY genre

-- ArgumentError: DP_TOPK needs groups (the public set of groups; the policy declares none for
SELECT genre, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM ratings JOIN catalog USING (title) GROUP BY genre
SELECT genre, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM (SELECT user_id, ratings.title, genre FROM ratings LEFT JOIN catalog USING (title)) GROUP BY genre

-- NotPrivate: LIMIT is not supported in the source of a DP call, because one person's
SELECT region, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM (SELECT title, region FROM ratings LIMIT 3) GROUP BY region

-- NotPrivate: SELECT DISTINCT must list the privacy unit.
SELECT region, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM (SELECT DISTINCT region, title FROM ratings) GROUP BY region

-- ArgumentError: DP_TOPK needs groups (the public set of groups; the policy declares none for
SELECT region, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM (SELECT user_id, title, score % 3 AS region FROM ratings) GROUP BY region

-- ArgumentError: DP_TOPK needs a domain (the public set of items that the answer may
SELECT n, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM (SELECT user_id, max(title) AS title, count(*) AS n FROM ratings GROUP BY user_id) GROUP BY n

-- ArgumentError: DP_COUNT_DISTINCT needs max_groups_contributed := <number>
SELECT region, DP_COUNT_DISTINCT(title, epsilon := 1) FROM ratings GROUP BY region

-- ArgumentError: Each user_id is one person
SELECT user_id, DP_COUNT_DISTINCT(title, epsilon := 1, max_groups_contributed := 1) FROM ratings GROUP BY user_id
SELECT region, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM ratings GROUP BY region, user_id

-- NotSupported: groups and max_groups_contributed need a GROUP BY clause.
SELECT DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM ratings

-- ArgumentError: Each user_id is one person
SELECT user_id AS region, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1) FROM ratings GROUP BY ALL

-- ArgumentError: Under a policy groups := observed is allowed only if the policy declares
SELECT region, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 1, groups := observed) FROM ratings GROUP BY region

-- ArgumentError: The policy allows no delta
SELECT day, DP_TOPK(title, 2, epsilon := 1, delta := 1e-9, max_groups_contributed := 1) FROM ratings GROUP BY day
