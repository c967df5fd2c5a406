-- What is refused, by whom, with which words, and where the caret stands.
-- Each case: the error's class and the beginning of its message, the text under the caret, a blank
-- line at the end. ratings and catalog are those of conftest.py.

-- ArgumentError: DP_TOPK needs epsilon
-- ^ DP_TOPK
SELECT DP_TOPK(title, 3, privacy_unit := user_id, domain := catalog.title) FROM ratings

-- ArgumentError: DP_TOPK needs privacy_unit
-- ^ DP_TOPK
SELECT DP_TOPK(title, 3, epsilon := 1, domain := catalog.title) FROM ratings

-- ArgumentError: DP_TOPK needs a domain
-- ^ DP_TOPK
SELECT DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id) FROM ratings

-- ArgumentError: DP_COUNT_DISTINCT needs epsilon
-- ^ dp_count_distinct
SELECT dp_count_distinct(title, privacy_unit := user_id) FROM ratings

-- ArgumentError: Inside a call, epsilon = … is a comparison
-- ^ = 1
SELECT DP_TOPK(title, 3, epsilon = 1, privacy_unit := user_id, domain := observed) FROM ratings

-- ArgumentError: DP_TOPK has no argument epsilom. Did you mean epsilon?
-- ^ epsilom
SELECT DP_TOPK(title, 3, epsilom := 1, privacy_unit := user_id, domain := observed) FROM ratings

-- ArgumentError: DP_TOPK has no argument report
-- ^ report
SELECT DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id, report := true) FROM ratings

-- ArgumentError: epsilon is given twice
-- ^ epsilon => 2
SELECT DP_TOPK(title, 3, epsilon := 1, epsilon => 2, privacy_unit := user_id) FROM ratings

-- ArgumentError: epsilon has no value
-- ^ epsilon :=
SELECT DP_TOPK(title, 3, privacy_unit := user_id, epsilon :=) FROM ratings

-- ArgumentError: An argument is missing here
-- ^ ,
SELECT DP_TOPK(title, , epsilon := 1) FROM ratings

-- ArgumentError: DP_TOPK needs the positional argument k
-- ^ DP_TOPK
SELECT DP_TOPK(title, epsilon := 1, privacy_unit := user_id, domain := observed) FROM ratings

-- ArgumentError: DP_TOPK needs groups (the public set of groups; delta finds items here, not groups)
-- ^ DP_TOPK
SELECT region, DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id, delta := 1e-9) FROM ratings GROUP BY region

-- ArgumentError: Positional arguments come before named ones
-- ^ 3)
SELECT DP_TOPK(title, epsilon := 1, privacy_unit := user_id, 3) FROM ratings

-- NotPrivate: This expression has an aggregate: it looks at other rows
-- ^ max(title)
SELECT DP_TOPK(max(title), 3, epsilon := 1, privacy_unit := user_id, domain := observed) FROM ratings

-- ArgumentError: privacy_unit must be a column
-- ^ user_id || 1
SELECT DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id || 1, domain := observed) FROM ratings

-- ArgumentError: epsilon must be a number from
-- ^ 0,
SELECT DP_TOPK(title, 3, epsilon := 0, privacy_unit := user_id, domain := observed) FROM ratings

-- ArgumentError: epsilon must be a number from
-- ^ -1
SELECT DP_TOPK(title, 3, epsilon := -1, privacy_unit := user_id, domain := observed) FROM ratings

-- ArgumentError: epsilon must be a number from
-- ^ 1e-400
SELECT DP_TOPK(title, 3, epsilon := 1e-400, privacy_unit := user_id, domain := observed) FROM ratings

-- ArgumentError: epsilon must be a number from
-- ^ 1e-999999999
SELECT DP_TOPK(title, 3, epsilon := 1e-999999999, privacy_unit := user_id, domain := observed) FROM ratings

-- ArgumentError: epsilon must be a number from
-- ^ 1000000000
SELECT DP_TOPK(title, 3, epsilon := 1000000000, privacy_unit := user_id, domain := observed) FROM ratings

-- ArgumentError: epsilon must be a number from
-- ^ 1e999999999
SELECT DP_TOPK(title, 3, epsilon := 1e999999999, privacy_unit := user_id, domain := observed) FROM ratings

-- ArgumentError: epsilon must be a number written in the statement
-- ^ nan
SELECT DP_TOPK(title, 3, epsilon := nan, privacy_unit := user_id, domain := observed) FROM ratings

-- ArgumentError: epsilon must be a number written in the statement
-- ^ 'NaN'
SELECT DP_TOPK(title, 3, epsilon := 'NaN'::DOUBLE, privacy_unit := user_id, domain := observed) FROM ratings

-- ArgumentError: epsilon must be a number written in the statement
-- ^ NULL
SELECT DP_TOPK(title, 3, epsilon := NULL, privacy_unit := user_id, domain := observed) FROM ratings

-- ArgumentError: epsilon must be a number written in the statement
-- ^ ?
SELECT DP_TOPK(title, 3, epsilon := ?, privacy_unit := user_id, domain := observed) FROM ratings

-- ArgumentError: epsilon must be a number written in the statement
-- ^ CASE
SELECT DP_TOPK(title, 3, epsilon := CASE WHEN true THEN 0.1 ELSE 10 END, privacy_unit := user_id, domain := observed) FROM ratings

-- ArgumentError: k must be a number written in the statement
-- ^ (SELECT
SELECT DP_TOPK(title, (SELECT count(*) FROM ratings), epsilon := 1, privacy_unit := user_id, domain := observed) FROM ratings

-- ArgumentError: k must be a number written in the statement
-- ^ year
SELECT DP_TOPK(title, year, epsilon := 1, privacy_unit := user_id, domain := observed) FROM ratings

-- ArgumentError: k must be a whole number from 1
-- ^ 0,
SELECT DP_TOPK(title, 0, epsilon := 1, privacy_unit := user_id, domain := observed) FROM ratings

-- ArgumentError: k must be a whole number from 1
-- ^ -3
SELECT DP_TOPK(title, -3, epsilon := 1, privacy_unit := user_id, domain := observed) FROM ratings

-- ArgumentError: k must be a whole number from 1
-- ^ 2.5
SELECT DP_TOPK(title, 2.5, epsilon := 1, privacy_unit := user_id, domain := observed) FROM ratings

-- ArgumentError: k must be a whole number from 1
-- ^ 1000000000
SELECT DP_TOPK(title, 1000000000, epsilon := 1, privacy_unit := user_id, domain := observed) FROM ratings

-- ArgumentError: k = 6 is more than the 5 items of the domain
-- ^ 6
SELECT DP_TOPK(title, 6, epsilon := 1, privacy_unit := user_id, domain := catalog.title) FROM ratings

-- ArgumentError: k = 4 is more than the 3 items of the domain
-- ^ 4
SELECT DP_TOPK(kind, 4, epsilon := 1, privacy_unit := user_id, domain := kind) FROM ratings

-- ArgumentError: k = 3 is more than the 2 items of the domain
-- ^ 3
SELECT DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id, domain := ['a', 'b', 'a']) FROM ratings

-- ArgumentError: beta (one minus the confidence) must lie between 1e-12 and 0.5
-- ^ 0.5
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, privacy_unit := user_id, beta := 0.5) FROM ratings

-- ArgumentError: beta (one minus the confidence) must lie between 1e-12 and 0.5
-- ^ 0)
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, privacy_unit := user_id, beta := 0) FROM ratings

-- ArgumentError: sample_items (the part of the items that is counted) must be at least 1e-9, and at most 1
-- ^ 100)
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, privacy_unit := user_id, sample_items := 100) FROM ratings

-- ArgumentError: sample_items (the part of the items that is counted) must be at least 1e-9, and at most 1
-- ^ 1e-10)
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, privacy_unit := user_id, sample_items := 1e-10) FROM ratings

-- ArgumentError: sample_items is about items, and here the items are people
-- ^ 0.5)
SELECT DP_COUNT_DISTINCT(user_id, epsilon := 1, privacy_unit := user_id, sample_items := 0.5) FROM ratings

-- ArgumentError: max_contributions is about items, and here the items are people
-- ^ 5)
SELECT DP_COUNT_DISTINCT(user_id, epsilon := 1, privacy_unit := user_id, max_contributions := 5) FROM ratings

-- ArgumentError: contribution_bound is about items, and here the items are people
-- ^ 2)
SELECT DP_COUNT_DISTINCT(user_id, epsilon := 1, privacy_unit := user_id, contribution_bound := 2) FROM ratings

-- ArgumentError: bound_selection is about items, and here the items are people
-- ^ 'gem'
SELECT DP_COUNT_DISTINCT(user_id, epsilon := 1, privacy_unit := user_id, bound_selection := 'gem') FROM ratings

-- ArgumentError: DP_COUNT has no argument sample_items
-- ^ sample_items
SELECT DP_COUNT(title, epsilon := 1, privacy_unit := user_id, sample_items := 0.5) FROM ratings

-- ArgumentError: max_contributions must be a whole number from 1
-- ^ 0)
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, privacy_unit := user_id, max_contributions := 0) FROM ratings

-- ArgumentError: report must be true or false
-- ^ 1)
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, privacy_unit := user_id, report := 1) FROM ratings

-- ArgumentError: mechanism must be one of: joint
-- ^ 'best'
SELECT DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id, domain := observed, mechanism := 'best') FROM ratings

-- ArgumentError: title is the private column itself
-- ^ title)
SELECT DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id, domain := title) FROM ratings

-- ArgumentError: r.title is the private column itself
-- ^ r.title)
SELECT DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id, domain := r.title) FROM ratings AS r

-- ArgumentError: ratings.region is a column of the private source itself
-- ^ ratings.region
SELECT DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id, domain := ratings.region) FROM ratings

-- ArgumentError: The domain nowhere.title cannot be read
-- ^ nowhere.title
SELECT DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id, domain := nowhere.title) FROM ratings

-- ArgumentError: domain := everything names neither an ENUM type nor a list
-- ^ everything
SELECT DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id, domain := everything) FROM ratings

-- NotPrivate: This query reads people's rows; groups and domains are public
-- ^ (SELECT
SELECT DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id, domain := (SELECT title FROM ratings)) FROM ratings

-- ArgumentError: A domain list holds literals only
-- ^ ['a'
SELECT DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id, domain := ['a', (SELECT max(title) FROM ratings)]) FROM ratings

-- ArgumentError: year has type BIGINT, and its domain, a list in the statement, holds strings
-- ^ ['x']
SELECT DP_TOPK(year, 1, epsilon := 1, privacy_unit := user_id, domain := ['x']) FROM ratings

-- ArgumentError: year has type BIGINT, and its domain, a list in the statement, holds strings
-- ^ ['2001'
SELECT DP_TOPK(year, 1, epsilon := 1, privacy_unit := user_id, domain := ['2001']) FROM ratings

-- ArgumentError: The domain of year, a list in the statement, holds 2001.5, which is not a value of type BIGINT
-- ^ [2001
SELECT DP_TOPK(year, 1, epsilon := 1, privacy_unit := user_id, domain := [2001, 2001.5]) FROM ratings

-- ArgumentError: A domain list holds literals only: strings, plain numbers, TRUE and FALSE, dates and timestamps
-- ^ [2001
SELECT DP_TOPK(year, 1, epsilon := 1, privacy_unit := user_id, domain := [2001, 2002e0]) FROM ratings

-- ArgumentError: The domain of year, a list in the statement, holds 9223372036854775808, which is not a value of
-- ^ [1
SELECT DP_TOPK(year, 1, epsilon := 1, privacy_unit := user_id, domain := [1, 9223372036854775808]) FROM ratings

-- ArgumentError: year has type BIGINT, and its domain, a list in the statement, holds values of type BOOLEAN
-- ^ [true]
SELECT DP_TOPK(year, 1, epsilon := 1, privacy_unit := user_id, domain := [true]) FROM ratings

-- ArgumentError: year has type BIGINT, and its domain, the column catalog.title, holds values of type VARCHAR
-- ^ catalog
SELECT DP_TOPK(year, 1, epsilon := 1, privacy_unit := user_id, domain := catalog.title) FROM ratings

-- ArgumentError: year has type BIGINT, and its domain, the declared values of the ENUM genre, holds values of type VARCHAR
-- ^ genre
SELECT DP_TOPK(year, 1, epsilon := 1, privacy_unit := user_id, domain := genre) FROM ratings

-- ArgumentError: title has type VARCHAR, and its domain, a list in the statement, holds values of type INTEGER
-- ^ [1, 2]
SELECT DP_TOPK(title, 1, epsilon := 1, privacy_unit := user_id, domain := [1, 2]) FROM ratings

-- ArgumentError: title has type VARCHAR, and its domain, a list in the statement, holds values of type DATE
-- ^ [DATE
SELECT DP_TOPK(title, 1, epsilon := 1, privacy_unit := user_id, domain := [DATE '2024-01-31']) FROM ratings

-- ArgumentError: The domain of kind, a list in the statement, holds Novel, which is not a value of type ENUM
-- ^ ['novel'
SELECT DP_TOPK(kind, 1, epsilon := 1, privacy_unit := user_id, domain := ['novel', 'Novel']) FROM ratings

-- ArgumentError: The domain [1, 'a'] cannot be read as BIGINT
-- ^ [1, 'a']
SELECT DP_TOPK(year, 1, epsilon := 1, privacy_unit := user_id, domain := [1, 'a']) FROM ratings

-- ArgumentError: year has type BIGINT, and its groups, a list in the statement, hold strings
-- ^ ['x']
SELECT year, DP_TOPK(title, 1, epsilon := 1, privacy_unit := user_id, domain := catalog.title, groups := ['x'], max_groups_contributed := 1) FROM ratings GROUP BY year

-- ArgumentError: region has type VARCHAR, and its groups, a list in the statement, hold values of type INTEGER
-- ^ [1]
SELECT region, DP_COUNT_DISTINCT(title, epsilon := 1, privacy_unit := user_id, groups := [1], max_groups_contributed := 1) FROM ratings GROUP BY region

-- ArgumentError: The item score has type DOUBLE, whose equality is not exact
-- ^ score
SELECT DP_TOPK(score, 1, epsilon := 1, privacy_unit := user_id, domain := observed) FROM ratings

-- ArgumentError: The privacy unit score has type DOUBLE
-- ^ score
SELECT DP_TOPK(title, 1, epsilon := 1, privacy_unit := score, domain := observed) FROM ratings

-- NotPrivate: nothing is not a column of the source
-- ^ nothing
SELECT DP_TOPK(nothing, 1, epsilon := 1, privacy_unit := user_id, domain := observed) FROM ratings

-- NotPrivate: whose is not a column of the source
-- ^ whose
SELECT DP_TOPK(title, 1, epsilon := 1, privacy_unit := whose, domain := observed) FROM ratings

-- SourceError: Table with name nowhere does not exist
-- ^ nowhere
SELECT DP_TOPK(title, 1, epsilon := 1, privacy_unit := user_id, domain := observed) FROM nowhere

-- NotSupported: DP_TOPK is not allowed in WHERE
-- ^ DP_TOPK
SELECT title FROM ratings WHERE DP_TOPK(title, 3, epsilon := 1) = ['Dune']

-- NotSupported: DP_COUNT_DISTINCT is not allowed in HAVING
-- ^ DP_COUNT_DISTINCT
SELECT title FROM ratings HAVING DP_COUNT_DISTINCT(title, epsilon := 1) > 3

-- NotSupported: DP_COUNT is not allowed in HAVING
-- ^ DP_COUNT
FROM ratings GROUP BY title HAVING DP_COUNT(*, epsilon := 1, privacy_unit := user_id, groups := observed) > 3

-- NotSupported: DP_COUNT_DISTINCT is not allowed in GROUP BY
-- ^ DP_COUNT_DISTINCT
SELECT count(*) FROM ratings GROUP BY DP_COUNT_DISTINCT(title, epsilon := 1)

-- NotSupported: DP_COUNT_DISTINCT is not allowed in ORDER BY
-- ^ DP_COUNT_DISTINCT
SELECT title FROM ratings ORDER BY DP_COUNT_DISTINCT(title, epsilon := 1)

-- NotSupported: DP_TOPK is not allowed in FROM
-- ^ DP_TOPK
FROM DP_TOPK(title, 3, epsilon := 1)

-- NotSupported: A DP call is not allowed inside the arguments of another DP call
-- ^ DP_COUNT_DISTINCT
SELECT DP_TOPK(title, DP_COUNT_DISTINCT(title, epsilon := 1), epsilon := 1) FROM ratings

-- NotSupported: DP_COUNT_DISTINCT does not take DISTINCT
-- ^ DISTINCT title
SELECT DP_COUNT_DISTINCT(DISTINCT title, epsilon := 1, privacy_unit := user_id) FROM ratings

-- NotSupported: DP_COUNT does not take DISTINCT; DP_COUNT_DISTINCT counts different values
-- ^ DISTINCT title
SELECT DP_COUNT(DISTINCT title, epsilon := 1, privacy_unit := user_id) FROM ratings

-- ParseError: The condition of FILTER must be in brackets.
-- ^ FILTER
SELECT DP_COUNT(*, epsilon := 1, privacy_unit := user_id) FILTER WHERE year > 2001 AS n FROM ratings

-- NotSupported: DP_SELECT does not take FILTER; write the condition in the WHERE clause of the same SELECT
-- ^ FILTER
SELECT DP_SELECT(model, accuracy, sensitivity, epsilon := 1) FILTER (WHERE year > 2001) FROM scores

-- NotSupported: DP_COUNT_DISTINCT does not take OVER
-- ^ OVER
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, privacy_unit := user_id) OVER (PARTITION BY year) FROM ratings

-- NotSupported: DP_TOPK does not take ORDER BY
-- ^ ORDER BY
SELECT DP_TOPK(title ORDER BY year, 3, epsilon := 1, privacy_unit := user_id) FROM ratings

-- NotSupported: DP_TOPK belongs to no schema
-- ^ DP_TOPK
SELECT main.DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id, domain := observed) FROM ratings

-- ArgumentError: DP_TOPK needs groups (the public set of groups) and max_groups_contributed
-- ^ DP_TOPK
SELECT title, DP_TOPK(title, 1, epsilon := 1, privacy_unit := user_id, domain := catalog.title) FROM ratings GROUP BY title

-- ArgumentError: DP_COUNT_DISTINCT needs groups (the public set of groups)
-- ^ DP_COUNT
SELECT title, DP_COUNT_DISTINCT(year, epsilon := 1, privacy_unit := user_id, max_groups_contributed := 2) FROM ratings GROUP BY title

-- ArgumentError: title is the private column itself
-- ^ title, max
SELECT title, DP_COUNT_DISTINCT(year, epsilon := 1, privacy_unit := user_id, groups := title, max_groups_contributed := 2) FROM ratings GROUP BY title

-- ArgumentError: GROUP BY has 2 keys, but groups has a set for 1
-- ^ ['a']
SELECT title, DP_COUNT_DISTINCT(year, epsilon := 1, privacy_unit := user_id, groups := ['a'], max_groups_contributed := 2) FROM ratings GROUP BY title, year

-- ArgumentError: GROUP BY title means the column title, and not coalesce(title, 'none').
-- ^ title, year
SELECT coalesce(title, 'none') AS title, year, DP_COUNT(*, epsilon := 1, privacy_unit := user_id, groups := (['none'], [1])) FROM ratings GROUP BY title, year

-- ArgumentError: max_groups_contributed must be a whole number from 1 to 1000
-- ^ 0)
SELECT title, DP_COUNT_DISTINCT(year, epsilon := 1, privacy_unit := user_id, groups := ['a'], max_groups_contributed := 0) FROM ratings GROUP BY title

-- NotSupported: groups and max_groups_contributed need a GROUP BY clause
-- ^ DP_COUNT
SELECT DP_COUNT_DISTINCT(year, epsilon := 1, privacy_unit := user_id, max_groups_contributed := 1) FROM ratings

-- NotSupported: All DP calls of one SELECT must have the same groups
-- ^ DP_COUNT
SELECT title, DP_COUNT_DISTINCT(year, epsilon := 1, privacy_unit := user_id, groups := ['a'], max_groups_contributed := 1), DP_COUNT_DISTINCT(year, epsilon := 1, privacy_unit := user_id, groups := ['b'], max_groups_contributed := 1) FROM ratings GROUP BY title

-- NotPrivate: rowid is not a column of the source
-- ^ rowid
SELECT rowid, DP_COUNT_DISTINCT(year, epsilon := 1, privacy_unit := user_id, groups := [1], max_groups_contributed := 1) FROM ratings GROUP BY rowid

-- NotSupported: GROUP BY has a column whose name begins with __dp_
-- ^ __dp_key_0
SELECT __dp_key_0, DP_SELECT(title, year, 1, epsilon := 1) FROM ratings GROUP BY 1

-- ArgumentError: sensitivity must be 0, or lie between 1e-100 and 1e100
-- ^ 1e400000000
SELECT DP_SELECT(title, year, 1e400000000, epsilon := 1) FROM ratings

-- NotSupported: A SELECT with DP_TOPK cannot have HAVING without GROUP BY.
-- ^ HAVING
SELECT DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id, domain := observed) FROM ratings HAVING true

-- NotSupported: A SELECT with DP_TOPK cannot have QUALIFY without GROUP BY.
-- ^ QUALIFY
SELECT DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id, domain := observed) FROM ratings QUALIFY true

-- NotSupported: A SELECT with DP_TOPK cannot have USING SAMPLE
-- ^ USING
SELECT DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id, domain := observed) FROM ratings USING SAMPLE 10

-- ParseError: DP_TOPK needs a table to read
-- ^ DP_TOPK
SELECT DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id, domain := observed)

-- NotSupported: A SELECT with a DP call cannot have DISTINCT ON
-- ^ ON (
SELECT DISTINCT ON (1) DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id, domain := observed) FROM ratings

-- NotSupported: user_id would show rows of the source
-- ^ user_id,
SELECT user_id, DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id, domain := observed) FROM ratings

-- NotSupported: * would show rows of the source
-- ^ *,
SELECT *, DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id, domain := observed) FROM ratings

-- NotSupported: count next to a DP call would be computed over the answer
-- ^ count(*)
SELECT DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id, domain := observed), count(*) FROM ratings

-- NotSupported: max next to a DP call would be computed over the answer
-- ^ max(
SELECT max(len(DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id, domain := observed))) FROM ratings

-- NotSupported: HAVING filters by answers; QUALIFY filters by window functions
-- ^ HAVING
SELECT title, DP_COUNT(*, epsilon := 1, privacy_unit := user_id, groups := observed) AS n, rank() OVER (ORDER BY n) AS r FROM ratings GROUP BY title HAVING r = 1

-- NotSupported: HAVING filters by answers; QUALIFY filters by window functions
-- ^ HAVING
SELECT title, DP_COUNT(*, epsilon := 1, privacy_unit := user_id, groups := observed) AS n, rank() OVER (ORDER BY n) AS r, r + 1 AS next FROM ratings GROUP BY title HAVING next > 1

-- NotSupported: max next to a DP call would be computed over the answer
-- ^ max(
SELECT sum(max(1)) OVER (), DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id, domain := observed) FROM ratings

-- NotSupported: Only a table can be made from a DP call
-- ^ CREATE
CREATE VIEW best AS SELECT DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id, domain := observed) FROM ratings

-- NotSupported: A CALL cannot hold a DP call
-- ^ CALL
CALL f((SELECT DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id, domain := observed) FROM ratings))

-- NotPrivate: LIMIT is not supported in the source of a DP call
-- ^ LIMIT 5)
SELECT DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id, domain := observed) FROM (SELECT * FROM ratings LIMIT 5)

-- NotPrivate: Two private tables must be joined on their privacy units
-- ^ JOIN ratings b
SELECT DP_TOPK(a.title, 3, epsilon := 1, privacy_unit := a.user_id, domain := observed) FROM ratings a JOIN ratings b ON a.title = b.title

-- NotPrivate: Each row would be joined with all rows of this table
-- ^ catalog
SELECT DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id, domain := observed) FROM ratings, catalog

-- NotPrivate: A sample is not supported in the source of a DP call
-- ^ TABLESAMPLE 10%
SELECT DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id, domain := observed) FROM ratings TABLESAMPLE 10%

-- NotPrivate: This subquery compares no column with the outer query.
-- ^ 1 FROM ratings x
SELECT DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id, domain := observed) FROM ratings WHERE EXISTS (SELECT 1 FROM ratings x WHERE x.user_id = 7)

-- NotPrivate: IN (SELECT …) must read public tables only, or compare privacy units.
-- ^ title FROM ratings)
SELECT DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id, domain := observed) FROM ratings WHERE title IN (SELECT title FROM ratings)

-- SourceError: Table with name x does not exist
-- ^ x)
SELECT DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id, domain := observed) FROM ratings WHERE user_id IN (SELECT user_id FROM x)

-- ArgumentError: Values were not provided for the following parameters: 1
-- ^ ?
SELECT DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id, domain := observed) FROM ratings WHERE year = ?

-- NotPrivate: The function error depends on more than the values of one row
-- ^ error(
SELECT DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id, domain := observed) FROM ratings WHERE CASE WHEN user_id = 7 THEN error('x') ELSE true END

-- NotPrivate: The function random depends on more than the values of one row
-- ^ random()
SELECT DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id, domain := observed) FROM ratings WHERE random() < 0.5

-- NotPrivate: A window function in a source must have the privacy unit in PARTITION BY
-- ^ row_number()
SELECT DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id, domain := observed) FROM (SELECT *, row_number() OVER () AS place FROM ratings)

-- NotPrivate: The table function query is not supported in a source
-- ^ query(
SELECT DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id, domain := observed) FROM query('FROM ratings')

-- NotPrivate: A source needs a FROM clause
-- ^ 1 AS user_id
WITH ratings AS (SELECT 1 AS user_id, random() AS title) SELECT DP_TOPK(title, 1, epsilon := 1, privacy_unit := user_id, domain := observed) FROM ratings

-- ArgumentError: delta (the probability with which the guarantee may fail) must be at least 1e-18 and less than 0.001
-- ^ 0.01
SELECT DP_TOPK(title, 3, epsilon := 1, delta := 0.01, privacy_unit := user_id) FROM ratings

-- ArgumentError: delta (the probability
-- ^ 0,
SELECT DP_TOPK(title, 3, epsilon := 1, delta := 0, privacy_unit := user_id) FROM ratings

-- ArgumentError: delta must be a number written in the statement
-- ^ year
SELECT DP_TOPK(title, 3, epsilon := 1, delta := year, privacy_unit := user_id) FROM ratings

-- ArgumentError: The mechanism joint takes no delta
-- ^ 1e-9
SELECT DP_TOPK(title, 3, epsilon := 1, delta := 1e-9, privacy_unit := user_id, domain := catalog.title) FROM ratings

-- ArgumentError: The mechanism limited_domain finds the items by itself and takes no domain
-- ^ catalog.title
SELECT DP_TOPK(title, 3, epsilon := 1, delta := 1e-9, privacy_unit := user_id, domain := catalog.title, mechanism := 'limited_domain') FROM ratings

-- ArgumentError: The mechanism weighted_gaussian finds the items by itself and takes no domain
-- ^ catalog.title
SELECT DP_TOPK(title, 3, epsilon := 1, delta := 1e-9, privacy_unit := user_id, domain := catalog.title, mechanism := 'weighted_gaussian') FROM ratings

-- ArgumentError: The mechanism weighted_gaussian needs delta
-- ^ DP_TOPK
SELECT DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id, mechanism := 'weighted_gaussian') FROM ratings

-- ArgumentError: The mechanism joint takes no max_contributions
-- ^ 5
SELECT DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id, domain := catalog.title, max_contributions := 5) FROM ratings

-- ArgumentError: The mechanism limited_domain takes no max_contributions
-- ^ 5
SELECT DP_TOPK(title, 3, epsilon := 1, delta := 1e-9, privacy_unit := user_id, mechanism := 'limited_domain', max_contributions := 5) FROM ratings

-- ArgumentError: max_contributions must be a whole number from 1
-- ^ 0
SELECT DP_TOPK(title, 3, epsilon := 1, delta := 1e-9, privacy_unit := user_id, max_contributions := 0) FROM ratings

-- ArgumentError: The mechanism limited_domain needs delta
-- ^ DP_TOPK
SELECT DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id, mechanism := 'limited_domain') FROM ratings

-- ArgumentError: The mechanism cdp_peel needs delta
-- ^ DP_TOPK
SELECT DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id, domain := catalog.title, mechanism := 'cdp_peel') FROM ratings

-- ArgumentError: DP_TOPK needs a domain
-- ^ DP_TOPK
SELECT DP_TOPK(title, 3, epsilon := 1, delta := 1e-9, privacy_unit := user_id, mechanism := 'cdp_peel') FROM ratings

-- ArgumentError: delta finds the groups of a GROUP BY clause, and there is none.
-- ^ 1e-9
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, delta := 1e-9, privacy_unit := user_id) FROM ratings

-- ArgumentError: bound_selection must be one of: difference, gem
-- ^ 'best'
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, bound_selection := 'best', privacy_unit := user_id) FROM ratings

-- ArgumentError: contribution_bound must be a whole number from 1
-- ^ 0,
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, contribution_bound := 0, privacy_unit := user_id) FROM ratings

-- ArgumentError: contribution_bound fixes the bound, so bound_selection would have no effect
-- ^ 20
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, contribution_bound := 20, bound_selection := 'gem', privacy_unit := user_id) FROM ratings

-- ArgumentError: contribution_bound fixes the bound, so max_contributions would have no effect
-- ^ 20
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, contribution_bound := 20, max_contributions := 50, privacy_unit := user_id) FROM ratings

-- ArgumentError: The mechanism r2t takes no contribution_bound
-- ^ 20
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, contribution_bound := 20, mechanism := 'r2t', privacy_unit := user_id) FROM ratings

-- ArgumentError: The mechanism shifted_inverse takes no bound_selection
-- ^ 'rnm'
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, bound_selection := 'rnm', mechanism := 'shifted_inverse', privacy_unit := user_id) FROM ratings

-- ArgumentError: DP_SELECT needs the positional argument sensitivity
-- ^ DP_SELECT
SELECT DP_SELECT(title, year, epsilon := 1) FROM ratings

-- ArgumentError: DP_SELECT needs epsilon
-- ^ DP_SELECT
SELECT DP_SELECT(title, year, 1) FROM ratings

-- ArgumentError: DP_SELECT has no argument privacy_unit
-- ^ privacy_unit
SELECT DP_SELECT(title, year, 1, epsilon := 1, privacy_unit := user_id) FROM ratings

-- ArgumentError: mechanism must be one of: exponential, pnf
-- ^ 'rnm_h'
SELECT DP_SELECT(title, year, 1, epsilon := 1, mechanism := 'rnm_h') FROM ratings

-- ArgumentError: sensitivity must not be negative
-- ^ -1
SELECT DP_SELECT(title, year, -1, epsilon := 1) FROM ratings

-- ArgumentError: sensitivity must be a column, not the expression year - 1
-- ^ year - 1
SELECT DP_SELECT(title, year, year - 1, epsilon := 1) FROM ratings

-- ArgumentError: The score title has type VARCHAR, which is not a number
-- ^ title, 1
SELECT DP_SELECT(year, title, 1, epsilon := 1) FROM ratings

-- NotPrivate: year is a score, which is made of people's data
-- ^ year, year
SELECT DP_SELECT(year, year, 1, epsilon := 1) FROM ratings

-- NotPrivate: year is a score, which is made of people's data
-- ^ year, DP_
SELECT year, DP_SELECT(title, year, 1, epsilon := 1) FROM ratings GROUP BY 1

-- NotPrivate: A condition on year lets people's data choose the candidates
-- ^ year >
SELECT DP_SELECT(title, year, 1, epsilon := 1) FROM ratings WHERE title <> 'x' AND year > 3

-- NotPrivate: best is a CTE, and DP_SELECT reads tables
-- ^ best
WITH best AS (SELECT 'a' AS c, 1 AS s) SELECT DP_SELECT(c, s, 1, epsilon := 1) FROM best

-- NotSupported: GROUP BY beside DP_SELECT takes columns of the scores
-- ^ GROUP BY upper(title)
SELECT upper(title), DP_SELECT(title, year, 1, epsilon := 1) FROM ratings GROUP BY upper(title)

-- NotSupported: score is neither a group nor a name in the SELECT list
-- ^ score
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, privacy_unit := user_id) AS n FROM ratings ORDER BY n, score

-- NotSupported: year is neither a group nor a name in the SELECT list
-- ^ year
SELECT kind, DP_COUNT_DISTINCT(title, epsilon := 1, privacy_unit := user_id, groups := observed, max_groups_contributed := 1) AS n FROM ratings GROUP BY kind HAVING year > 2000

-- NotSupported: A SELECT with DP_SELECT cannot have HAVING
-- ^ HAVING
SELECT DP_SELECT(title, year, 1, epsilon := 1) FROM ratings HAVING true

-- NotSupported: user_id would show rows of the source next to the private answer
-- ^ user_id
SELECT user_id, DP_SELECT(title, year, 1, epsilon := 1) FROM ratings

-- NotSupported: A DP call is not allowed in the source of another DP call
-- ^ DP_COUNT_DISTINCT
SELECT DP_SELECT(c, n, 1, epsilon := 1) FROM (SELECT 'a' AS c, DP_COUNT_DISTINCT(title, epsilon := 1, privacy_unit := user_id) AS n FROM ratings)

-- NotSupported: A DP call is not allowed in the source of another DP call
-- ^ DP_COUNT_DISTINCT
SELECT DP_COUNT(*, epsilon := 1, privacy_unit := user_id) FROM ratings WHERE kind IN (SELECT kind FROM (SELECT kind, DP_COUNT_DISTINCT(user_id, epsilon := 1, privacy_unit := user_id, groups := observed) AS n FROM ratings GROUP BY kind) WHERE n > 9)

-- SourceError: log10 takes at most 1 argument
-- ^ log10
SELECT DP_COUNT(*, epsilon := 1, privacy_unit := user_id) FROM ratings WHERE log10(year, 2) > 1

-- SourceError: Referenced column "nope" not found
-- ^ nope
SELECT DP_SELECT(title, nope, 1, epsilon := 1) FROM ratings

-- ParseError: Syntax error at or near "7"
-- ^ 7
SELECT DP_TOPK(title, 1, epsilon := 1, privacy_unit := user_id, domain := observed) FROM ratings WHERE year 7

-- ParseError: This quote is never closed
-- ^ 'Dune
SELECT DP_TOPK(title, 1, epsilon := 1, privacy_unit := user_id, domain := ['Dune]) FROM ratings

-- ParseError: WHERE comes before GROUP BY
-- ^ WHERE
SELECT title, DP_COUNT(*, epsilon := 1, privacy_unit := user_id, groups := catalog.title) FROM ratings GROUP BY title WHERE year > 2001

-- ParseError: GROUP BY comes before ORDER BY
-- ^ GROUP BY
SELECT title, DP_COUNT(*, epsilon := 1, privacy_unit := user_id, groups := catalog.title) FROM ratings ORDER BY 1 GROUP BY title

-- ParseError: SELECT comes before WHERE
-- ^ SELECT
FROM ratings WHERE year > 2001 SELECT DP_COUNT(*, epsilon := 1, privacy_unit := user_id)

-- ArgumentError: DP_SUM needs epsilon := <number> (the privacy loss), groups
-- ^ DP_SUM
SELECT (SELECT DP_COUNT(*, epsilon := 1, privacy_unit := user_id, groups := [2000], max_groups_contributed := 1) FROM ratings GROUP BY year), a FROM (SELECT title AS a, DP_SUM(year, privacy_unit := user_id) FROM ratings GROUP BY title)

-- ParseError: This bracket is never closed
-- ^ (title
SELECT DP_TOPK(title, 1, epsilon := 1 FROM ratings
