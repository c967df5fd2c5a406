"""The same question in a form that dp_sql reads, for a statement that it refuses. Pure.

A form is a pattern in the text and what to write in its place. Only what can then be planned is
proposed, so a pattern may fit more than it should.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

from dp_sql.sql.formatting import combination
from dp_sql.sql.restated import OtherQuestion, Restated

_ONE = r"((?:[^(),]|\([^()]*\))+?)"  # one argument, with calls in it
_NEXT = rf",\s*(?=\S){_ONE}"  # a run of spaces can be read in one way only
_IS = r"\s*,\s*(?:lambda\s+)?(\w+)\s*(?:->|:)\s*\2\s*=\s*('[^']*'|\d+)\s*\)"
_NAME = r'((?!AS\b)\w+\b|"[^"]+")'
_TELLS_NULL = r"(?s:.*)(?:\bNOT\b(?!\s+(?:NULL|IN|I?LIKE|BETWEEN)\b)|\)\s*IS\b)"
_PART = "YEAR|QUARTER|MONTH|DAY|HOUR|MINUTE|SECOND"  # weeks begin on other days elsewhere
_DAY = r"\d{4}-\d\d-\d\d"
_INSIDE = r"(?:[^()]|\((?:[^()]|\([^()]*\))*\))*?"  # with brackets in brackets
_TYPE = r"\w+(?:\([\d, ]+\))?"


def _in_utc(found: re.Match[str]) -> str:
    """A TIMESTAMPTZ as the TIMESTAMP that it is in UTC, the time zone under a policy."""
    try:
        moment = datetime.fromisoformat(found[1].strip("'"))
    except ValueError:
        return found[0]
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return f"TIMESTAMP '{aware.astimezone(UTC).replace(tzinfo=None)}'"


def _combined(found: re.Match[str]) -> str:
    return f"DP_COUNT_DISTINCT({combination([one.strip() for one in found[1].split(',')])}"


_Instead = str | Callable[[re.Match[str]], str]
_FORMS: tuple[tuple[str, _Instead], ...] = (  # compiled with the first error
    # The beginning of a month.
    (rf"\bmake_date\(year\({_ONE}\),\s*month\(\1\),\s*1\)", r"date_trunc('month', \1)"),
    # Dates as strings, in the formats of other engines.
    *((rf"\bto_char\({_ONE},\s*'{other}'\)", rf"strftime(\1, '{form}')") for other, form in (
        ("YYYY", "%Y"), ("YYYY-MM", "%Y-%m"), ("YYYY-MM-DD", "%Y-%m-%d"))),
    # The first and the last value of each person.
    (rf"\bfirst\({_ONE}\s+ORDER\s+BY\s+(\w+)(?:\s+ASC)?\s*\)", r"arg_min(\1, \2)"),
    (rf"\blast\({_ONE}\s+ORDER\s+BY\s+(\w+)(?:\s+ASC)?\s*\)", r"arg_max(\1, \2)"),
    (rf"\bfirst\({_ONE}\s+ORDER\s+BY\s+(\w+)\s+DESC\s*\)", r"arg_max(\1, \2)"),
    (rf"\blast\({_ONE}\s+ORDER\s+BY\s+(\w+)\s+DESC\s*\)", r"arg_min(\1, \2)"),
    # Functions of BigQuery, Snowflake and SQL Server.
    (rf"\b(?:date|datetime|timestamp)_trunc\({_ONE},\s*({_PART})\s*\)", r"date_trunc('\2', \1)"),
    (rf"\bdate_part\(\s*({_PART})\s*,", r"date_part('\1',"),
    (rf"\bdate_?diff\(\s*({_PART})\s*,", r"date_diff('\1',"),
    (rf"\bdate_diff\({_ONE}{_NEXT},\s*({_PART})\s*\)", r"date_diff('\3', \2, \1)"),
    (rf"\bdateadd\(\s*'?({_PART})'?\s*,\s*(-?\d+)\s*{_NEXT}\)", r"(\3 + INTERVAL '\2 \1')"),
    (rf"\bformat_(?:date|datetime|timestamp)\(\s*('[^']*')\s*{_NEXT}\)", r"strftime(\2, \1)"),
    (r"\biff\(", "if("),
    (rf"\bzeroifnull\({_ONE}\)", r"coalesce(\1, 0)"),
    (rf"\bisnull\({_ONE}{_NEXT}\)", r"coalesce(\1, \2)"),
    (rf"\bsafe_divide\({_ONE}{_NEXT}\)", r"((\1) / nullif(\2, 0))"),  # x / 0 is inf
    (r"\bregexp_contains\(", "regexp_matches("),
    # A value within bounds; least() and greatest() of NULL and a bound are the bound.
    (rf"\bclamp\({_ONE}{_NEXT}{_NEXT}\)",
     r"CASE WHEN \1 < \2 THEN \2 WHEN \1 > \3 THEN \3 ELSE \1 END"),
    # Any value is the least; a float is added up with four decimals.
    (rf"\bany_value\({_ONE}\)", r"min(\1)"),
    (rf"\b(sum|avg)\((?!TRY_CAST){_ONE}\)", r"\1(TRY_CAST(\2 AS DECIMAL(18, 4)))"),
    # A part of a JSON is cast as a string.
    (r"\b(?:TRY_)?CAST\(\s*json_extract\(", "TRY_CAST(json_extract_string("),
    (rf"\bjson_extract\({_ONE},\s*('[^']*')\)\s*::\s*(\w+)",
     r"TRY_CAST(json_extract_string(\1, \2) AS \3)"),
    (r"\b(?:TRY_)?CAST\(\s*([\w.]+)\s*->\s*('[^']*')\s+AS\b", r"TRY_CAST(\1 ->> \2 AS"),
    (rf"\(\s*([\w.]+)\s*->\s*('[^']*')\s*\)\s*::\s*({_TYPE})", r"TRY_CAST(\1 ->> \2 AS \3)"),
    # A DATE column needs a DATE, and a column without a time zone a time in UTC.
    (rf"\bTIMESTAMP\s*'({_DAY})(?:[ T]00:00(?::00)?)?'", r"DATE '\1'"),
    (rf"'({_DAY})(?:[ T]00:00(?::00)?)?'\s*::\s*TIMESTAMP\b", r"DATE '\1'"),
    (r"\b(?:TIMESTAMPTZ|TIMESTAMP\s+WITH\s+TIME\s+ZONE)\s*('[^']*')", _in_utc),
    (r"('[^']*')\s*::\s*(?:TIMESTAMPTZ|TIMESTAMP\s+WITH\s+TIME\s+ZONE)\b", _in_utc),
    # Different combinations of columns.
    (r"\bDP_COUNT_DISTINCT\(\s*(?:ROW\s*)?\(\s*([\w.]+(?:\s*,\s*[\w.]+)+)\s*\)", _combined),
    # The elements of a list as rows.
    (rf"\bunnest\({_ONE}\)\s+(?:AS\s+)?{_NAME}(\W{_INSIDE})\bFROM\s+"
     r"(\w+)(?=\s+(?:WHERE|GROUP)\b)", r"\2\3FROM \4, unnest(\1) AS u(\2)"),
    (rf"\A(?!(?:(?s:.*?)\bDP_\w+\(){{2}})((?s:.*?)\bDP_\w+\()\s*unnest\({_ONE}\)"
     rf"({_INSIDE}\){_INSIDE})\bFROM\s+(\w+)(?=\s+(?:WHERE|GROUP)\b|\s*\Z)",
     r"\1element\3FROM \4, unnest(\2) AS u(element)"),
    # The one value of a public query: NULL if it has no row, where IN is FALSE.
    (rf"\A(?!{_TELLS_NULL})((?s:.*)[^<>!=:\s])\s*=\s*\(\s*(SELECT\s[^()]+)\)(?!\s*[^\s\w),;])",
     r"\1 IN (\2)"),
    # Whether a value is one of a list, and whether a list has an element.
    (rf"\b(?:list|array)_(?:contains|has)\(\s*\[(?![^][]*\bNULL\b)([^][]+)\]\s*,\s*{_ONE}\s*\)",
     r"\2 IN (\1)"),
    (rf"\b(?:len|length|array_length)\(list_filter\({_ONE}{_IS}\)\s*(?:>\s*0|>=\s*1|<>\s*0)",
     r"list_contains(\1, \3)"),
    (rf"\blist_filter\({_ONE}{_IS}\s*(?:<>|!=)\s*\[\]", r"list_contains(\1, \3)"),
    # Different values; all rows in place of a sample.
    (r"\bSELECT\s+DISTINCT\s+ON\s*\(([\w, ]+)\)\s+\1(?=\s+FROM\b)", r"SELECT DISTINCT \1"),
    (r"\s+TABLESAMPLE\s+(?:\w+\s*\([^()]*\)|\([^()]*\)|\d+\s*(?:%|PERCENT|ROWS)?)", ""),
    # All rows, as DP_COUNT counts them; two columns in a list of two.
    (r"\(\s*(?:COLUMNS\(\*\)|\*\s+EXCLUDE\s*(?:\([^()]*\)|\w+))", "(*"),
    (r"\(\s*([\w.]+)\s*,\s*([\w.]+)\s*\)\s+(NOT\s+)?IN\s*\(\s*(SELECT\s[^()]+)\)",
     r"\3EXISTS (SELECT 1 FROM (\4) AS listed(listed_1, listed_2) "
     r"WHERE listed_1 = \1 AND listed_2 = \2)"),
)  # fmt: skip
_LONG = 2000  # characters; patterns take the square of a run of spaces: 0.1 s for so many
_SAME = re.compile(r"\bON\s+\w+\.(\w+)\s*=\s*\w+\.\1\b(?!\s+(?:AND|OR)\b)", re.IGNORECASE)
_FIELDS = re.compile(r"(\w+(?:\.\w+)*)((?:\['[\w ]*'\])*)")
_QUOTED = re.compile(r"""^(\s*(?:==?|<>|!=)\s*)'"([^"'\\]*)"'""")
_COMPARED = re.compile(
    r"\s*(?:[<>=!]+|BETWEEN\b)\s*(?:(?P<truth>TRUE|FALSE)\b|(?P<number>-?\d+\.\d)|(?P<int>-?\d+))",
    re.IGNORECASE,
)
_AROUND = re.compile(r"\b(?:AND|OR|WHERE|WHEN|THEN|GROUP)\b", re.IGNORECASE)
_JOIN = (
    r"\s*\b(?:CROSS|NATURAL|ASOF(?:\s+LEFT)?|POSITIONAL|)\s*JOIN\s+(\w+(?:\s+(?:AS\s+)?(?!(?:ON|USING|WHERE)\b)\w+)?)"
    r"(?:\s+ON\s+(?:true\b|[\w.]+\s*[<>]=?\s*[\w.]+)|\s+USING\s*\([^()]*\))?"
)
_ALWAYS = re.compile(r"\bON\s+true\b", re.IGNORECASE)
_LISTED = re.compile(r"\s*,\s*$")  # before the last relation of FROM
_RELATION = re.compile(r"\w+(?:\s+(?:AS\s+)?(?!(?:WHERE|GROUP|HAVING|ORDER)\b)\w+)?", re.IGNORECASE)


def other_forms(text: str, position: int, shared: Sequence[str]) -> Iterator[str]:
    """Statements with another form of what is refused at a place, or near it.

    Of a long text there are none. shared: columns that two relations have, where a join of them is
    refused.

    >>> list(other_forms("SELECT 1 FROM t WHERE last(kind ORDER BY day) = 'a'", 22, ()))[0]
    "SELECT 1 FROM t WHERE arg_max(kind, day) = 'a'"
    """
    if len(text) > _LONG:
        return
    for name in shared:
        same = _SAME.search(text, position)
        if same is not None and same[1].lower() != name.strip('"').lower():  # of one person, too
            using = f"USING ({name}, {same[1]})"
            yield OtherQuestion(text[: same.start()] + using + text[same.end() :])
        joined = re.sub(_JOIN, rf" JOIN \1 USING ({name})", text, count=1, flags=re.IGNORECASE)
        yield OtherQuestion(joined) if _ALWAYS.search(text) else joined
        relation = _RELATION.match(text, position)
        if relation is not None and (comma := _LISTED.search(text, 0, position)) is not None:
            joined = f" JOIN {relation[0]} USING ({name})"
            yield OtherQuestion(text[: comma.start()] + joined + text[relation.end() :])
    for form, instead in _FORMS:
        written = re.sub(form, instead, text, flags=re.IGNORECASE)
        if written != text:
            is_same = "TABLESAMPLE" not in form and instead is not _in_utc
            yield Restated(written) if is_same else written


def field_of_json(text: str, position: int, n_parts: int) -> str:
    r"""The statement in which props.device.os, or props['device']['os'], is read with ->>.

    n_parts: how many of the names are those of the column.

    >>> print(field_of_json("SELECT e.props.device.os FROM e", 7, 2))
    SELECT e.props->>'$.device.os' FROM e
    >>> print(field_of_json("SELECT props['os'] FROM e", 7, 1))
    SELECT props->>'os' FROM e
    >>> print(field_of_json("FROM e WHERE props.os = '\"ios\"'", 13, 1))
    FROM e WHERE props->>'os' = 'ios'
    >>> print(field_of_json("FROM e WHERE props.age > 18", 13, 1))
    FROM e WHERE TRY_CAST(props->>'age' AS BIGINT) > 18
    """
    found = _FIELDS.match(text, position)
    names = found[1].split(".") if found else []
    path = [*names[n_parts:], *re.findall(r"\['([^']*)'\]", found[2] if found else "")]
    if found is None or not all(map(str.isidentifier, path)) or not path:
        return ""
    key = path[0] if len(path) == 1 else "$." + ".".join(path)
    column, behind = ".".join(names[:n_parts]), text[found.end() :]
    if (cast := re.match(rf"\s*::\s*({_TYPE})", behind)) is not None:
        read = f"TRY_CAST({column}->>'{key}' AS {cast[1]})"
        return Restated(f"{text[:position]}{read}{behind[cast.end() :]}")
    if (compared := _COMPARED.match(behind)) is not None:
        kind = {"int": "BIGINT", "number": "DOUBLE", "truth": "BOOLEAN"}[compared.lastgroup or ""]
        return Restated(f"{text[:position]}TRY_CAST({column}->>'{key}' AS {kind}){behind}")
    behind = _QUOTED.sub(r"\1'\2'", behind)  # a JSON has quotes around a string, and ->> has none
    beside = _AROUND.split(text[:position])[-1] + _AROUND.split(behind)[0]
    return "" if "'\"" in beside else Restated(f"{text[:position]}{column}->>'{key}'{behind}")
