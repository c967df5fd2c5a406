"""The blocks of docs/spark.md run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.test_docs import ROOT, blocks

POLICY = """
tables.ratings.privacy_unit = "user_id"
domains."ratings.title" = ["Dune", "Walden", "Ulysses"]
budget = { dataset = "shop", epsilon = 1 }
"""


def test_the_examples_run(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("policy.toml").write_text(POLICY, "utf-8")
    owner, analyst = blocks("python", (ROOT / "docs" / "spark.md").read_text("utf-8"))
    names: dict[str, Any] = {}
    exec(owner, names)
    assert "mechanism  joint" in capsys.readouterr().out
    exec(analyst, names)
    with names["session"] as session:
        assert "ratings" in {name for name, *_ in session.sql("SHOW TABLES").fetchall()}
