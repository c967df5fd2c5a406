"""A Spark session. DP_SQL_TEST_SPARK says which: cluster, of two executors, which is classic; or
connect, to a server on this machine; or local, classic in one process.
"""

import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

KIND = os.environ.get("DP_SQL_TEST_SPARK", "local")
# A task is tried again only where its place says how often: local[threads, tries].
PLACES = {"cluster": "local-cluster[2,1,1024]", "connect": "local[2,3]", "local": "local[2,3]"}
# For rows so few, code that is not compiled is faster.
NOT_COMPILED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": "4",
    "spark.task.maxFailures": "3",
    "spark.sql.session.timeZone": "America/Los_Angeles",
    **NOT_COMPILED,
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark's Python warns of pandas and of itself."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.filterwarnings("ignore"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed: make spark")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    folder = tmp_path_factory.mktemp("spark")
    os.environ |= {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HOME": str(Path(pyspark.__file__).parent),  # where a local cluster's workers find it
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(_without_dp_sql(folder)),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pyspark.sql import SparkSession

        builder, place = SparkSession.builder, PLACES[KIND]
        builder = builder.remote(place) if KIND == "connect" else builder.master(place)
        for name, value in SETTINGS.items():
            builder = builder.config(name, value)
        session = builder.config("spark.sql.warehouse.dir", str(folder)).getOrCreate()
        yield session
        session.stop()


def _without_dp_sql(folder: Path) -> Path:
    """A folder for PYTHONPATH, because of which workers cannot import dp_sql."""
    (folder / "dp_sql.py").write_text("raise ImportError('a worker must not need dp_sql')\n")
    return folder
