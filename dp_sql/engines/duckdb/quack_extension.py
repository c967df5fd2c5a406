"""DuckDB's extension for the protocol Quack: where it is, and which DuckDB can load it."""

import importlib.util
from pathlib import Path

import duckdb

from dp_sql.engines.duckdb.opening import open_database
from dp_sql.engines.duckdb.sql_runner import Connection
from dp_sql.errors import NotSupported
from dp_sql.installation import install_command
from dp_sql.sql.formatting import literal

NEWEST = "1.5.5"  # the newest DuckDB with a package of Quack, which the extra `serve` installs
_EXTENSIONS = ("httpfs", "quack")


def load_quack(connection: Connection) -> None:
    """Load the extensions for Quack, from installed wheels or from DuckDB's own folder."""
    for name in _EXTENSIONS:
        try:
            path = _wheel(name)
            connection.execute(f"LOAD {literal(path)}" if path else f"LOAD {name}")
        except duckdb.Error as error:
            raise NotSupported(
                f"Serving needs DuckDB's extension {name}, which DuckDB {duckdb.__version__} "
                "cannot load.",
                hint=f"The newest DuckDB with a package of Quack is {NEWEST}: "
                f"{install_command('serve')} in an environment of its own. Or, where DuckDB finds "
                f"its extensions: INSTALL {name}.",
            ) from error


def extension_files() -> list[str]:
    """The files of the extensions for Quack that are installed as packages."""
    return [path for name in _EXTENSIONS if (path := _wheel(name))]


def check_readable(database: str) -> None:
    """Refuse a file that a newer DuckDB has written: it cannot be served with this one."""
    try:
        open_database(database, read_only=True).close()
    except duckdb.Error as error:
        if "version number" not in str(error):
            raise
        copy = str(Path(database).with_suffix(".v1.duckdb"))
        raise NotSupported(
            f"{database} was written by a newer DuckDB than {duckdb.__version__}, and the newest "
            f"DuckDB that can serve is {NEWEST}.",
            hint="Serve a copy that it can read. In the newer DuckDB:\n"
            f"ATTACH {literal(database)} AS newer;\n"
            f"ATTACH {literal(copy)} AS older (STORAGE_VERSION 'v1.5.0');\n"
            "COPY FROM DATABASE newer TO older;",
        ) from None


def _wheel(name: str) -> str | None:
    """The path of an extension that is installed as a Python package, for this DuckDB."""
    found = importlib.util.find_spec(f"duckdb_extension_{name}")
    if found is None or found.origin is None:
        return None
    folder = Path(found.origin).parent / "extensions" / f"v{duckdb.__version__}"
    path = folder / f"{name}.duckdb_extension"
    return str(path) if path.exists() else None
