"""How this dp_sql was installed, and so how an optional part of it is added."""

import json
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from urllib.parse import unquote, urlsplit

NAME = "dp-sql"


def install_command(extra: str) -> str:
    """The command that adds an extra to the environment that runs, with the tool that made it.

    A copy from a folder, an archive or a repository is named by that place, and by nothing else.
    """
    try:
        return command_for(extra, distribution(NAME), sys.prefix)
    except PackageNotFoundError:  # it runs from a folder that was never installed
        return f"pip install '.[{extra}]' in the folder of dp_sql"


def command_for(extra: str, found: Distribution, prefix: str) -> str:
    """The command for an installed distribution, in the environment at a prefix."""
    origin = json.loads(found.read_text("direct_url.json") or "{}")
    url, is_editable = origin.get("url", ""), origin.get("dir_info", {}).get("editable")
    what = f"{NAME}[{extra}]"
    if "dir_info" in origin:
        what = f"{unquote(urlsplit(url).path)}[{extra}]"
    elif url:
        vcs = origin.get("vcs_info", {})
        at = f"@{vcs['commit_id']}" if vcs.get("commit_id") else ""
        what += f" @ {vcs['vcs'] + '+' if vcs.get('vcs') else ''}{url}{at}"
    places = prefix.replace("\\", "/").split("/")
    flag = "-e " if is_editable else ""
    if "pipx" in places and "venvs" in places:
        return f"pipx install --force {'--editable ' * bool(is_editable)}'{what}'"
    if "uv" in places and "tools" in places:
        return f"uv tool install --force {'--editable ' * bool(is_editable)}'{what}'"
    tool = "uv pip" if (found.read_text("INSTALLER") or "").strip() == "uv" else "pip"
    return f"{tool} install {flag}'{what}'"
