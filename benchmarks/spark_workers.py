"""A distinct count of zipf pairs on a local Spark cluster: `python -m benchmarks.spark_workers 1 10000000`.

Prints seconds of the jobs and of the driver, and CPU seconds of the driver and of each executor.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dp_sql
from benchmarks.pair_files import zipf
from dp_sql.engines.spark.jobs import SparkJobs

_QUERY = "SELECT DP_COUNT_DISTINCT(item, epsilon := 1, privacy_unit := user_id) FROM pairs"


def main(n_workers: int, n_rows: int, folder: Path) -> None:
    import pyspark
    from pyspark.sql import SparkSession

    os.environ |= {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PYSPARK_PYTHON": sys.executable,
    }
    place = f"local-cluster[{n_workers},1,2048]"
    spark = SparkSession.builder.master(place).config("spark.ui.enabled", "false").getOrCreate()
    spark.read.parquet(str(zipf(folder, n_rows))).createOrReplaceTempView("pairs")
    with dp_sql.connect(spark) as session, _timed() as in_jobs:
        few = "(SELECT * FROM pairs WHERE user_id < 1000)"
        session.sql(_QUERY.replace("pairs", few))  # starts workers
        before = _executors()
        in_jobs.clear()
        started, cpu = time.perf_counter(), time.process_time()
        session.sql(_QUERY)
        wall, cpu, after = time.perf_counter() - started, time.process_time() - cpu, _executors()
    of_executors = [round(after[one] - before.get(one, 0), 1) for one in after]
    print(
        f"{n_workers} workers, {n_rows:,} rows: {len(in_jobs)} jobs {sum(in_jobs):.1f} s, driver {wall - sum(in_jobs):.1f} s; "
        f"CPU: driver {cpu:.1f} s, executors {of_executors} s"
    )
    spark.stop()


@contextmanager
def _timed() -> Iterator[list[float]]:
    """The seconds that each job takes."""
    found: list[float] = []
    right: Any = SparkJobs._tagged

    @contextmanager
    def tagged(self: SparkJobs) -> Iterator[None]:
        started = time.perf_counter()
        with right(self):
            yield
        found.append(time.perf_counter() - started)

    SparkJobs._tagged = tagged  # type: ignore[method-assign]
    yield found
    SparkJobs._tagged = right  # type: ignore[method-assign]


def _executors() -> dict[int, float]:
    """CPU seconds of this program's executors, each with its Python workers; Linux only."""
    parents, seconds, found = dict[int, int](), dict[int, float](), dict[int, float]()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
            command = stat.with_name("cmdline").read_text()
        except OSError:  # it has ended
            continue
        number = int(stat.parent.name)
        parents[number] = int(fields[1])
        seconds[number] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
        if "CoarseGrainedExecutorBackend" in command:
            found[number] = 0.0
    for number in seconds:
        above, line = number, []
        while above in parents:
            line.append(above)
            above = parents[above]
        if os.getpid() in line and (own := next((one for one in line if one in found), None)):
            found[own] += seconds[number]
    return {number: cpu for number, cpu in found.items() if cpu}


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(".cache") / "pairs")
