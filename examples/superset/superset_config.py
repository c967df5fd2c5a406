"""Superset's settings for dp_sql: nothing but what the dialect needs, and a place to work in.

Point SUPERSET_CONFIG_PATH at this file, or copy its last part into your own.
"""

import os
import secrets
from pathlib import Path

from sqlglot import Dialects

HOME = Path(os.environ.get("SUPERSET_HOME", "~/.superset")).expanduser()
HOME.mkdir(parents=True, exist_ok=True)
_KEY = HOME / "secret_key"
if not _KEY.exists():
    _KEY.touch(mode=0o600)
    _KEY.write_text(secrets.token_urlsafe(42))
SECRET_KEY = _KEY.read_text()
SQLALCHEMY_DATABASE_URI = f"sqlite:///{HOME / 'superset.db'}"
# A trial on one machine: no Redis, no rate limits, no CDN.
RATELIMIT_ENABLED = False
TALISMAN_ENABLED = False

# --- what dp_sql needs ---

# Superset reads each query before it sends it. It must read a dpsql query as DuckDB's SQL.
SQLGLOT_DIALECTS_EXTENSIONS = {"dpsql": Dialects.DUCKDB}
