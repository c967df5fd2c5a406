"""The wide table, and a session over visits, for the tests of a file."""

from collections.abc import Iterator

import pytest

import dp_sql
from dp_sql.session.analyst import AnalystSession
from tests.privacy.visits import written
from tests.privacy.wide_table import Wide


@pytest.fixture(scope="module")
def wide() -> Iterator[Wide]:
    wide = Wide()
    yield wide
    wide.connection.close()


@pytest.fixture(scope="module")
def visitor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnalystSession]:
    database, policy = written(tmp_path_factory.mktemp("domains"))
    with dp_sql.connect(database, policy=policy, analyst="reporting") as session:
        yield session
