"""`make docs`: the static site in build/site, from the project's Markdown files and declarations.

The pages keep their places in the repository, so each link means the same there and on the site.
"""

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from docs.site.reference import pages

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build"
PAGES, SITE = BUILD / "pages", BUILD / "site"
COPIED = (
    "*.md", "docs/**/*.md", "docs/site/*.css", "docs/site/*.js", "udfs/**/*.md",
    "dp_sql/budget/*.md", "dp_sql/engines/*.md", "benchmarks/*.md", "examples/*/README.md",
)  # fmt: skip
OUTPUT = re.compile(r"^```text$(.*?^```$)", re.DOTALL | re.MULTILINE)
IN_COLUMNS = re.compile(r"[│█]|(\S {2,}\S.*){3}")
PERCENT = re.compile(r"(?<=\d) %(?=.*\|$)", re.MULTILINE)
LINKED = re.compile(r"\]\((?!http)([^)#]+)")


def main() -> int:
    """Build the site and check its links; returns the exit code."""
    gather()
    zensical = [str(Path(sys.executable).with_name("zensical")), "build", "--clean", "--strict"]
    config = str(BUILD / "zensical.toml")
    if subprocess.run([*zensical, "--config-file", config], check=False).returncode:
        return 1
    dead = dead_links(SITE)
    print(*dead, f"{SITE / 'index.html'}: {len(dead)} dead links", sep="\n")
    return bool(dead)


def gather(folder: Path = PAGES) -> None:
    """Fill a folder with the pages and what they link to, and put the configuration beside it."""
    shutil.rmtree(folder, ignore_errors=True)
    files = {file for pattern in COPIED for file in ROOT.glob(pattern)}
    for page in [file for file in files if file.suffix == ".md"]:
        linked = (page.parent / link for link in LINKED.findall(page.read_text("utf-8")))
        files |= {file.resolve() for file in linked if file.is_file() and file.suffix != ".md"}
    for file in files:
        place = folder / file.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".md":
            text = PERCENT.sub("\N{NO-BREAK SPACE}%", file.read_text("utf-8"))  # in tables
            place.write_text(OUTPUT.sub(wrapped, text), "utf-8")
        else:
            shutil.copyfile(file, place)
    (folder / "docs" / "reference").mkdir()
    for name, text in pages().items():
        (folder / "docs" / "reference" / name).write_text(text, "utf-8")
    site = ROOT / "docs" / "site"
    shutil.copyfile(site / "nav.yml", folder / ".nav.yml")
    shutil.copyfile(site / "zensical.toml", folder.parent / "zensical.toml")


def wrapped(output: re.Match[str]) -> str:
    """Let the lines of an output wrap, unless it has a table or a bar; what follows a table may."""
    table, below, rest = output[1].partition("┘\n")
    if below and rest.strip("`\n") and not rest.startswith("  "):
        rest = rest.removeprefix("\n")
        return f"```text{table}┘\n```\n\n" + OUTPUT.sub(wrapped, f"```text\n{rest}")
    return output[0] if IN_COLUMNS.search(output[0]) else "```{ .text .wrap }" + output[1]


class Page(HTMLParser):
    """What a page links to or shows, and the names of its parts."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = {""}
        self.feed(file.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep links, pictures and names."""
        self.links += [value or "" for name, value in attrs if name in {"href", "src"}]
        self.anchors |= {value or "" for name, value in attrs if name in {"id", "name"}}


def dead_links(site: Path) -> list[str]:
    """The links within a site that lead to no file of it, or to no part of that page."""
    found = {file: Page(file) for file in sorted(site.rglob("*.html")) if file.name != "404.html"}
    dead = []
    for file, page in found.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            path = unquote(parts.path)
            target = Path(os.path.normpath(file.parent / path)) if path else file
            anchors = found[target].anchors if target in found else {unquote(parts.fragment)}
            if not target.is_file() or unquote(parts.fragment) not in anchors:
                dead.append(f"{file.relative_to(site)}: {link}")
    return dead


if __name__ == "__main__":
    sys.exit(main())
