-- Errors, clocks, chance and state, asked of each row.

-- NotPrivate: ERROR('x') is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE error('x') IS NULL

-- NotPrivate: CASE WHEN user_id > 900000000 THEN ERROR('found') END is not kno
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE CASE WHEN user_id > 900000000 THEN error('found') END IS NULL

-- NotPrivate: Only a cast to VARCHAR succeeds on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE CAST(title AS INTEGER) > 3

-- NotPrivate: Only a cast to VARCHAR succeeds on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title::INTEGER > 3

-- NotPrivate: Only a cast to VARCHAR succeeds on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE CAST(score AS TINYINT) > 3

-- NotPrivate: Only a cast to VARCHAR succeeds on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score::UTINYINT > 3

-- NotPrivate: Only a cast to VARCHAR succeeds on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE CAST(day AS TIMESTAMP) > '2024-01-01'

-- NotPrivate: Div is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE 1 / score > 0

-- NotPrivate: Div is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score / 0 > 1

-- NotPrivate: IntDiv is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score // 0 > 1

-- NotPrivate: Mod is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score % 0 = 1

-- NotPrivate: Mul is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE user_id * 9223372036854775807 > 0

-- NotPrivate: Add is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE user_id + 9223372036854775807 > 0

-- NotPrivate: FACTORIAL(user_id) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE factorial(user_id) > 0

-- NotPrivate: SQRT(score) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE sqrt(score) > 1

-- NotPrivate: LN(score) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE ln(score) > 1

-- NotPrivate: LOG(10, score) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE log10(score) > 1

-- NotPrivate: MAKE_DATE(user_id, 1, 1) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE make_date(user_id, 1, 1) IS NULL

-- NotPrivate: Add is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE day + user_id > '2024-01-01'

-- NotPrivate: ADD(day, 1000000000) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE add(day, 1000000000) IS NULL

-- NotPrivate: day + INTERVAL '1000000' YEAR is not known to be total on every
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE date_add(day, INTERVAL 1000000 YEAR) IS NULL

-- NotPrivate: TO_DAYS(user_id) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE to_days(user_id) IS NULL

-- NotPrivate: CHR(user_id) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE chr(user_id) = 'x'

-- NotPrivate: REPEAT(title, user_id) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE repeat(title, user_id) = 'x'

-- NotPrivate: LPAD(title, user_id, 'x') is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE lpad(title, user_id, 'x') = 'x'

-- NotPrivate: REGEXP_MATCHES(title, '(a+)+$') is not known to be total on ever
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE regexp_matches(title, '(a+)+$')

-- NotPrivate: REGEXP_MATCHES(title, title) is not known to be total on every r
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE regexp_matches(title, title)

-- NotPrivate: REGEXP_REPLACE(title, '(', '') is not known to be total on every
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE regexp_replace(title, '(', '') = 'x'

-- NotPrivate: SLEEP_MS(user_id) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE sleep_ms(user_id) IS NULL

-- NotPrivate: SLEEP_MS(1000) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE sleep_ms(1000) IS NULL

-- NotPrivate: NEXTVAL('ids') is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE nextval('ids') > 0

-- NotPrivate: CURRVAL('ids') is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE currval('ids') > 0

-- NotPrivate: RANDOM() is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE random() < 0.5

-- NotPrivate: SETSEED(0.5) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE setseed(0.5) IS NULL

-- NotPrivate: UUID() is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE uuid() IS NULL

-- NotPrivate: UUID() is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE gen_random_uuid() IS NULL

-- NotPrivate: NOW() is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE now() > '2024-01-01'

-- NotPrivate: CURRENT_DATE is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE current_date > day

-- NotPrivate: CURRENT_TIMESTAMP is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE current_timestamp IS NOT NULL

-- NotPrivate
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE today() > day

-- NotPrivate: GETVARIABLE('x') is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE getvariable('x') IS NULL

-- NotPrivate: SET_BIT(title, 1, 1) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE set_bit(title, 1, 1) IS NULL

-- NotPrivate: CURRENT_SETTING('threads') is not known to be total on every row
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE current_setting('threads') = '1'

-- NotPrivate: TXID_CURRENT() is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE txid_current() > 1

-- NotPrivate: CURRENT_QUERY() is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE current_query() = 'x'

-- NotPrivate: CURRENT_USER() is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE current_user = 'x'

-- NotPrivate: CURRENT_SCHEMA() is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE current_schema() = 'main'

-- NotPrivate: CURRENT_DATABASE() is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE current_database() = 'shop'

-- NotPrivate: VERSION() is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE version() = 'x'

-- NotPrivate: PG_TYPEOF(title) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE pg_typeof(title) = 'x'

-- NotPrivate: WRITE_LOG(title) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE write_log(title) IS NULL

-- NotPrivate: IN_SEARCH_PATH('shop', 'main') is not known to be total on every
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE in_search_path('shop', 'main')

-- NotPrivate: GETENV('HOME') is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE getenv('HOME') IS NULL

-- NotPrivate: HASH(rowid) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE hash(rowid) > 1

-- NotPrivate: STATS(title) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE stats(title) = 'x'

-- NotPrivate: FROM_JSON(title, '"INTEGER"') is not known to be total on every
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE from_json(title, '"INTEGER"') IS NULL

-- NotPrivate: JSON(title) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE json(title) IS NULL

-- NotPrivate: UNHEX(title) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE unhex(title) IS NULL

-- NotPrivate: DECODE(CAST(title AS BLOB)) is not known to be total on every ro
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE decode(title::BLOB) IS NULL

-- NotPrivate: FROM_BASE64(title) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE from_base64(title) IS NULL

-- NotPrivate: BAR(score, 0, 1) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE bar(score, 0, 1) = 'x'

-- NotPrivate: FORMAT(title, 1) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE format(title, 1) = 'x'

-- NotPrivate: PRINTF(title, 1) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE printf(title, 1) = 'x'

-- NotPrivate: ARRAY_EXTRACT(title, user_id) is not known to be total on every
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE array_extract(title, user_id) = 'x'

-- NotPrivate: LIST_EXTRACT([1], user_id) is not known to be total on every row
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE list_extract([1], user_id) = 1

-- NotPrivate: LIST_SLICE([1], 0, user_id) is not known to be total on every ro
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE list_slice([1], 0, user_id) = [1]

-- NotPrivate: RANGE(0, user_id) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE range(user_id) IS NULL

-- NotPrivate: BIT_COUNT(user_id) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE bit_count(user_id) > 3

-- NotPrivate: EPOCH_MS(user_id) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE epoch_ms(user_id) IS NULL

-- NotPrivate: TO_TIMESTAMP(user_id) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE to_timestamp(user_id) IS NULL

-- NotPrivate: TIMEZONE('Mars', NOW()) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE timezone('Mars', now()) IS NULL

-- NotPrivate: AtTimeZone is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE day AT TIME ZONE region IS NULL

-- NotPrivate: STRPTIME(title, '%Y-%m-%d') is not known to be total on every ro
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE strptime(title, '%Y-%m-%d') IS NULL

-- NotPrivate: TRY_STRPTIME(title, '%Y') is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE try_strptime(title, '%Y') IS NULL

-- NotPrivate: PARSE_PATH(title) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE parse_path(title) IS NULL

-- NotPrivate: This literal cannot be compared with DATE.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE day > 'not a date'

-- NotPrivate: This literal cannot be compared with DATE.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE day > '99999-99-99'

-- NotPrivate: This literal cannot be compared with DATE.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE day = DATE 'x'

-- NotPrivate: This literal cannot be compared with DECIMAL(8,2).
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE price > 1e999

-- NotPrivate: ENUM_CODE(mood) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE enum_code(mood) > 1

-- NotPrivate: Only a cast to VARCHAR succeeds on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE CAST(mood AS INTEGER) > 1

-- NotPrivate: UNION_EXTRACT(title, 'x') is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE union_extract(title, 'x') IS NULL

-- NotPrivate: CAST_TO_TYPE(title, 1) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE cast_to_type(title, 1) = 1

-- NotPrivate: TRY_CAST(title AS DATE) has a part that is not known here.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE try_cast(title AS DATE) IS NULL

-- NotPrivate: CAN_CAST_IMPLICITLY(title, 1) is not known to be total on every
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE can_cast_implicitly(title, 1)

-- NotPrivate: FINALIZE(title) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE finalize(title) IS NULL

-- NotPrivate: ALIAS(title) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE alias(title) = 'x'

-- NotPrivate: Only a cast to VARCHAR succeeds on every row.
SELECT DP_TOPK(CAST(title AS INTEGER), 1, epsilon := 1, domain := [1]) FROM ratings

-- NotPrivate: Div is not known to be total on every row.
SELECT DP_TOPK(score / 0, 1, epsilon := 1, domain := [1]) FROM ratings

-- NotPrivate: Add is not known to be total on every row.
SELECT DP_TOPK(score + 9223372036854775807, 1, epsilon := 1, domain := [1]) FROM ratings

-- NotPrivate: CASE WHEN user_id > 900000000 THEN ERROR('x') ELSE title END is
SELECT DP_TOPK(CASE WHEN user_id > 900000000 THEN error('x') ELSE title END, 1, epsilon := 1) FROM ratings

-- ArgumentError: score has type BIGINT, and its domain, a list in the stateme
SELECT DP_TOPK(score, 1, epsilon := 1, domain := ['x']) FROM ratings

-- ArgumentError: score has type BIGINT, and its domain, the column catalog.ti
SELECT DP_TOPK(score, 1, epsilon := 1, domain := catalog.title) FROM ratings

-- ArgumentError: The domain of day, a list in the statement, holds x, which i
SELECT DP_TOPK(day, 1, epsilon := 1, domain := ['x']) FROM ratings

-- ArgumentError: A domain list holds strings, plain numbers, TRUE and FALSE.
SELECT DP_TOPK(price, 1, epsilon := 1, domain := [1e400]) FROM ratings

-- ArgumentError: The domain of price, a list in the statement, holds 12345678
SELECT DP_TOPK(price, 1, epsilon := 1, domain := [123456789012.5]) FROM ratings

-- ArgumentError: The domain of score, a list in the statement, holds 99999999
SELECT DP_TOPK(score, 1, epsilon := 1, domain := [99999999999999999999999999]) FROM ratings

-- NotPrivate: Subquery is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE score > (SELECT error('x'))

-- NotPrivate: ERROR('x') is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings JOIN catalog ON error('x')

-- NotPrivate: ERROR('x') is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings JOIN catalog ON ratings.title = error('x')

-- NotPrivate: ERROR(title) is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT user_id, error(title) AS title FROM ratings)

-- NotPrivate: Div is not known to be total on every row.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT user_id, title, 1 / score AS s FROM ratings)

-- NotPrivate: Only a cast to VARCHAR succeeds on every row.
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

-- NotSupported: Under a policy a SELECT is answered, and EXPLAIN, SHOW TABLES an
SET VARIABLE x = 1

-- ConversionException: Conversion Error: Could not convert string 'x' to INT64
SELECT sleep_ms('x')

-- InvalidInputException: Invalid Input Error: SETSEED accepts seed values between -1.0 an
SELECT setseed(5)

-- NotPrivate: This pattern has over 100 characters.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title LIKE '%b<200*_>'

-- NotPrivate: This pattern has over 1000 characters.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title LIKE '<2000*b>%'
