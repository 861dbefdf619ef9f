"""The documentation site: it builds without a warning, is whole, needs no network, and is true."""

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from fleetlake.endpoints import ENDPOINTS
from fleetlake.errors import FleetlakeError
from fleetlake.marts.catalogue import marts
from fleetlake.settings import Settings
from tests.support.consoles import BLOCK, console_commands, plain_settings, run_command, runnable
from tests.support.processes import Service, fleetlake, service
from tools import reference
from tools.blocks import filled
from tools.site_pages import DOCS, ELSEWHERE, ROOT, Unresolved, completed, page_of

README = ROOT / "README.md"
PAGES = list(page_of())
COMMANDS = {
    page: console_commands(page.read_text(encoding="utf-8")) for page in (README, *page_of())
}
OTHERWISE = (
    *("export FLEETLAKE_", "python -c ", "python3 -m venv ", "pip install ", "cd "),
    *(
        ". .venv/bin/activate",
        ". ~/fleetlake/bin/activate",
        "fleetlake --version",
        "sudo apt-get install ",
    ),
)
"""How a command begins that is neither a target of `make` nor a sub-command of fleetlake."""
LOADED = {"href": {"link"}, "src": {"script", "img", "iframe"}}
"""Attributes whose target a browser fetches when it shows the page, and their elements."""


class Page(HTMLParser):
    """The anchors of a built page, what it links to, and what it loads."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id":
                self.ids.add(value or "")
            elif tag == "a" and name == "href":
                self.links.add(value or "")
            elif tag in LOADED.get(name, ()):
                self.loads.add(value or "")


def test_each_page_is_in_the_navigation_once():
    named = re.findall(r'= "([\w/-]+\.md)"', (ROOT / "zensical.toml").read_text())

    assert sorted(named) == sorted(map(str, page_of().values()))


@pytest.mark.parametrize("page", PAGES)
def test_each_page_has_content_and_what_it_links_to_exists(page):
    assert len(completed(page)) > 300


def test_a_link_to_a_missing_file_is_an_error(monkeypatch):
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: "[text](nowhere.md)")

    with pytest.raises(Unresolved, match=r"nowhere\.md"):
        completed(DOCS / "tutorial.md")


def test_a_link_to_a_file_that_is_kept_elsewhere_leads_to_its_page():
    assert "[More than sixty questions](how-to/questions.md)" in completed(DOCS / "tutorial.md")
    assert (DOCS / "how-to/questions.md").exists() is False
    assert all((ROOT / name).exists() for name in ELSEWHERE)


def test_each_link_of_the_readme_leads_to_a_file_and_its_heading():
    links = re.findall(r"\]\(([\w./-]+)(?:#([\w-]+))?\)", README.read_text("utf-8"))
    broken = [
        name
        for name, anchor in links
        if not (ROOT / name).exists() or (anchor and anchor not in anchors_of(ROOT / name))
    ]

    assert len(links) > 25
    assert broken == []


def anchors_of(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as hosts of repositories name them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def test_the_tables_of_the_reference_match_the_code():
    for page in reference.REFERENCE.glob("*.md"):
        text = page.read_text(encoding="utf-8")

        assert filled(text, reference.BLOCKS) == text, "run `make reference`"


def test_the_stub_of_the_tables_matches_the_code():
    assert reference.STUB.read_text("utf-8") == reference.known_tables(), "run `make reference`"


def test_the_sql_of_shipped_panels_is_that_of_their_metrics():
    assert reference.WRITTEN.read_text("utf-8") == reference.metric_panels(), "run `make reference`"


def test_a_placeholder_in_angle_brackets_is_shown_and_not_read_as_html():
    assert "raw.&lt;endpoint>" in completed(DOCS / "reference" / "commands.md")
    assert "__<TARGET>`" in completed(DOCS / "how-to" / "outlets.md")


def test_the_reference_has_each_command_setting_table_column_and_error():
    text = "\n".join(page.read_text("utf-8") for page in reference.REFERENCE.glob("*.md"))
    commands = [name for name, _ in reference.leaf_commands()]
    columns = {c.name for e in ENDPOINTS.values() for c in e.columns}
    columns |= {column["name"] for mart in marts() for column in mart["columns"]}
    expected = {f"## {name}\n" for name in commands}
    expected |= {f"FLEETLAKE_{name.upper()}`" for name in Settings.model_fields}
    expected |= {f"## raw.{name}\n" for name in ENDPOINTS}
    expected |= {f"## marts.{mart['name']}\n" for mart in marts()}
    expected |= {f"| `{name}` |" for name in columns}
    expected |= {f"`{kind.__name__}`" for kind in FleetlakeError.__subclasses__() if kind.__doc__}

    missing = {one for one in expected if one not in text} - {"`ServiceError`"}  # a bare family
    assert len(commands) > 20
    assert missing == set()


@pytest.mark.parametrize("page", COMMANDS)
def test_every_command_on_a_page_exists(page):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    commands = {name for name, _ in reference.leaf_commands()}
    for line in COMMANDS[page]:
        if line.startswith("make "):
            assert line.split()[1] in targets
        elif not line.startswith(OTHERWISE):
            words = line.split()
            assert commands & {" ".join(words[:depth]) for depth in (2, 3, 4)}, line


def test_the_readme_links_to_the_documentation():
    assert "](docs/index.md)" in README.read_text()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site with `make site`; return a copy of it."""
    built = subprocess.run(
        ["make", "site"], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return Path(shutil.copytree(ROOT / "data" / "site", tmp_path_factory.mktemp("site") / "site"))


@pytest.mark.site
def test_the_site_builds_without_a_warning_and_every_link_and_anchor_leads_somewhere(site: Path):
    pages = {file: Page(file) for file in site.rglob("*.html") if file.name != "404.html"}
    broken = set()
    for file, page in pages.items():
        for link in page.links | page.loads:
            if re.match(r"https?:|mailto:|data:", link):
                continue
            name, _, anchor = link.partition("#")
            target = (file.parent / name).resolve() if name else file
            if not target.exists() or (anchor and anchor not in pages[target].ids):
                broken.add((file.name, link))

    assert len(pages) == len(PAGES)
    assert broken == set()


@pytest.mark.site
def test_the_site_loads_nothing_from_another_host(site: Path):
    foreign = {
        load
        for file in site.rglob("*.html")
        for load in Page(file).loads
        if re.match(r"(https?:)?//", load)
    }
    styles = "".join(file.read_text() for file in site.rglob("*.css"))

    assert foreign == set()
    assert re.findall(r"url\([\"']?https?:", styles) + re.findall(r"@import", styles) == []


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder whose lake holds a small demo, as the tutorial's has after its first one."""
    folder = tmp_path_factory.mktemp("tutorial") / "fleet"
    folder.mkdir()
    env = plain_settings(folder.parent)
    done = fleetlake("demo", "--routers", "10", "--days", "2", env=env, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.site
def test_the_tutorial_can_be_followed_to_its_end(project: Path):
    """Write its files and run its commands, in the order of the page."""
    folder = project.parent
    for block in BLOCK.finditer((DOCS / "tutorial.md").read_text(encoding="utf-8")):
        if block["file"]:
            (folder / block["file"]).write_text(block["text"])
        for line in console_commands(block[0]):
            if line.startswith("cd "):
                folder /= line.removeprefix("cd ")
            for command in runnable([line]):
                run_command(command, folder=folder, fleet=Service(""))

    published = {path.name for path in (project / "data" / "lake" / "published").iterdir()}
    assert folder == project
    assert {"weak_modems", "failovers_by_router"} <= published


@pytest.mark.site
def test_the_commands_of_all_other_pages_succeed(project: Path):
    """Run what `test_readme.py`, with the guides, and the tutorial leave."""
    others = [page for page in PAGES if page.parent.name in {"migrate", "explanation"}]
    commands = dict.fromkeys(line for page in others for line in runnable(COMMANDS[page]))
    with service(routers=5, days=1) as fleet:
        # Each page may be read first: its commands find a loaded lake.
        run_command("fleetlake ingest", folder=project, fleet=fleet)
        for line in commands:
            run_command(line, folder=project, fleet=fleet)

    assert len(commands) > 8
