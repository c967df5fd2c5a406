"""dbt builds an owner's tables of answers, with the plugin that docs/integrations.md shows."""

import os
import re
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from tests.conftest import SURE
from tests.integrations.test_clients import INTEGRATIONS
from tests.integrations.test_dbapi import write_shop

COUNT = f"DP_COUNT_DISTINCT(user_id, {SURE}, privacy_unit := user_id)"
MODELS = {
    "plain": f"SELECT {COUNT} AS n FROM ratings",
    "grouped": "{{ config(materialized='incremental') }} FROM dp($$ "
    f"SELECT title, {COUNT[:-1]}, groups := catalog.title) AS n FROM ratings GROUP BY title $$)",
    "joined": "SELECT g.title, p.n FROM {{ ref('plain') }} p, {{ ref('grouped') }} g",
}

COUNTED = "        atexit.register(lambda: print('releases:', len(dp_sql.receipts(conn))))\n"


def test_dbt_makes_one_release_for_each_model(tmp_path: Path) -> None:
    pytest.importorskip("dbt.adapters.duckdb")
    shop = write_shop(tmp_path)
    part = INTEGRATIONS.partition("\n## dbt\n")[2]
    ((plugin, profile),) = re.findall(r"```python\n(.*?)```.*?```text\n(.*?)```", part, re.DOTALL)
    (shop / "dp_sql_dbt.py").write_text(f"import atexit\n{plugin}{COUNTED}")
    (shop / "profiles.yml").write_text(profile)
    (shop / "dbt_project.yml").write_text(
        "name: shop\nprofile: shop\nmodels: {+materialized: table}"
    )
    (shop / "models").mkdir()
    for name, text in MODELS.items():
        (shop / "models" / f"{name}.sql").write_text(text)
    command = [sys.executable, "-m", "dbt.cli.main", "--quiet", "run", "--profiles-dir", "."]
    quiet = {"DO_NOT_TRACK": "1", "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"}
    done = subprocess.run(
        command, cwd=shop, env=os.environ | quiet, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.split()) == (0, ["releases:", "2"])
    with duckdb.connect(str(shop / "shop.duckdb")) as con:
        assert (
            con.sql("FROM plain").fetchall() == con.sql("SELECT DISTINCT n FROM joined").fetchall()
        )
        assert con.sql("SELECT count(*) FROM joined").fetchall() == [(4,)]
