"""The command that adds an optional part fits the way in which dp_sql was installed."""

import json

import pytest

from dp_sql.installation import command_for


class Installed:
    """A distribution with these files beside its metadata."""

    def __init__(self, **files: str) -> None:
        self._files = files

    def read_text(self, name: str) -> str | None:
        return self._files.get(name.partition(".")[0])


EDITABLE = json.dumps({"url": "file:///home/a/dp%20sql", "dir_info": {"editable": True}})
FOLDER = json.dumps({"url": "file:///home/a/dp_sql", "dir_info": {}})
WHEEL = json.dumps({"url": "file:///tmp/dp_sql-1.whl", "archive_info": {}})
CLONE = json.dumps(
    {"url": "https://example.org/dp.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}}
)


@pytest.mark.parametrize(
    ("files", "prefix", "command"),
    [
        ({"INSTALLER": "pip\n"}, "/venv", "pip install 'dp-sql[shell]'"),
        ({"INSTALLER": "uv"}, "/venv", "uv pip install 'dp-sql[shell]'"),
        ({}, "/venv", "pip install 'dp-sql[shell]'"),
        ({"direct_url": EDITABLE}, "/venv", "pip install -e '/home/a/dp sql[shell]'"),
        ({"direct_url": FOLDER}, "/venv", "pip install '/home/a/dp_sql[shell]'"),
        ({"direct_url": WHEEL}, "/venv", "pip install 'dp-sql[shell] @ file:///tmp/dp_sql-1.whl'"),
        (
            {"direct_url": CLONE, "INSTALLER": "uv"}, "/venv",
            "uv pip install 'dp-sql[shell] @ git+https://example.org/dp.git@abc'",
        ),
        (
            {"direct_url": FOLDER}, "/home/a/.local/pipx/venvs/dp-sql",
            "pipx install --force '/home/a/dp_sql[shell]'",
        ),
        (
            {"direct_url": EDITABLE}, "/home/a/.local/share/uv/tools/dp-sql",
            "uv tool install --force --editable '/home/a/dp sql[shell]'",
        ),
    ],
)  # fmt: skip
def test_the_command_fits_the_installation(
    files: dict[str, str], prefix: str, command: str
) -> None:
    assert command_for("shell", Installed(**files), prefix) == command  # type: ignore[arg-type]
