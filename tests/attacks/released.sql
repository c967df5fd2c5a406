-- Released, with noise, on values at which DuckDB fails, overflows or goes back: alike with the person and without.

-- released
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE length(title) > 3
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE regexp_matches(title, 'x')
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE json_extract(title, '$.x') IS NULL
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE try_cast(title AS INTEGER) = 1
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score + 1 > 5
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score * 2 > 5
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE -score > 5
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score % 2 = 0
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score // 0 = 1
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title || 'x' = 'bx'
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE concat(title, user_id) = 'x'
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE abs(score) > 3
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE greatest(score, user_id) > 3
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE if(score > 3, true, false)
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE nullif(score, 3) IS NULL
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE CASE score WHEN 3 THEN true ELSE false END
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE day + INTERVAL 1 DAY > '2024-01-01'
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE day - DATE '2024-01-01' > 3
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE strftime(day, '%Y') = '2024'
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE coalesce(title, region) = 'x'
SELECT DP_TOPK(title || region, 1, epsilon := 1, domain := ['x']) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE CAST(day AS TIMESTAMP) > '2024-01-01'
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE now() > '2024-01-01'
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE 1 / score > 0
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score / 0 > 1
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score // 0 > 1
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score % 0 = 1
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE user_id * 9223372036854775807 > 0
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE user_id + 9223372036854775807 > 0
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE regexp_matches(title, '(a+)+$')
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE current_date > day
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE current_timestamp IS NOT NULL
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE today() > day
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE try_cast(title AS DATE) IS NULL
SELECT DP_TOPK(score + 9223372036854775807, 1, epsilon := 1, domain := [1]) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT user_id, title, 1 / score AS s FROM ratings)
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score IS DISTINCT FROM 3
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score BETWEEN 1 AND user_id
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score IN (1, user_id)
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE weight * 1e308 > 0
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE day + 9999999 > '2024-01-01'
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title ->> 'x' = 'y'
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE TRY_CAST(weight AS TINYINT) > 0
SELECT DP_TOPK(tag, 1, epsilon := 1, domain := ['t1', 't2']) FROM (SELECT user_id, unnest(tags) AS tag FROM ratings)
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE user_id * 10000000000 > 0
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE (SELECT true)
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE hash(title) = 1
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score NOTNULL AND (SELECT true)
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE to_days(user_id) IS NULL
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE TRY(CAST(title AS INTEGER)) = 1
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title = 'x' COLLATE NOCASE
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title COLLATE NOCASE = 'B0'
SELECT DP_TOPK(title, 1, epsilon := 1, domain := ['b0', 'b1']) FROM (FROM ratings QUALIFY row_number() OVER (PARTITION BY user_id ORDER BY day) = 1)
SELECT DP_TOPK(t, 1, epsilon := 1, domain := ['b0', 'b1']) FROM (SELECT user_id, lag(title) OVER (PARTITION BY user_id ORDER BY score) AS t FROM ratings)
SELECT DP_TOPK(t, 1, epsilon := 1, domain := ['b0', 'b1']) FROM (SELECT user_id, arg_max(title, score) AS t FROM ratings GROUP BY user_id)
SELECT DP_TOPK(title, 1, epsilon := 1, domain := ['b0', 'b1']) FROM ratings JOIN (VALUES ('b0', 1), ('b1', 2)) AS v(title, w) USING (title) WHERE w > 1
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE strptime(title, '%Y-%m-%d') IS NULL
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE try_strptime(title, '%d.%m.%y') IS NULL OR title LIKE '%!%%_!_' ESCAPE '!'
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE hour(day::TIMESTAMP AT TIME ZONE 'Europe/Berlin') < 12
SELECT DP_TOPK(w, 1, epsilon := 1, domain := ['b0', 'b1']) FROM (SELECT user_id, unnest(string_split(title, ' ')) AS w FROM ratings)
SELECT DP_TOPK(title, 1, epsilon := 1) FROM ratings WHERE list_count(json_keys(title)) = 0 OR round(score, -1) % 7 > 1
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE make_date(user_id, 13, 45) IS NULL
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT user_id, title, lag(score, 1, 0) OVER (PARTITION BY user_id ORDER BY day) AS b FROM ratings) WHERE b < 1
SELECT DP_COUNT(*, epsilon := 1) FROM (SELECT user_id, median(score) AS m, quantile_disc(score, 0.5) AS q FROM ratings GROUP BY user_id) WHERE m > q - 9
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE list_contains([title], 'x')
SELECT DP_COUNT(*, epsilon := 1) FROM (SELECT user_id, title FROM ratings EXCEPT SELECT user_id, title FROM ratings WHERE user_id = 7)
SELECT DP_COUNT(*, epsilon := 1) FROM ratings AS r LEFT JOIN orders AS o ON o.user_id = r.user_id AND r.score < 0 WHERE o.user_id IS NULL
SELECT DP_COUNT(*, epsilon := 1) FROM ratings AS r ANTI JOIN orders AS o ON o.user_id = r.user_id AND o.order_id < r.score
SELECT DP_COUNT(*, epsilon := 1) FROM (SELECT user_id AS "U", score AS "u" FROM ratings) AS z JOIN orders AS o ON z."u" = o.user_id
SELECT DP_COUNT(*, epsilon := 1) FROM (SELECT user_id, title FROM ratings INTERSECT SELECT user_id, title FROM recent)
SELECT DP_COUNT(*, epsilon := 1) FROM (SELECT user_id, mode(coalesce(title, 'none')) AS t, any_value(score) AS s, quantile_cont(score, 0.9) AS q FROM ratings GROUP BY user_id) WHERE t > 'a' AND q < 9
SELECT DP_COUNT(*, epsilon := 1) FROM (SELECT user_id, title, ntile(3) OVER w AS n, cume_dist() OVER w AS day, percent_rank() OVER w AS price, lag(title, 2, title) OVER w AS region FROM ratings WINDOW w AS (PARTITION BY user_id ORDER BY score)) WHERE n = 1

-- released
SELECT DP_TOPK<U+200B>(title, 2, epsilon := 1) FROM ratings
SELECT DP_TOPK(title, 2, epsilon<U+200B> := 1) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1<U+200B>) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings<U+FEFF>
<U+FEFF>SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings

-- released
SELECT DP_TOPK(title, 2, epsilon := 1), count(*) OVER () FROM ratings
SELECT region, DP_COUNT(*, epsilon := 0.5) AS n, DP_COUNT(*, epsilon := 0.5) / sum(DP_COUNT(*, epsilon := 0.5)) OVER () AS share FROM ratings GROUP BY region ORDER BY rank() OVER (ORDER BY n)
SELECT region FROM ratings GROUP BY region HAVING DP_COUNT(*, epsilon := 0.5) IS NOT NULL ORDER BY DP_COUNT(*, epsilon := 0.5)
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE bit_count(score) << 2 > 4
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE (score << score) << 60 > 4 OR list_unique(tags) > 1
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score <> ALL([1, 2]) AND strptime(title, ['%Y-%m-%d', '%d/%m/%Y']) IS NULL
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score << 3 > 1
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE bit_count(user_id) > 3
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE (title, user_id) < ('x', 1)
