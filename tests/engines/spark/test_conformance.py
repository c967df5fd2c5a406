"""Spark answers as every engine must."""

from pathlib import Path
from typing import Any

import duckdb
import pytest

from dp_sql.engines.spark import jobs
from dp_sql.engines.spark.jobs import SparkJobs
from tests.engines.conformance import Conformance
from tests.engines.spark.asking import Asking

pytestmark = pytest.mark.filterwarnings("ignore")  # Spark warns of pandas and of itself


class TestSpark(Conformance):
    @pytest.fixture(autouse=True)
    def _on_spark(self, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(jobs, "MERGED_HERE", 2)  # three parts are merged in Spark
        self.spark, self.folder, self.n_folders = spark, tmp_path, 0

    def engine_over(self, connection: duckdb.DuckDBPyConnection) -> SparkJobs:
        self.asking = Asking(self.spark, connection, self._new_folder())
        return self.asking.jobs(n_parts=3)

    def changed(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.asking.folder, self.asking.frames = self._new_folder(), {}

    def _new_folder(self) -> Path:
        self.n_folders += 1
        folder = self.folder / str(self.n_folders)
        folder.mkdir()
        return folder
