"""The site: its navigation, its generated pages, its links, and that each block is run somewhere."""

import re
from pathlib import Path

import dp_sql
from docs.site.build import LINKED, dead_links, gather
from docs.site.reference import PYTHON, pages
from dp_sql.sql.functions import FUNCTIONS
from tests.test_docs import COMMANDS, PAGES, ROOT, TEXT
from tests.test_policy_page import keys_of

LINES = re.compile(r"^(?!```).+$", re.MULTILINE)
NAVIGATION = (ROOT / "docs" / "site" / "nav.yml").read_text("utf-8")
# Where the blocks of a page are run: a test that reads them from it. Blocks of `text` are what is
# printed, and of `sh` commands, whose names and options are checked on every page.
RUN_BY = {
    "tests/test_docs.py": {
        ("README.md", "python"), ("choosing_epsilon.md", "python"), ("data.md", "sql"),
        ("cheat_sheet.md", "sql"),
        ("errors.md", "sql"), ("notebooks.md", "python"), ("reading_answers.md", "sql"),
        ("serve.md", "sql"), ("sessions.md", "python"), ("sql.md", "python"), ("sql.md", "sql"),
        ("superset.md", "python"), ("superset.md", "sql"),
    },
    "tests/test_policy_page.py": {
        ("budget.md", "toml"), ("dashboards.md", "toml"), ("policy.md", "sql"), ("policy.md", "toml"),
        ("spark.md", "toml"), ("superset.md", "toml"),
    },
    "tests/test_tutorials.py": {
        (page, language) for page in ("analyst.md", "owner.md")
        for language in ("python", "sql", "toml")
    },
    "tests/integrations/test_clients.py": {("integrations.md", "python")},
    "tests/server/test_serve_clients.py": {("serve.md", "python")},
    "tests/engines/spark/test_page.py": {("spark.md", "python")},
}  # fmt: skip


def test_every_block_of_every_page_is_run() -> None:
    shown = {
        (page.name, language)
        for page in PAGES
        for language in re.findall(r"^ *```(\w+)$", TEXT[page.name], re.MULTILINE)
        if language not in {"text", "sh"}
    }
    tested = {block for those in RUN_BY.values() for block in those}
    assert shown - tested == set()
    assert {page for page, _ in tested - shown} <= {"analyst.md", "owner.md"}
    for test, those in RUN_BY.items():
        text = (ROOT / test).read_text("utf-8")
        assert all(page in text or page in {"analyst.md", "owner.md"} for page, _ in those), test


def test_every_page_is_in_the_navigation_and_nothing_else() -> None:
    listed = re.findall(r"([\w/*.]+\.md)$", NAVIGATION, re.MULTILINE)
    found = {str(path.relative_to(ROOT)) for name in listed for path in ROOT.glob(name)}
    generated = {f"docs/reference/{name}" for name in pages()}
    assert {name for name in listed if not [*ROOT.glob(name)]} == generated
    notes = [*(ROOT / "udfs").rglob("*.md"), *PAGES]
    assert {str(path.relative_to(ROOT)) for path in notes} <= found


def test_the_reference_has_every_function_key_and_command() -> None:
    functions, keys, commands, python = pages().values()
    for name, function in FUNCTIONS.items():
        part = functions.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        assert all(f"`{word}`" in part for word in (*function.named, *function.mechanisms))
    assert all(f"| `{key}` |" in keys for key in keys_of("budget.") + keys_of("limits."))
    assert commands.count("-h, --help") == commands.count("\n## ")
    assert "`dp-sql ledger witness`" not in commands  # an older name, which --help does not list
    for one, inner in COMMANDS.items():
        for path in (one, *(f"{one} {more}" for more in inner)):
            assert f"\n## `dp-sql {path}`\n" in commands
    named = {name for names in PYTHON.values() for name in names}
    assert {name for name in named if f"::: {name}\n" not in python} == set()
    assert {f"dp_sql.{name}" for name in dp_sql.__all__} <= named


def test_what_a_page_links_to_is_on_the_site(tmp_path: Path) -> None:
    gather(tmp_path / "pages")
    found = {
        page: [page.parent / link for link in LINKED.findall(page.read_text("utf-8"))]
        for page in (tmp_path / "pages").rglob("*.md")
    }
    assert sum(map(len, found.values())) > 200
    for page, files in found.items():
        assert [str(file) for file in files if not file.is_file()] == [], page


def test_messages_wrap_and_tables_do_not(tmp_path: Path) -> None:
    gather(tmp_path / "pages")
    owner = (tmp_path / "pages" / "docs" / "tutorials" / "owner.md").read_text("utf-8")
    assert "```{ .text .wrap }\nLedgerError: The ledger" in owner
    assert "```text\n┌" in owner and "```text\nnumber  time" in owner
    readme = (tmp_path / "pages" / "README.md").read_text("utf-8")
    assert "┘\n```\n\n```{ .text .wrap }\ndp_topk(title, 2) FROM ratings\n" in readme
    analyst = (tmp_path / "pages" / "docs" / "tutorials" / "analyst.md").read_text("utf-8")
    assert "┘\n```\n\n```{ .text .wrap }\nwith probability 95 %, all 7 counts" in analyst
    assert "┘\n  12 rows  " in analyst and "┘\n```\n\nRead" not in analyst
    for made, page in ((owner, "owner"), (analyst, "analyst")):
        written = (ROOT / "docs" / "tutorials" / f"{page}.md").read_text("utf-8")
        assert [*LINES.findall(made)] == [*LINES.findall(written)]
        assert len(re.findall(r"(?m)^ *```", made)) % 2 == 0
    compared = (tmp_path / "pages" / "docs" / "comparison.md").read_text("utf-8")
    assert "\N{NO-BREAK SPACE}%" in compared and not re.search(r"(?m)^\|.*\d %", compared)


def test_github_and_the_site_see_the_same_lists() -> None:
    """The site needs four spaces within an item, and an empty line before a list."""
    unlike = re.compile(r"\n\n {1,3}\S.*|\n[^\s|>-].*\n- .*|\n +\d\d+\. .*")
    for path in [*PAGES, *ROOT.glob("udfs/*/*.md")]:
        text = re.sub(
            r"^( *)```.*?^\1```", "", path.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE
        )
        assert unlike.findall(text) == [], path


def test_no_words_in_brackets_are_links_without_a_target() -> None:
    """The site reads [a] [b] as a link of the words a to a part b."""
    for path in [*PAGES, ROOT / "CHANGELOG.md", *ROOT.glob("udfs/**/*.md")]:
        text = re.sub(r"(`+).*?\1", "", path.read_text("utf-8"), flags=re.DOTALL)
        assert re.findall(r"\S*\]\s?\[\S*", text) == [], path


def test_a_dead_link_of_the_site_is_found(tmp_path: Path) -> None:
    links = ["b.html#x", "b.html#y", "c.html", "#z", "https://x.y"]
    page = "".join(f'<a href="{link}">.</a>' for link in links)
    (tmp_path / "a.html").write_text(f'{page}<img src="no.png">', "utf-8")
    (tmp_path / "b.html").write_text('<h1 id="x">b</h1> <a href="a.html">a</a>', "utf-8")
    dead = ["b.html#y", "c.html", "#z", "no.png"]
    assert dead_links(tmp_path) == [f"a.html: {link}" for link in dead]
