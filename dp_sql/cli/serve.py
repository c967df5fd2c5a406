"""`dp-sql serve`: what it takes to start it and to stop it, and what analysts are to paste.

Knows where to listen and which files to open; nothing of who asks what.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import textwrap
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from dp_sql.engines.duckdb.quack_server import QuackServer, address
from dp_sql.engines.duckdb.spill import remove_spill_folders
from dp_sql.errors import DpSqlError, NotSupported, PolicyError
from dp_sql.server.gateway import Gateway
from dp_sql.server.tokens import tokens_beside

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


_GRACE_SECONDS = 5.0
"""Seconds that running questions have to end after SIGTERM or SIGINT."""


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
    door = Gateway(options.database, options.policy, tokens, server)
    try:
        door.check()
        server.start(where, door.admit, door.answer)
        pasted = textwrap.indent(paste(str(where)), "  ")
        print(_SERVING.format(database=options.database, where=where, paste=pasted), flush=True)
        if not where.is_local:
            print(_OTHERS.format(where=where), file=sys.stderr, flush=True)
        wait()
    finally:

        def stop() -> None:
            door.interrupt()
            server.close()
            door.close()

        if not _ends_within(_GRACE_SECONDS, stop):
            _leave()
    return 0


def _ends_within(seconds: float, act: Callable[[], None]) -> bool:
    """Do something in a thread of its own; returns whether it ended in time."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            act()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    return not thread.is_alive()


def _leave() -> None:
    """End the process although a question is still running: DuckDB cannot interrupt every step.

    This is safe at any moment, as a crash is. The database is open for reading only. A loss was
    written to the ledger and synced before the first row was read; a question that ends here stays
    in the ledger as spent, and its answer reaches no client. Files of spilled rows are removed.
    """
    print("Stopped. Questions were still running; their cost is spent.", file=sys.stderr)
    remove_spill_folders()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


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
