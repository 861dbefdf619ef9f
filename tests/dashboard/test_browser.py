"""The pages in a browser: no error, no request to another host, readable by everyone."""

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fleetlake.dashboard.report import read_report
from tests.dashboard.browser_shown import ROUTER
from tests.dashboard.shown import CARDS, COUNTED, TABLES, expected
from tests.dashboard.test_own_pages import GOOD
from tests.dashboard.tiles import write_tiles
from tests.dashboard.world import NAMES, World
from tests.support.processes import environment

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

ROOT = Path(__file__).parents[2]
BROWSER = Path(os.environ.get("FLEETLAKE_BROWSER_ENV", ROOT / ".venv-browser"))
AXE = "axe-core-4.14.1.tgz"
AXE_INTEGRITY = (
    "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
)


@contextmanager
def served(world: World, folder: Path, *words: str) -> Iterator[str]:
    """Run the command over a published folder; yield its address."""
    command = [sys.executable, "-m", "fleetlake", "dashboard", "--port", "0", *words]
    settings = environment(folder, published=world.published)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=settings, cwd=folder
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().removeprefix("ready ").strip()
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def axe() -> Path:
    """Return the archive of axe-core, as npm published it."""
    archive = BROWSER / AXE
    found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    assert found == AXE_INTEGRITY
    return archive


@pytest.fixture(scope="module")
def seen(axe, tmp_path_factory):
    """Return all that the browser found, and what the pages had to show of each seed."""
    folder = tmp_path_factory.mktemp("browser")
    world = World(folder)
    world.publish()
    (folder / "fleetlake.toml").touch()
    (folder / "dashboard").mkdir()
    pie = '[panels.pie]\ntitle = "Pie"\nmarts = []\nsql = "select 1"\nkind = "pie"\n'
    (folder / "dashboard" / "mine.toml").write_text(GOOD + pie)
    script = Path(__file__).with_name("browser.py")
    shots = ROOT / "data" / "dashboard-shots"
    shots.mkdir(parents=True, exist_ok=True)
    found, shown = [], {}
    tiles = write_tiles(folder / "region.pmtiles")
    with served(world, folder) as url, served(world, folder, "--tiles", str(tiles)) as tiled:
        report = folder / "report.html"
        report.write_text(read_report(world.published).html, "utf-8")
        command = [BROWSER / "bin" / "python", script, url, axe, shots, report, tiled]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            for line in process.stdout:
                found.append(json.loads(line))
                match found[-1]:
                    case {"act": "publish", "seed": seed}:
                        world.publish(seed=seed)
                        shown[seed] = expected(world.sql)
                    case {"act": "publish"}:
                        found[-1]["snapshot"] = world.publish(seed=2).name
                    case {"act": "remove tiles"}:
                        tiles.unlink()
                    case _:
                        continue
                process.stdin.write("done\n")
                process.stdin.flush()
        assert process.returncode == 0
    return found, shown


def looks(seen):
    return [found for found in seen[0] if "look" in found]


def wrong(seen, name):
    """Return where something was found, and what."""
    pages = ((f"{f['look']} {f['width']} {f['theme']}", f[name]) for f in looks(seen))
    return {where: what for where, what in pages if what}


def test_every_page_was_looked_at_wide_and_narrow_light_and_dark(seen):
    assert len(looks(seen)) == 68


def test_no_page_has_an_error_on_the_console(seen):
    assert wrong(seen, "errors") == {}


def test_no_page_asks_another_host(seen):
    assert wrong(seen, "foreign") == {}


def test_no_page_is_wider_than_the_screen(seen):
    assert wrong(seen, "wider_by") == {}


def test_the_frame_of_a_page_takes_little_of_the_screen(seen):
    sizes = [(found["width"], found["look"], found["size"]) for found in looks(seen)]

    assert {path: size for width, path, size in sizes if width == 1440 and size["head"] > 48} == {}
    assert {path: size for width, path, size in sizes if width == 390 and size["top"] > 120} == {}
    empty = {(path, width): size["empty"] for width, path, size in sizes}
    assert {look: heights for look, heights in empty.items() if max(heights, default=0) >= 80} == {}
    assert sum(map(len, empty.values())) > 20


def test_a_narrow_page_ends_and_no_table_is_cut_off(seen):
    heights = {f["look"]: f["size"]["height"] for f in looks(seen) if f["width"] == 390}

    long = {"/now": 7_000, f"/device?last=all&router={ROUTER}": 5_000}  # all findings; ten panels
    assert {p: height for p, height in heights.items() if height > long.get(p, 4_000)} == {}
    assert {f["look"]: f["size"]["cut"] for f in looks(seen) if f["size"]["cut"]} == {}


def test_no_panel_shows_a_problem(seen):
    assert wrong(seen, "problems") == {}


def test_the_audit_of_accessibility_finds_nothing_serious(seen):
    assert wrong(seen, "axe") == {}
    assert min(found["axe_passed"] for found in looks(seen)) > 20


def test_hostile_names_are_shown_as_text(seen):
    [page] = [f for f in looks(seen) if (f["look"], f["width"]) == ("/now", 1440)][:1]
    shown = [name for name in NAMES if name and name[:200].strip() in page["text"]]

    assert "<script>alert('x')</script>" in page["text"]
    assert len(shown) >= 3


def test_what_people_do_on_the_pages_works(seen):
    done = [found for found in seen[0] if "act" in found and "is_right" in found]

    assert len(done) == 59
    assert [found["act"] for found in done if not found["is_right"]] == []
    for act in ("without WebGL the map is a picture", "nothing went wrong meanwhile"):
        [seen_then] = [found for found in done if found["act"] == act]
        assert seen_then["errors"] == seen_then["axe"] == seen_then["foreign"] == []


def test_a_report_opens_as_a_file_without_an_error_or_a_request(seen):
    opened = [found for found in seen[0] if "report" in found]

    assert len(opened) == 2
    for found in opened:
        assert found["errors"] == found["foreign"] == found["axe"] == found["problems"] == []
        assert found["wider_by"] == 0
        assert "Replace first" in found["text"]
        assert "<script>alert('x')</script>" in found["text"]


def test_a_new_snapshot_appears_by_itself(seen):
    [found] = [found for found in seen[0] if found.get("act") == "a new snapshot appears"]
    [published] = [f for f in seen[0] if f.get("act") == "publish" and "seed" not in f]

    assert found["snapshot"] == published["snapshot"]


def panels_of(seen, path):
    """Return what a page showed, by seed and panel."""
    return {f["seed"]: f["panels"] for f in seen[0] if f.get("shown") == path}


@pytest.mark.parametrize("table", TABLES, ids=lambda one: f"{one.path.split('?')[0]} {one.panel}")
def test_the_rows_of_a_page_are_those_of_sql_on_the_marts_for_three_seeds(seen, table):
    for seed, panels in panels_of(seen, table.path).items():
        rows = [tuple(row[place] for place in table.columns) for row in panels[table.panel]["rows"]]
        wanted = Counter(seen[1][seed]["tables"][table.path, table.panel])
        plain = Counter(tuple(cell.lstrip("▲◆● ") for cell in row) for row in rows)

        assert plain <= wanted, seed
        assert len(rows) == min(table.most, wanted.total()) > 0
    assert len(panels_of(seen, table.path)) == 3


@pytest.mark.parametrize("place", COUNTED, ids=" ".join)
def test_a_page_says_how_many_rows_there_are_or_shows_them_all_for_three_seeds(seen, place):
    path, panel = place

    shown = {seed: panels[panel] for seed, panels in panels_of(seen, path).items()}

    told = {seed: re.search(r"of ([\d,]+) rows", " ".join(s["notes"])) for seed, s in shown.items()}
    said = {
        seed: int(match[1]) if match else len(shown[seed]["rows"]) for seed, match in told.items()
    }
    assert said == {seed: one["counted"][place] for seed, one in seen[1].items()}
    assert len(said) == 3


@pytest.mark.parametrize("path", CARDS)
def test_the_cards_of_a_page_are_those_of_sql_on_the_marts_for_three_seeds(seen, path):
    for seed, panels in panels_of(seen, path).items():
        wanted = seen[1][seed]["cards"][path]

        cards = panels["summary"]["cards"]
        assert {name: cards[name].removeprefix("▲ ") for name in wanted} == wanted


def test_the_map_says_how_many_devices_it_shows_for_three_seeds(seen):
    shown = panels_of(seen, "/map")

    for seed, panels in shown.items():
        assert f"Devices located: {seen[1][seed]['located']}." in panels["map"]["notes"]
    assert len(shown) == 3


def test_the_map_draws_the_tiles_of_the_users_own_file(seen):
    [found] = [found for found in seen[0] if found.get("tiles") == "there"]

    assert found["water"] > 0.1
    assert {*found["statuses"]} == {206}
    assert found["errors"] == found["foreign"] == found["problems"] == []


def test_the_map_says_that_the_tiles_are_gone_and_draws_the_outlines(seen):
    [found] = [found for found in seen[0] if found.get("tiles") == "gone"]

    assert found["water"] == 0
    assert "cannot be drawn: no such file" in " ".join(found["told"])
    assert found["foreign"] == []
