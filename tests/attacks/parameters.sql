-- What a call costs and what it may answer, taken from anything but a literal in its range.

-- ArgumentError: epsilon must be a number written in the statement, not a column,
SELECT DP_TOPK(title, 2, epsilon := nan) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 'NaN'::DOUBLE) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := inf) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := infinity) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := -inf) FROM ratings

-- ArgumentError: epsilon must be a number from 1e-9 to 10000; common choices lie
SELECT DP_TOPK(title, 2, epsilon := 0) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := -0) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 0.0) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := -1) FROM ratings

-- ArgumentError: epsilon must be a number written in the statement, not a column,
SELECT DP_TOPK(title, 2, epsilon := + 1 - 2) FROM ratings

-- ArgumentError: epsilon must be a number from 1e-9 to 10000; common choices lie
SELECT DP_TOPK(title, 2, epsilon := 1e-320) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1e-10) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1e400) FROM ratings

-- ArgumentError: epsilon cannot be read as a number.
SELECT DP_TOPK(title, 2, epsilon := 1e999999999999999999999) FROM ratings

-- ArgumentError: epsilon must be a number from 1e-9 to 10000; common choices lie
SELECT DP_TOPK(title, 2, epsilon := 0e999999999) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 10001) FROM ratings

-- ArgumentError: epsilon is more than the policy allows: at most 10.
SELECT DP_TOPK(title, 2, epsilon := 11) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 10.0000001) FROM ratings

-- ArgumentError: epsilon must be a number written in the statement, not a column,
SELECT DP_TOPK(title, 2, epsilon := 1_) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := _1) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 0x1) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 0b1) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 0o7) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := '1') FROM ratings
SELECT DP_TOPK(title, 2, epsilon := "1") FROM ratings
SELECT DP_TOPK(title, 2, epsilon := $$1$$) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := E'1') FROM ratings
SELECT DP_TOPK(title, 2, epsilon := true) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := false) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := NULL) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := DEFAULT) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := (1)) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1 + 0) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1::INTEGER) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := CAST(1 AS DOUBLE)) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := DECIMAL '1') FROM ratings
SELECT DP_TOPK(title, 2, epsilon := [1]) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := {'a': 1}) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := (SELECT 1)) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := (SELECT count(*) FROM ratings)) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := CASE WHEN true THEN 0.1 ELSE 10 END) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := score) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := user_id) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := ratings.score) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := max(score)) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := random()) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := ?) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := $1) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := $epsilon) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := @x) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := getvariable('x')) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1 2) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1 OR 1) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1e) FROM ratings

-- ParseError: This bracket is never closed.
SELECT DP_TOPK(title, 2, epsilon := --1) FROM ratings

-- ArgumentError: epsilon must be a number written in the statement, not a column,
SELECT DP_TOPK(title, 2, epsilon := 1..2) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1%) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := ½) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := １) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := ٣) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1e+) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := INTERVAL 1 DAY) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := DATE '2024-01-01') FROM ratings
SELECT DP_TOPK(title, 2, epsilon := *) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := x -> x) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1; SELECT 1) FROM ratings

-- ArgumentError: epsilon must be a number from 1e-9 to 10000; common choices lie
SELECT DP_TOPK(title, 2, epsilon := 0.0000000001) FROM ratings

-- ArgumentError: DP_TOPK takes only its item and k without a name; name the others, as in epsilon := 1.
SELECT DP_TOPK(title, 2, epsilon) FROM ratings
SELECT DP_TOPK(title, 2, 1) FROM ratings

-- ArgumentError: DP_TOPK needs epsilon := <number> (the privacy loss).
SELECT DP_TOPK(title, 2) FROM ratings

-- ArgumentError: k must be a whole number from 1 to 100000.
SELECT DP_TOPK(title, 0, epsilon := 1) FROM ratings
SELECT DP_TOPK(title, -1, epsilon := 1) FROM ratings
SELECT DP_TOPK(title, 2.5, epsilon := 1) FROM ratings
SELECT DP_TOPK(title, 1e9, epsilon := 1) FROM ratings
SELECT DP_TOPK(title, 1000000000, epsilon := 1) FROM ratings

-- ArgumentError: k is more than the policy allows: at most 100.
SELECT DP_TOPK(title, 101, epsilon := 1) FROM ratings

-- ArgumentError: k must be a whole number from 1 to 100000.
SELECT DP_TOPK(title, 100001, epsilon := 1) FROM ratings

-- ArgumentError: k must be a number written in the statement, not a column, a par
SELECT DP_TOPK(title, NULL, epsilon := 1) FROM ratings
SELECT DP_TOPK(title, true, epsilon := 1) FROM ratings
SELECT DP_TOPK(title, '2', epsilon := 1) FROM ratings
SELECT DP_TOPK(title, "2", epsilon := 1) FROM ratings
SELECT DP_TOPK(title, (2), epsilon := 1) FROM ratings
SELECT DP_TOPK(title, 1 + 1, epsilon := 1) FROM ratings
SELECT DP_TOPK(title, (SELECT 2), epsilon := 1) FROM ratings
SELECT DP_TOPK(title, (SELECT count(*) FROM ratings), epsilon := 1) FROM ratings
SELECT DP_TOPK(title, score, epsilon := 1) FROM ratings
SELECT DP_TOPK(title, user_id, epsilon := 1) FROM ratings
SELECT DP_TOPK(title, ?, epsilon := 1) FROM ratings
SELECT DP_TOPK(title, $1, epsilon := 1) FROM ratings
SELECT DP_TOPK(title, $k, epsilon := 1) FROM ratings
SELECT DP_TOPK(title, CASE WHEN true THEN 2 ELSE 3 END, epsilon := 1) FROM ratings
SELECT DP_TOPK(title, nan, epsilon := 1) FROM ratings
SELECT DP_TOPK(title, [2], epsilon := 1) FROM ratings
SELECT DP_TOPK(title, 2::INTEGER, epsilon := 1) FROM ratings
SELECT DP_TOPK(title, 0x2, epsilon := 1) FROM ratings
SELECT DP_TOPK(title, *, epsilon := 1) FROM ratings

-- ArgumentError: k = 4 is more than the 3 items of the domain.
SELECT DP_TOPK(title, 4, epsilon := 1) FROM ratings

-- ArgumentError: k must be a whole number from 1 to 100000.
SELECT DP_TOPK(title, 1e400, epsilon := 1) FROM ratings
SELECT DP_TOPK(title, -0, epsilon := 1) FROM ratings

-- ArgumentError: k must be a number written in the statement, not a column, a par
SELECT DP_TOPK(title, 2 LIMIT 1, epsilon := 1) FROM ratings
SELECT DP_TOPK(title, ٢, epsilon := 1) FROM ratings
SELECT DP_TOPK(title, count(*), epsilon := 1) FROM ratings

-- ArgumentError: The policy allows no delta: choose a mechanism that needs none.
SELECT DP_TOPK(title, 2, epsilon := 1, delta := 1e-9) FROM ratings

-- ArgumentError: delta (the probability with which the guarantee may fail) must be
SELECT DP_TOPK(title, 2, epsilon := 1, delta := 0) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, delta := -1) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, delta := 1) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, delta := 0.5) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, delta := 1e-300) FROM ratings

-- ArgumentError: delta must be a number written in the statement, not a column, a
SELECT DP_TOPK(title, 2, epsilon := 1, delta := nan) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, delta := '1e-9') FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, delta := NULL) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, delta := score) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, delta := (SELECT 1e-9)) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, delta := ?) FROM ratings

-- ArgumentError: The mechanism limited_domain needs delta: the probability with w
SELECT DP_TOPK(title, 2, epsilon := 1, mechanism := 'limited_domain') FROM ratings

-- ArgumentError: The policy allows no delta: choose a mechanism that needs none.
SELECT DP_TOPK(title, 2, epsilon := 1, mechanism := limited_domain, delta := 1e-6) FROM ratings

-- ArgumentError: mechanism must be one of: joint, pnf_joint, em_peel, pnf_peel, c
SELECT DP_TOPK(title, 2, epsilon := 1, delta := 1e-6, mechanism := 'pnf') FROM ratings

-- ArgumentError: beta (one minus the confidence) must lie between 1e-12 and 0.5.
SELECT DP_TOPK(title, 2, epsilon := 1, beta := 0) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, beta := 0.5) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, beta := 1) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, beta := -0.1) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, beta := 1e-13) FROM ratings

-- ArgumentError: beta must be a number written in the statement, not a column, a
SELECT DP_TOPK(title, 2, epsilon := 1, beta := nan) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, beta := '0.1') FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, beta := NULL) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, beta := score) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, beta := (SELECT 0.1)) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, beta := ?) FROM ratings

-- ArgumentError: mechanism must be one of: joint, pnf_joint, em_peel, pnf_peel, c
SELECT DP_TOPK(title, 2, epsilon := 1, mechanism := '') FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, mechanism := 'none') FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, mechanism := none) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, mechanism := 'joint ') FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, mechanism := 1) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, mechanism := NULL) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, mechanism := title) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, mechanism := (SELECT 'joint')) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, mechanism := 'joint' || '') FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, mechanism := ?) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, mechanism := CASE WHEN true THEN 'joint' END) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, mechanism := 'exact') FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, mechanism := 'matching') FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, mechanism := E'joint') FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, mechanism := $$joint$$) FROM ratings

-- ArgumentError: k = 2 is more than the 0 items of the domain.
SELECT DP_TOPK(title, 2, epsilon := 1, domain := []) FROM ratings

-- ArgumentError: The list holds NULL, and rows without a value are never counted.
SELECT DP_TOPK(title, 2, epsilon := 1, domain := [NULL]) FROM ratings

-- ArgumentError: k = 2 is more than the 1 item of the domain.
SELECT DP_TOPK(title, 2, epsilon := 1, domain := ['b0']) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, domain := ['b0', 'b0']) FROM ratings

-- ArgumentError: A domain list holds literals only
SELECT DP_TOPK(title, 2, epsilon := 1, domain := ['b0', title]) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, domain := ['b0', (SELECT max(title) FROM ratings)]) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, domain := ['b0', 'b1' || 'x']) FROM ratings

-- ArgumentError: domain must be written in the statement: a public column, a list
SELECT DP_TOPK(title, 2, epsilon := 1, domain := list_value('b0', 'b1')) FROM ratings

-- NotPrivate
SELECT DP_TOPK(title, 2, epsilon := 1, domain := (SELECT list(title) FROM ratings)) FROM ratings

-- NotPrivate: This query reads people's rows; groups and domains are public.
SELECT DP_TOPK(title, 2, epsilon := 1, domain := (SELECT title FROM ratings)) FROM ratings

-- ArgumentError: domain must be written in the statement: a public column, a list
SELECT DP_TOPK(title, 2, epsilon := 1, domain := 'b0') FROM ratings

-- ArgumentError: NULL is not a column of a public table.
SELECT DP_TOPK(title, 2, epsilon := 1, domain := NULL) FROM ratings

-- ArgumentError: true is not a column of a public table.
SELECT DP_TOPK(title, 2, epsilon := 1, domain := true) FROM ratings

-- ArgumentError: domain must be written in the statement: a public column, a list
SELECT DP_TOPK(title, 2, epsilon := 1, domain := 1) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, domain := ?) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, domain := $1) FROM ratings

-- ArgumentError: This argument of DP_TOPK must be written in the statement
SELECT DP_TOPK(title, 2, epsilon := 1, domain := ['b0', ?]) FROM ratings

-- ArgumentError: ratings is not a column of a public table.
SELECT DP_TOPK(title, 2, epsilon := 1, domain := ratings) FROM ratings

-- ArgumentError: catalog is not a column of a public table.
SELECT DP_TOPK(title, 2, epsilon := 1, domain := catalog) FROM ratings

-- ArgumentError: domain must be written in the statement: a public column, a list
SELECT DP_TOPK(title, 2, epsilon := 1, domain := catalog.*) FROM ratings

-- ArgumentError: secret.x is not a column of a public table.
SELECT DP_TOPK(title, 2, epsilon := 1, domain := secret.x) FROM ratings

-- ArgumentError: A domain list holds literals only
SELECT DP_TOPK(title, 2, epsilon := 1, domain := ['b0', 1/0]) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, domain := ['b0', error('x')]) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, domain := ['b0'] || ['b1']) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, domain := ['b0', $$b1$$]) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, domain := ['b0', E'b1']) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, domain := ['b0', x'00']) FROM ratings

-- ArgumentError: A domain list holds literals only: strings, plain numbers, TRUE and FALSE, dates
SELECT DP_TOPK(title, 2, epsilon := 1, domain := ['b0', 'b1'::DOUBLE]) FROM ratings

-- ArgumentError: A domain list holds literals only
SELECT DP_TOPK(title, 2, epsilon := 1, domain := [x FOR x IN ['b0', 'b1']]) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, domain := ['b0', ['b1']]) FROM ratings

-- ArgumentError
SELECT DP_TOPK(title, 2, epsilon := 1, domain := [٣, ٤]) FROM ratings

-- ArgumentError: A domain list holds literals only
SELECT DP_TOPK(title, 2, epsilon := 1, domain := ['b0', now()]) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, domain := ['b0', -'x']) FROM ratings

-- ArgumentError: domain must be written in the statement: a public column, a list
SELECT DP_TOPK(title, 2, epsilon := 1, domain := array['b0', 'b1']) FROM ratings

-- ArgumentError: Under a policy domain := observed is allowed only if the policy declares
SELECT DP_TOPK(title, 2, epsilon := 1, domain := observed) FROM ratings

-- ArgumentError: domain must be written in the statement: a public column, a list
SELECT DP_TOPK(title, 2, epsilon := 1, domain := observed()) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, domain := 'observed') FROM ratings

-- ArgumentError: duckdb_tables is not a column of a public table.
SELECT DP_TOPK(title, 2, epsilon := 1, domain := duckdb_tables) FROM ratings

-- ArgumentError: domain must be written in the statement: a public column, a list
SELECT DP_TOPK(title, 2, epsilon := 1, domain := {'a': 1}) FROM ratings

-- ArgumentError: mood is not a column of a public table.
SELECT DP_TOPK(title, 2, epsilon := 1, domain := mood) FROM ratings

-- ArgumentError: domain must be written in the statement: a public column, a list
SELECT DP_TOPK(title, 2, epsilon := 1, domain := enum_range(NULL::mood)) FROM ratings

-- ArgumentError: title has type VARCHAR, and its domain, the query in the statement, holds
SELECT DP_TOPK(title, 2, epsilon := 1, domain := range(5)) FROM ratings

-- ArgumentError: max_contributions must be a whole number from 1 to 10000.
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, max_contributions := 0) FROM ratings
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, max_contributions := -1) FROM ratings

-- ArgumentError: max_contributions is more than the policy allows: at most 1000.
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, max_contributions := 1001) FROM ratings

-- ArgumentError: max_contributions must be a whole number from 1 to 10000.
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, max_contributions := 10001) FROM ratings
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, max_contributions := 1.5) FROM ratings

-- ArgumentError: max_contributions must be a number written in the statement, not
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, max_contributions := score) FROM ratings
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, max_contributions := NULL) FROM ratings
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, max_contributions := (SELECT 5)) FROM ratings
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, max_contributions := ?) FROM ratings
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, max_contributions := '5') FROM ratings

-- ArgumentError: sample_items must be a number written in the statement, no
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, sample_items := score) FROM ratings
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, sample_items := (SELECT 1 / max(score) FROM ratings)) FROM ratings

-- ArgumentError: sample_items is about items, and here the items are people
SELECT DP_COUNT_DISTINCT(user_id, epsilon := 1, sample_items := 0.5) FROM ratings

-- ArgumentError: contribution_bound must be a whole number from 1 to 10000.
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, contribution_bound := 0) FROM ratings

-- ArgumentError: contribution_bound is more than the policy allows: at most 1000.
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, contribution_bound := 1001) FROM ratings

-- ArgumentError: contribution_bound must be a number written in the statement, no
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, contribution_bound := score) FROM ratings
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, contribution_bound := (SELECT max(score) FROM ratings)) FROM ratings

-- ArgumentError: contribution_bound fixes the bound, so max_contributions would have no effect
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, contribution_bound := 5, max_contributions := 5) FROM ratings

-- ArgumentError: contribution_bound fixes the bound, so bound_selection would have no effect
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, contribution_bound := 5, bound_selection := 'gem') FROM ratings

-- ArgumentError: bound_selection must be one of: difference, gem, mgem, combined_gem, rnm.
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, bound_selection := 'max') FROM ratings
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, bound_selection := 1) FROM ratings
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, bound_selection := title) FROM ratings

-- ArgumentError: report must be true or false.
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, report := 1) FROM ratings
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, report := 'true') FROM ratings
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, report := NULL) FROM ratings
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, report := (SELECT true)) FROM ratings
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, report := score > 3) FROM ratings
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, report := not false) FROM ratings
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, report := ?) FROM ratings

-- ArgumentError: beta (one minus the confidence) must lie between 1e-12 and 0.5.
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, beta := 0) FROM ratings
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, beta := 0.5) FROM ratings

-- ArgumentError: mechanism must be one of: matching, greedy, sampling, r2t, shift
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, mechanism := 'joint') FROM ratings
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, mechanism := none) FROM ratings

-- ArgumentError: delta finds the groups of a GROUP BY clause, and there is none.
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, delta := 1e-9) FROM ratings

-- ArgumentError: DP_COUNT_DISTINCT has no argument domain.
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, domain := ['b0']) FROM ratings

-- ArgumentError: DP_COUNT_DISTINCT has no argument k.
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, k := 3) FROM ratings

-- ArgumentError: Under a policy privacy_unit is not an argument: the policy names the
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, privacy_unit := user_id) FROM ratings

-- ArgumentError: max_groups_contributed must be a whole number from 1 to 1000.
SELECT DP_COUNT_DISTINCT(title, epsilon := 1, max_groups_contributed := 0) FROM ratings

-- ArgumentError
SELECT DP_TOPK(title, 2, epsilon := 6), DP_TOPK(title, 2, epsilon := 6.0) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 6) FROM ratings UNION ALL SELECT DP_TOPK(title, 2, epsilon := 6) FROM ratings
SELECT region, DP_TOPK(title, 2, epsilon := 6, max_groups_contributed := 1), DP_COUNT_DISTINCT(title, epsilon := 6, max_groups_contributed := 1) FROM ratings GROUP BY region

-- ArgumentError: Values were not provided for the following parameters: 1
SELECT DP_COUNT_DISTINCT(title, epsilon := 1) FROM ratings WHERE title = ?

-- ArgumentError: Values were not provided for the following parameters: name
SELECT DP_COUNT_DISTINCT(title, epsilon := 1) FROM ratings WHERE title = $Name
