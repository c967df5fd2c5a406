"""A served shop for the tests of a file, and a gateway that no network reaches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dp_sql.engines.duckdb.quack_server import Result
from dp_sql.server.gateway import Gateway
from tests.server.serving import Served


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("served")).open()
    yield served
    served.close()


class Shelf:
    """Stands in for the server: holds names."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.live: frozenset[str] = frozenset()

    def is_full(self) -> bool:
        return False

    def holds_more_than(self, n_bytes: int) -> bool:
        return False

    def hold(self, rows: Result) -> tuple[str, str]:
        self.names.append(f"answer_{len(self.names)}")
        return self.names[-1], f"FROM {self.names[-1]}"

    def drop(self, name: str) -> None:
        pass

    def connections(self) -> frozenset[str]:
        return self.live


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[tuple[Gateway, Served]]:
    served = Served(tmp_path)
    shelf: Any = Shelf()
    gateway = Gateway(str(served.database), str(served.policy), served.tokens, shelf)
    yield gateway, served
    gateway.close()
