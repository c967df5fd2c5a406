"""`dp-sql serve`: starts and stops a server, and prints what analysts paste into their shell."""

import os
import re
import shlex
import signal
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path

import click

from dp_sql.budget.model import name_of
from dp_sql.engines.duckdb.quack_extension import check_readable, extension_files
from dp_sql.engines.duckdb.quack_server import Address, QuackServer, address
from dp_sql.engines.duckdb.spill import remove_spill_folders
from dp_sql.errors import NotSupported, PolicyError
from dp_sql.files import open_private
from dp_sql.server.access_tokens import add_token, digest_of, owner_of, read_tokens, tokens_beside
from dp_sql.server.gateway import Gateway
from dp_sql.sql.formatting import literal

_HELP = """\
Let analysts query DATABASE from their own duckdb shell, under a policy.

\b
Example:
  dp-sql serve shop.duckdb --policy policy.toml --analyst reporting

The analyst `reporting` then starts DuckDB's shell with what this command has written:

\b
  duckdb -init reporting.sql
  FROM dp($$ SELECT DP_TOPK(title, 10, epsilon := 0.5) AS best FROM ratings $$);

Stop it with Ctrl-C or SIGTERM. docs/serve.md says what analysts see and what each query costs.
"""
# What a client runs first. Each query through dp() is a connection of its own: in a statement Quack
# allows one scan of each, and refuses more only after they have been answered.
PASTE = """\
LOAD quack;  -- once before: INSTALL quack; INSTALL httpfs;
SET VARIABLE dp_token = 'the token of dp-sql token add';
ATTACH '{where}' AS dpsql (TOKEN getvariable('dp_token'));
CREATE OR REPLACE TEMP MACRO dp(question) AS TABLE
    FROM quack_query('{where}', question, token := getvariable('dp_token'));
"""
_SERVING = """\
Serving {database} on {where}; stop with Ctrl-C.

{start}
Then query:

  FROM dp($$ SHOW TABLES $$);
  FROM dp($$ SELECT DP_COUNT_DISTINCT(…, epsilon := 0.1) AS n FROM … $$);
"""
_START = """\
Analysts paste this into the duckdb shell, or keep it in ~/.duckdbrc:

{paste}"""
_START_FROM_FILE = """\
Start DuckDB's shell on this machine, as the analyst {name}:

  duckdb -init {path}
"""
_OTHER_HOSTS = """\
Other machines can reach {where}. Tokens, queries and answers cross the network unencrypted: put a
TLS proxy in front, and let no one past it.
"""
_TOKEN = re.compile(r"dp_token = '([0-9a-f]{64})'")
_GRACE_SECONDS = 5.0  # that running queries have to end after SIGTERM or SIGINT


@click.command("serve", help=_HELP)
@click.argument("database", metavar="DATABASE")
@click.option("--policy", metavar="FILE", help="What analysts may query (docs/policy.md).")
@click.option(
    "--tokens", metavar="FILE",
    help="The tokens of `dp-sql token` (default: the file in the policy's folder).",
)  # fmt: skip
@click.option(
    "--analyst", metavar="NAME",
    help="Make a token for NAME if there is none, and write NAME.sql, which the shell reads first.",
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
    database: str, policy: str | None, tokens: str | None, analyst: str | None, listen: str,
    allow_other_hosts: bool,
) -> None:  # fmt: skip
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
    check_readable(database)
    server = QuackServer()
    gateway = Gateway(database, policy, tokens_file, server)

    def stop() -> None:
        gateway.interrupt()
        server.close()
        gateway.close()

    try:
        start = _START.format(paste=textwrap.indent(PASTE.format(where=where), "  "))
        if analyst is not None:
            gateway.open_session(analyst)  # before anything is written
            path = _shell_file(analyst, tokens_file, where)
            start = _START_FROM_FILE.format(name=name_of(analyst), path=shlex.quote(str(path)))
        gateway.check()
        server.start(where, gateway.admit, gateway.answer)
        print(_SERVING.format(database=database, where=where, start=start), flush=True)
        if not where.is_local:
            print(_OTHER_HOSTS.format(where=where), file=sys.stderr, flush=True)
        _until_stopped()
    finally:
        if not _ends_within(_GRACE_SECONDS, stop):
            _leave()


def _shell_file(analyst: str, tokens: Path, where: Address) -> Path:
    """Write what an analyst's shell on this machine reads first; returns the file.

    The token in a file that was written before is kept. Raises PolicyError if the analyst's token
    is in no such file, since it cannot be shown again.
    """
    name = name_of(analyst) or ""
    path = tokens.with_name(f"{name.replace(os.sep, '_')}.sql")
    old = path.read_text("utf-8") if path.exists() else None
    found = _TOKEN.search(old or "")
    if found is None or owner_of(digest_of(found[1]), read_tokens(tokens)) != name:
        if old is not None:
            raise PolicyError(f"{path} exists, without a token of {name}. Move it away.")
        secret = add_token(tokens, analyst)
    else:
        secret = found[1]
    paste = PASTE.format(where=where).replace("the token of dp-sql token add", secret)
    loads = [f"LOAD {literal(file)};\n" for file in extension_files()]
    if loads:  # packages, which the shell would not find by itself
        paste = "".join(loads) + paste.partition("\n")[2]
    path.unlink(missing_ok=True)
    with open(path, "x", encoding="utf-8", opener=open_private) as file:
        file.write(
            f"-- duckdb -init {path.name}   (this holds a token: show it to no one)\n{paste}"
        )
    return path


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
