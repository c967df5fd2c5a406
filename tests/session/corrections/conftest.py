"""The shop with orders: as a database with a policy, in an owner's session, and in plain DuckDB."""

from collections.abc import Iterator

import duckdb
import pytest

from tests.databases import fixtures_of, installed_in
from tests.session.corrections.orders_shop import POLICY, TABLES

shop, owner = fixtures_of(TABLES, POLICY)
installed = installed_in(TABLES)


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        con.execute(TABLES)
        yield con
