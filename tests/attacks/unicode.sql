-- Signs that look like others, like nothing, or like the end of the text.

-- ParseError: Syntax error at
SEL<U+200B>ECT * FROM ratings

-- SourceError: There is no table rat.
SELECT * FROM rat<U+200B>ings

-- ParseError: Syntax error at
SELECT DP_TO<U+200B>PK(title, 2, epsilon := 1) FROM ratings

-- ParseError: Syntax error at
SELECT DP_TOPK(tit<U+200B>le, 2, epsilon := 1) FROM ratings

-- NotPrivate: There is no table rat
SELECT DP_TOPK(title, 2, epsilon := 1) FROM rat<U+200B>ings

-- NotPrivate: There is no table r
SELECT DP_TOPK(title, 2, epsilon := 1) FROM r<U+0430>tings

-- SourceError: There is no table rаtings.
SELECT * FROM r<U+0430>tings

-- NotSupported: There is no function DP_TОPK. Did you mean DP_TOPK?
SELECT DP_T<U+041E>PK(title, 2, epsilon := 1) FROM ratings

-- ParseError: Syntax error at
<U+0405>ELECT * FROM ratings

-- NotPrivate: ratings is private: it can be read only through DP functions.
SELECT<U+00A0>*<U+00A0>FROM<U+00A0>ratings
<U+FEFF>SELECT * FROM ratings

-- NotSupported: LIMIT next to a DP call does not limit the source.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings<U+00A0>LIMIT<U+00A0>5
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings<U+2003>LIMIT 5
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings<U+3000>LIMIT 5
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings<U+000B>LIMIT 5
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings<U+000C>LIMIT 5
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings<U+200B>LIMIT 5
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings<U+2060>LIMIT 5

-- ParseError: Syntax error at
<U+FF33><U+FF25><U+FF2C><U+FF25><U+FF23><U+FF34> * FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings <U+FF2C><U+FF29><U+FF2D><U+FF29><U+FF34> 5

-- NotSupported: LIMIT next to a DP call does not limit the source.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings l<U+0131>m<U+0131>t 5

-- NotPrivate: LIMIT is not supported in the source of a DP call, because one person's
SELECT DP_TOPK(title, 2, epsilon := 1) FROM (SELECT * FROM ratings l<U+0131>m<U+0131>t 5)

-- NotSupported: A SELECT with DP_TOPK cannot have USING SAMPLE.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings u<U+017F>ing <U+017F>ample 5

-- ParseError: Syntax error at
<U+017F>elect * from ratings

-- ArgumentError: epsilon must be a number from 1e-9 to 10000; common choices lie
SELECT dp_count_di<U+017F>tinct(title, epsilon := 0) FROM ratings

-- NotSupported: There is no function DP_ſELECT. Did you mean DP_SELECT?
SELECT DP_<U+017F>ELECT(title, score, 1, epsilon := 1) FROM ratings

-- NotSupported: There is no function DP_TOPK. Did you mean DP_TOPK?
SELECT DP_TOP<U+212A>(title, 2, epsilon := 0) FROM ratings

-- ArgumentError: k must be a number written in the statement, not a column, a par
SELECT DP_TOPK(title, <U+FF12>, epsilon := 1) FROM ratings

-- ArgumentError: epsilon must be a number written in the statement, not a column,
SELECT DP_TOPK(title, 2, epsilon := <U+FF11>) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := <U+00B2>) FROM ratings

-- ArgumentError: DP_TOPK has no argument epsi
SELECT DP_TOPK(title, 2, eps<U+0130>lon := 1) FROM ratings

-- ParseError: Syntax error at
SELECT DP_TOPK<U+FF08>title, 2, epsilon := 1) FROM ratings

-- NotPrivate
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title = <U+2018>b0<U+2019>
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title = <U+FF07>b0<U+FF07>

-- NotPrivate: There is no table
SELECT DP_TOPK(title, 2, epsilon := 1) FROM <U+201C>ratings<U+201D>

-- ParseError: Syntax error at
SELECT * FROM ratings<U+037E> SELECT 1

-- NotPrivate: There is no table ratings
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings<U+037E> SELECT 1

-- ParseError: Syntax error at
SELECT 1<U+FF1B> SELECT * FROM ratings
<U+202E>SELECT * FROM ratings

-- NotPrivate: ratings is private: it can be read only through DP functions.
SELECT '<U+202E>' FROM ratings

-- NotSupported: LIMIT next to a DP call does not limit the source.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings /*<U+202E>*/ LIMIT 5

-- NotPrivate
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE <U+2066>true<U+2069>

-- NotSupported: A query cannot contain a NUL character.
SELECT * FROM ratings<U+0000>
SELECT<U+0000> * FROM ratings
<U+0000>
SELECT 1<U+0000>; SELECT * FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings<U+0000>
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE true<U+0000> LIMIT 5
SELECT DP_TOPK(title, 2, epsilon := 1) FROM rat<U+0000>ings
SELECT DP_TOPK(title, 2, epsilon := 1) FROM "ratings<U+0000>"
SELECT DP_TOPK(title, 2, epsilon := 1) FROM "ratings<U+0000>x" WHERE true
SELECT * FROM "secret<U+0000>"
DESCRIBE "secret<U+0000>"
DESCRIBE "ratings<U+0000>"
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE day > '2024<U+0000>'
SELECT DP_TOPK(score, 1, epsilon := 1, domain := ['<U+0000>']) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1<U+0000>) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, mechanism := 'joint<U+0000>') FROM ratings
SELECT DP_TOPK("title<U+0000>", 2, epsilon := 1) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1, domain := catalog."title<U+0000>") FROM ratings

-- NotPrivate: There is no table
SELECT DP_TOPK(title, 2, epsilon := 1) FROM <U+1F600>
SELECT DP_TOPK(title, 2, epsilon := 1) FROM "<U+1F600>"

-- NotPrivate
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE <U+1F600>

-- ParseError: This character is half of a pair.
SELECT '<U+D800>'
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE title = '<U+D800>'
<U+DFFF>

-- NotSupported: LIMIT next to a DP call does not limit the source.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings --<U+000D> LIMIT 5<U+000A>LIMIT 5
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings --<U+2028><U+000A>LIMIT 5

-- NotPrivate: The source of a DP call is FROM and WHERE.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings<U+0085>LIMIT 5
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings<U+2028>LIMIT 5

-- ParseError: Syntax error at
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings<U+180E>LIMIT 5
SELECT e'\'', 1 AS a<U+00A0>$b$, (SELECT count(*) FROM duckdb_settings()) --$b$

-- ArgumentError: A named argument is written with := or =>.
SELECT DP_TOPK(title, 2, epsilon <U+2254> 1) FROM ratings

-- SourceError: There is no table
SELECT * FROM ratings<U+FFFE>
SELECT * FROM <U+1F600>
SELECT * FROM r<U+0301>atings

-- ParseError: This character cannot be read.
SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings<U+001C>LIMIT 5
<U+001A>SELECT * FROM ratings
SELECT * FROM ratings<U+0008><U+0008>

-- NotSupported: query is not available under a policy: it can read more than
FROM query<U+200B>('FROM pg_settings')
FROM query<U+FEFF>('SELECT 1')
FROM query<U+2060>('SELECT 1')

-- NotSupported: duckdb_settings is not available under a policy: it can read
FROM duckdb_settings<U+200B>()
SELECT $<U+20AC>$ ' $<U+20AC>$, (SELECT count(*) FROM duckdb_settings()), $<U+20AC>$ ' $<U+20AC>$
SELECT 1 AS a<U+20AC>$b$, (SELECT count(*) FROM duckdb_settings()) --$b$

-- NotSupported: current_setting is not available under a policy: it can read
SELECT current_setting<U+200B>('secret_directory')

-- NotSupported: SHOW is a statement of its own, and not part of a query.
FROM (SHOW<U+200B>TABLES)
