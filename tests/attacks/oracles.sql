-- Errors, clocks, chance and state, asked of each row.

-- NotPrivate: The function error is not supported here: dp_sql cannot prove that it
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE error('x') IS NULL

-- NotPrivate: The function error is not supported here: dp_sql cannot prove that it depends on one
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE CASE WHEN user_id > 900000000 THEN error('found') END IS NULL

-- NotPrivate: This cast fails on some values of type VARCHAR.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE CAST(title AS INTEGER) > 3
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title::INTEGER > 3

-- NotPrivate: This cast fails on some values of type BIGINT.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE CAST(score AS TINYINT) > 3
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score::UTINYINT > 3

-- NotPrivate: The function factorial is not supported here: dp_sql cannot prove that it
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE factorial(user_id) > 0

-- NotPrivate: make_date takes integers here, not VARCHAR.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE make_date(title, 1, 1) IS NULL

-- NotPrivate: The function error is not supported here: dp_sql cannot prove that it depends on one row alone and never fails.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT user_id, title, lag(score, 1, error('x')) OVER (PARTITION BY user_id ORDER BY day) AS b FROM ratings) WHERE b > 1

-- NotPrivate: quantile_disc takes a literal from 0 to 1 here.
SELECT DP_COUNT(*, epsilon := 1) FROM (SELECT user_id, quantile_disc(score, 1.5) AS q FROM ratings GROUP BY user_id) WHERE q > 1

-- NotPrivate: DATE + BIGINT is not supported here.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE day + user_id > '2024-01-01'

-- NotPrivate: The function add is not supported here: dp_sql cannot prove that it
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE add(day, 1000000000) IS NULL

-- NotPrivate: This may lead beyond the ends of the calendar.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE date_add(day, INTERVAL 1000000 YEAR) IS NULL

-- NotPrivate: The function chr is not supported here: dp_sql cannot prove that it
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE chr(user_id) = 'x'

-- NotPrivate: repeat takes a whole number
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE repeat(title, user_id) = 'x'

-- NotPrivate: lpad takes a whole number
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE lpad(title, user_id, 'x') = 'x'

-- NotPrivate: regexp_matches takes a string in quotes here.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE regexp_matches(title, title)

-- NotPrivate: DuckDB cannot read this regular expression
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE regexp_replace(title, '(', '') = 'x'

-- NotPrivate: The function sleep_ms is not supported here: dp_sql cannot prove that it
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE sleep_ms(user_id) IS NULL
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE sleep_ms(1000) IS NULL

-- NotPrivate: The function nextval is not supported here: dp_sql cannot prove that it
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE nextval('ids') > 0

-- NotPrivate: The function currval is not supported here: dp_sql cannot prove that it
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE currval('ids') > 0

-- NotPrivate: The function random is not supported here: dp_sql cannot prove that it
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE random() < 0.5

-- NotPrivate: The function setseed is not supported here: dp_sql cannot prove that it
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE setseed(0.5) IS NULL

-- NotPrivate: The function uuid is not supported here: dp_sql cannot prove that it
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE uuid() IS NULL

-- NotPrivate: The function gen_random_uuid is not supported here: dp_sql cannot prove that it
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE gen_random_uuid() IS NULL

-- NotPrivate: The function getvariable is not supported here: dp_sql cannot prove that
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE getvariable('x') IS NULL

-- NotPrivate: The function set_bit is not supported here: dp_sql cannot prove that it
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE set_bit(title, 1, 1) IS NULL

-- NotPrivate: The function current_setting is not supported here: dp_sql cannot prove
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE current_setting('threads') = '1'

-- NotPrivate: The function txid_current is not supported here: dp_sql cannot prove that
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE txid_current() > 1

-- NotPrivate: The function current_query is not supported here: dp_sql cannot prove that
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE current_query() = 'x'

-- NotPrivate: The function current_user is not supported here: dp_sql cannot prove that
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE current_user = 'x'

-- NotPrivate: The function current_schema is not supported here: dp_sql cannot prove
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE current_schema() = 'main'

-- NotPrivate: The function current_database is not supported here: dp_sql cannot prove
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE current_database() = 'shop'

-- NotPrivate: The function version is not supported here: dp_sql cannot prove that it
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE version() = 'x'

-- NotPrivate: The function pg_typeof is not supported here: dp_sql cannot prove that it
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE pg_typeof(title) = 'x'

-- NotPrivate: The function write_log is not supported here: dp_sql cannot prove that it
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE write_log(title) IS NULL

-- NotPrivate: The function in_search_path is not supported here: dp_sql cannot prove
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE in_search_path('shop', 'main')

-- NotPrivate: There is no function getenv
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE getenv('HOME') IS NULL

-- NotPrivate: rowid is not a column of the source.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE hash(rowid) > 1

-- NotPrivate: The function stats is not supported here: dp_sql cannot prove that it
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE stats(title) = 'x'

-- NotPrivate: The function from_json is not supported here: dp_sql cannot prove that it
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE from_json(title, '"INTEGER"') IS NULL

-- NotPrivate: The function json is not supported here: dp_sql cannot prove that it
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE json(title) IS NULL

-- NotPrivate: The function unhex is not supported here: dp_sql cannot prove that it
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE unhex(title) IS NULL

-- NotPrivate: The function decode is not supported here: dp_sql cannot prove that it
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE decode(title::BLOB) IS NULL

-- NotPrivate: The function from_base64 is not supported here: dp_sql cannot prove that
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE from_base64(title) IS NULL

-- NotPrivate: The function bar is not supported here: dp_sql cannot prove that it
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE bar(score, 0, 1) = 'x'

-- NotPrivate: The function format is not supported here: dp_sql cannot prove that it
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE format(title, 1) = 'x'

-- NotPrivate: The function printf is not supported here: dp_sql cannot prove that it
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE printf(title, 1) = 'x'

-- NotPrivate: A position is a literal whole number of up to a million here.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE list_extract([1], user_id) = 1
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE array_extract(title, user_id) = 'x'

-- NotPrivate: A position is a literal whole number of up to a million here
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE list_slice([1], 0, user_id) = [1]

-- NotPrivate: The function range is not supported here: dp_sql cannot prove that it
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE range(user_id) IS NULL

-- NotPrivate: This takes a time zone's name in quotes.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE timezone('Mars', now()) IS NULL
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE day AT TIME ZONE region IS NULL

-- NotPrivate: strptime takes a string in quotes here.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE strptime(title, title) IS NULL

-- NotPrivate: This format has a part that is not supported here.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE try_strptime(title, '%Y %Z') IS NULL

-- NotPrivate: The function parse_path is not supported here: dp_sql cannot prove that it
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE parse_path(title) IS NULL

-- NotPrivate: This literal cannot be compared with DATE.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE day > 'not a date'
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE day > '99999-99-99'
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE day = DATE 'x'

-- NotPrivate: This literal cannot be compared with DECIMAL(8,2).
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE price > 1e999

-- NotPrivate: The function enum_code is not supported here: dp_sql cannot prove that it
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE enum_code(mood) > 1

-- NotPrivate: This cast fails on some values of type VARCHAR.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE CAST(mood AS INTEGER) > 1

-- NotPrivate: The function union_extract is not supported here: dp_sql cannot prove that
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE union_extract(title, 'x') IS NULL

-- NotPrivate: The function cast_to_type is not supported here: dp_sql cannot prove that
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE cast_to_type(title, 1) = 1

-- NotPrivate: The function can_cast_implicitly is not supported here: dp_sql cannot
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE can_cast_implicitly(title, 1)

-- NotPrivate: The function finalize is not supported here: dp_sql cannot prove that it
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE finalize(title) IS NULL

-- NotPrivate: The function alias is not supported here: dp_sql cannot prove that it
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE alias(title) = 'x'

-- NotPrivate: This cast fails on some values of type VARCHAR.
SELECT DP_TOPK(CAST(title AS INTEGER), 1, epsilon := 1, domain := [1]) FROM ratings

-- ArgumentError: The item score / 0 has type DOUBLE, whose equality is not exact: rounding or NaN
SELECT DP_TOPK(score / 0, 1, epsilon := 1, domain := [1]) FROM ratings

-- NotPrivate: The function error is not supported here: dp_sql cannot prove that it depends on one
SELECT DP_TOPK(CASE WHEN user_id > 900000000 THEN error('x') ELSE title END, 1, epsilon := 1) FROM ratings

-- ArgumentError: score has type BIGINT, and its domain, a list in the stateme
SELECT DP_TOPK(score, 1, epsilon := 1, domain := ['x']) FROM ratings

-- ArgumentError: score has type BIGINT, and its domain, the column catalog.ti
SELECT DP_TOPK(score, 1, epsilon := 1, domain := catalog.title) FROM ratings

-- ArgumentError: The domain of day, a list in the statement, holds x, which i
SELECT DP_TOPK(day, 1, epsilon := 1, domain := ['x']) FROM ratings

-- ArgumentError: A domain list holds literals only: strings, plain numbers, TRUE and FALSE, dates
SELECT DP_TOPK(price, 1, epsilon := 1, domain := [1e400]) FROM ratings

-- ArgumentError: The domain of price, a list in the statement, holds 12345678
SELECT DP_TOPK(price, 1, epsilon := 1, domain := [123456789012.5]) FROM ratings

-- ArgumentError: The domain of score, a list in the statement, holds 99999999
SELECT DP_TOPK(score, 1, epsilon := 1, domain := [99999999999999999999999999]) FROM ratings

-- NotPrivate: A subquery is not supported here: dp_sql cannot prove that
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score > (SELECT error('x'))

-- NotPrivate: The function error is not supported here: dp_sql cannot prove that it
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings JOIN catalog ON error('x')
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings JOIN catalog ON ratings.title = error('x')
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT user_id, error(title) AS title FROM ratings)

-- NotPrivate: This cast fails on some values of type VARCHAR.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT user_id, title::INTEGER AS title FROM ratings)

-- InvalidInputException: Invalid Input Error: x
SELECT error('x')

-- ConversionException: Conversion Error: Could not convert string 'x' to INT32
SELECT CAST('x' AS INTEGER)

-- OutOfRangeException: Out of Range Error: Overflow in addition of INT64 (9223372036854
SELECT 9223372036854775807 + 1

-- ConversionException: Conversion Error: invalid date field format: "x", expected forma
SELECT 'x'::DATE

-- NotSupported: nextval is not available under a policy
SELECT nextval('ids')

-- NotSupported: Under a policy you can run SELECT, EXPLAIN SELECT, SHOW TABLES and
SET VARIABLE x = 1

-- ConversionException: Conversion Error: Could not convert string 'x' to INT64
SELECT sleep_ms('x')

-- InvalidInputException: Invalid Input Error: SETSEED accepts seed values between -1.0 an
SELECT setseed(5)

-- NotPrivate: This pattern has over 100 characters.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title LIKE '%b<200*_>'

-- NotPrivate: This pattern has over 1000 characters.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title LIKE '<2000*b>%'

-- ArgumentError: The item title has type VARCHAR; only integers and decimals can be added up
SELECT DP_SUM(title, epsilon := 1) FROM ratings

-- NotPrivate: The function error is not supported here: dp_sql cannot prove that it
SELECT DP_SUM(CASE WHEN user_id > 900000000 THEN error('found') ELSE score END, epsilon := 1) FROM ratings

-- NotPrivate: This cast fails on some values of type VARCHAR.
SELECT DP_SUM(CAST(title AS INTEGER), epsilon := 1) FROM ratings

-- ArgumentError: Under a policy privacy_unit is not an argument: the policy names the privacy unit.
SELECT DP_COUNT(*, epsilon := 1, privacy_unit := title) FROM ratings

-- NotPrivate: ratings.* is not a column of the source.
SELECT DP_COUNT(ratings.*, epsilon := 1) FROM ratings

-- ArgumentError: DP_SUM takes a column, not *.
SELECT DP_SUM(*, epsilon := 1) FROM ratings

-- ArgumentError: contribution_bound must be a positive number below 1e40.
SELECT DP_SUM(score, epsilon := 1, contribution_bound := 0) FROM ratings

-- ArgumentError: contribution_bound must be a number written in the statement
SELECT DP_COUNT(*, epsilon := 1, contribution_bound := (SELECT count(*) FROM ratings)) FROM ratings
