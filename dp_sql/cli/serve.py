"""`dp-sql serve`: starts and stops a server, and prints what analysts paste into their shell."""

from __future__ import annotations

import os
import signal
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path

import click

from dp_sql.engines.duckdb.quack_server import QuackServer, address
from dp_sql.engines.duckdb.spill import remove_spill_folders
from dp_sql.errors import NotSupported, PolicyError
from dp_sql.server.gateway import Gateway
from dp_sql.server.tokens import tokens_beside

_HELP = """\
Let analysts query DATABASE from their own duckdb shell, under a policy.

\b
Examples:
  dp-sql token add reporting --policy policy.toml
  dp-sql serve shop.duckdb --policy policy.toml

Analysts then paste what this command prints:

\b
  ATTACH 'quack:localhost:9494' AS dpsql (TOKEN '…');
  CREATE OR REPLACE TEMP MACRO dp(question) AS TABLE FROM dpsql.query(question);
  FROM dp($$ SELECT DP_TOPK(title, 10, epsilon := 0.5) AS best FROM ratings $$);

Stop it with Ctrl-C or SIGTERM. docs/serve.md says what analysts see and what each query costs.
"""
PASTE = """\
LOAD quack;  -- once before: INSTALL quack; INSTALL httpfs;
ATTACH '{where}' AS dpsql (TOKEN 'the token of dp-sql token add');
CREATE OR REPLACE TEMP MACRO dp(question) AS TABLE FROM dpsql.query(question);
"""
_SERVING = """\
Serving {database} on {where}; stop with Ctrl-C.

Analysts paste this into the duckdb shell, or keep it in ~/.duckdbrc:

{paste}
and query:

  FROM dp($$ SHOW TABLES $$);
  FROM dp($$ SELECT DP_COUNT_DISTINCT(…, epsilon := 0.1) AS n FROM … $$);
"""
_OTHER_HOSTS = """\
Other machines can reach {where}. Tokens, queries and answers cross the network unencrypted: put a
TLS proxy in front, and let no one past it.
"""
_GRACE_SECONDS = 5.0  # that running queries have to end after SIGTERM or SIGINT


@click.command("serve", help=_HELP)
@click.argument("database", metavar="DATABASE")
@click.option("--policy", metavar="FILE", help="What analysts may query (docs/policy.md).")
@click.option(
    "--tokens", metavar="FILE",
    help="The tokens of `dp-sql token` (default: the file in the policy's folder).",
)  # fmt: skip
@click.option(
    "--listen", metavar="quack:HOST:PORT", default="quack:localhost:9494", show_default=True,
    help="Where to listen.",
)  # fmt: skip
@click.option(
    "--allow-other-hosts", is_flag=True,
    help="Listen where other machines can reach it. Nothing is encrypted: tokens, queries and "
    "answers can be read on the way, unless a TLS proxy is in front.",
)  # fmt: skip
def command(
    database: str, policy: str | None, tokens: str | None, listen: str, allow_other_hosts: bool
) -> None:
    """Serve until SIGINT or SIGTERM."""
    if not policy:
        raise PolicyError("Serving needs a policy, which says what analysts may query: --policy …")
    where = address(listen)
    if not where.is_local and not allow_other_hosts:
        raise NotSupported(
            f"{where} can be reached from other machines.",
            hint="Listen on quack:localhost:9494, or see --allow-other-hosts in "
            "dp-sql serve --help.",
        )
    tokens_file = Path(tokens) if tokens else tokens_beside(policy)
    server = QuackServer()
    gateway = Gateway(database, policy, tokens_file, server)

    def stop() -> None:
        gateway.interrupt()
        server.close()
        gateway.close()

    try:
        gateway.check()
        server.start(where, gateway.admit, gateway.answer)
        pasted = textwrap.indent(PASTE.format(where=where), "  ")
        print(_SERVING.format(database=database, where=where, paste=pasted), flush=True)
        if not where.is_local:
            print(_OTHER_HOSTS.format(where=where), file=sys.stderr, flush=True)
        _until_stopped()
    finally:
        if not _ends_within(_GRACE_SECONDS, stop):
            _leave()


def _ends_within(seconds: float, act: Callable[[], None]) -> bool:
    """Call a function in a thread of its own; returns whether it ended in time."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            act()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if raised:
        raise raised[0]
    return not thread.is_alive()


def _leave() -> None:
    """End the process although a query is still running: DuckDB cannot interrupt every step.

    This is as safe as a crash: the database is open read-only, and the query's loss was written
    to the ledger and synced before the first row was read. Files of spilled rows are removed.
    """
    print("Stopped. Queries were still running; their cost is spent.", file=sys.stderr)
    remove_spill_folders()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _until_stopped() -> None:
    """Wait for SIGINT or SIGTERM."""
    stopped = threading.Event()
    both = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda *_: stopped.set()) for number in both}
    try:
        stopped.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
