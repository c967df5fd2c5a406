"""A served shop for the tests of a file, and a gateway that no network reaches."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dp_sql.server.gateway import Gateway
from tests.server.serving import Served, Shelf


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("served")).open()
    yield served
    served.close()


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[tuple[Gateway, Served]]:
    served = Served(tmp_path)
    shelf: Any = Shelf()
    gateway = Gateway(str(served.database), str(served.policy), served.tokens, shelf)
    yield gateway, served
    gateway.close()
