"""`dp-sql serve`: what it takes to start it and to stop it, and what analysts are to paste.

Knows where to listen and which files to open; nothing of who asks what.
"""

from __future__ import annotations

import argparse
import signal
import sys
import textwrap
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from dp_sql.engines.duckdb_quack import QuackServer, address
from dp_sql.errors import DpSqlError, NotSupported, PolicyError
from dp_sql.serving.door import Door
from dp_sql.serving.tokens import tokens_beside

_EPILOG = """\
examples:
  dp-sql token add reporting --policy policy.toml
  dp-sql serve shop.duckdb --policy policy.toml

Then, in the duckdb shell of the analyst, what this command prints:
  ATTACH 'quack:localhost:9494' AS dpsql (TOKEN '…');
  CREATE OR REPLACE TEMP MACRO dp(question) AS TABLE FROM dpsql.query(question);
  FROM dp($$ SELECT DP_TOPK(title, 10, epsilon := 0.5) AS best FROM ratings $$);

Stop it with Ctrl-C or SIGTERM. docs/serve.md says what analysts see and what each question costs.
"""
_PASTE = """\
LOAD quack;  -- once before: INSTALL quack; INSTALL httpfs;
ATTACH '{where}' AS dpsql (TOKEN 'the token of dp-sql token add');
CREATE OR REPLACE TEMP MACRO dp(question) AS TABLE FROM dpsql.query(question);
"""
_SERVING = """\
Serving {database} on {where}; stop with Ctrl-C.

Analysts paste this into the duckdb shell, or keep it in ~/.duckdbrc:

{paste}
and ask:

  FROM dp($$ SHOW TABLES $$);
  FROM dp($$ SELECT DP_COUNT_DISTINCT(…, epsilon := 0.1) AS n FROM … $$);
"""
_OTHERS = """\
{where} can be reached from other machines. Tokens, questions and answers cross the network as
they are: put a proxy that speaks TLS in front, and let nobody past it.
"""


def paste(where: str) -> str:
    """The lines for the duckdb shell."""
    return _PASTE.format(where=where)


def main_serve(arguments: Sequence[str]) -> int:
    """Run `dp-sql serve` with what follows this word; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        if not options.policy:
            raise PolicyError(
                "Serving needs a policy, which says what analysts may ask: --policy FILE"
            )
        return _serve(options, _until_stopped)
    except DpSqlError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    except Exception as error:
        print(error, file=sys.stderr)
    return 1


def _serve(options: argparse.Namespace, wait: Callable[[], None]) -> int:
    where = address(options.listen)
    if not where.is_local and not options.allow_other_hosts:
        raise NotSupported(
            f"{where} can be reached from other machines.",
            hint="Listen on quack:localhost:9494; dp-sql serve --help has the other way.",
        )
    tokens = Path(options.tokens) if options.tokens else tokens_beside(options.policy)
    server = QuackServer()
    door = Door(options.database, options.policy, tokens, server)
    try:
        door.check()
        server.start(where, door.admit, door.answer)
        pasted = textwrap.indent(paste(str(where)), "  ")
        print(_SERVING.format(database=options.database, where=where, paste=pasted), flush=True)
        if not where.is_local:
            print(_OTHERS.format(where=where), file=sys.stderr, flush=True)
        wait()
    finally:
        door.interrupt()
        server.close()
        door.close()
    return 0


def _until_stopped() -> None:
    stopped = threading.Event()
    before = {
        s: signal.signal(s, lambda *_: stopped.set()) for s in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        stopped.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dp-sql serve",
        description="Let analysts ask DATABASE from their own duckdb shell, under a policy.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("database", metavar="DATABASE", help="the owner's DuckDB file")
    parser.add_argument("--policy", metavar="FILE", help="what analysts may ask (docs/policy.md)")
    parser.add_argument(
        "--tokens", metavar="FILE",
        help="the tokens of `dp-sql token`; without it, the file beside the policy",
    )  # fmt: skip
    parser.add_argument(
        "--listen", metavar="quack:HOST:PORT", default="quack:localhost:9494",
        help="where to listen (quack:localhost:9494)",
    )  # fmt: skip
    parser.add_argument(
        "--allow-other-hosts", action="store_true",
        help="listen where other machines can reach it. Nothing is encrypted: tokens, questions "
        "and answers can be read on the way, unless a proxy that speaks TLS stands in front",
    )  # fmt: skip
    return parser
