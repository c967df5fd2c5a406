"""The shop with ratings: as a database with a policy, and in an owner's session."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import dp_sql
from tests.databases import write_with_policy
from tests.session.suggestions.ratings_shop import POLICY, TABLES


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_with_policy(tmp_path_factory.mktemp("shop"), "shop", TABLES, POLICY)


@pytest.fixture(scope="module")
def owner() -> Iterator[dp_sql.Session]:
    with dp_sql.connect() as session:
        session.execute(TABLES)
        yield session
