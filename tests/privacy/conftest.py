"""The wide table, for the tests of a file."""

from collections.abc import Iterator

import pytest

from tests.privacy.wide_table import Wide


@pytest.fixture(scope="module")
def wide() -> Iterator[Wide]:
    wide = Wide()
    yield wide
    wide.connection.close()
