"""A report is one file with its rows, scripts and map, and asks nobody for anything."""

import json
import re
from datetime import date
from html.parser import HTMLParser
from importlib.resources import files

import pytest
from typer.testing import CliRunner

from fleetlake.cli import app as commands
from fleetlake.dashboard import report_files
from fleetlake.dashboard.open_snapshots import PublishedSnapshot
from fleetlake.dashboard.panels import dashboard_pages
from fleetlake.dashboard.report import Report, bundled, read_report
from fleetlake.dashboard.report_changes import FIGURES, change_in_words
from fleetlake.dashboard.report_files import (
    dated_reports,
    remove_reports,
    write_dated_report,
    write_newest_report,
)
from fleetlake.errors import LakeError, OutputLost, UsageError
from fleetlake.privacy.copies import renew_reports
from fleetlake.settings import Settings
from tests.dashboard.asking import ask
from tests.dashboard.world import NAMES, World


@pytest.fixture(scope="module")
def report(world):
    return read_report(world.published).html


def held_in(report):
    """Return what a report holds, as its script reads it."""
    [data] = re.findall(
        r'<script type="application/json" id="held">(.*?)</script>', report, re.DOTALL
    )
    return json.loads(data)


@pytest.fixture(scope="module")
def held(report):
    return held_in(report)


def test_a_report_holds_what_the_dashboard_shows_for_the_same_time(held, app):
    pages = [page for page in dashboard_pages().values() if page.is_listed]
    panels = [
        panel
        for page in pages
        for panel in page.panels.values()
        if panel.is_in_report and not panel.needs
    ]

    shown = {p.path: ask(app, p.path, {"last": "7d"}).json()["values"] for p in panels}

    assert {path: answer["values"] for path, answer in held["answers"].items()} == shown
    assert len(shown) > 25
    assert held["given"] == {"last": "7d"}


class Page(HTMLParser):
    """The texts of the first page of a report: its figures with title and change, its sentences."""

    def __init__(self, report):
        super().__init__()
        self.tags, self.texts = [], {"dt": [], "dd": [], "li": [], "p": []}
        [first] = re.findall(r'<section id="changes">.*?</section>', report, re.DOTALL)
        self.feed(first)

    def handle_starttag(self, tag, _attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.texts.get(self.tags[-1], []).append(data)

    @property
    def figures(self):
        values = iter(self.texts["dd"])
        return dict(zip(self.texts["dt"], zip(values, values, strict=True), strict=True))


LAST, BEFORE = ("2026-11-13", "2026-11-20"), ("2026-11-06", "2026-11-13")
SUMS = {
    "Availability": "100 * sum(primary_s + backup_s) / sum(known_s)"
    " from wan_availability_daily where wan_date",
    "Failovers": "sum(episodes_started) from failover_daily where failover_date",
    "Data on backup": "sum(backup_bytes) / 1e6 from failover_daily where failover_date",
    "Alerts": "sum(alerts) from alert_volume where alert_date",
}


def test_the_first_page_compares_five_figures_of_a_week_with_the_week_before(report, world):
    page = Page(report)

    def summed(name, days):
        between = f">= '{days[0]}' and {SUMS[name].split()[-1]} < '{days[1]}'"
        return float(world.sql(f"select {SUMS[name]} {between}")[0][0])

    assert page.texts["p"] == [
        "2026-11-13 to 2026-11-19, compared with 2026-11-06 to 2026-11-12 (UTC days)."
    ]
    assert [*page.figures] == [*SUMS, "New attention"]
    for name in SUMS:
        value, change = page.figures[name]
        unit = {"Availability": ".2f", "Data on backup": ",.1f"}.get(name, ",.0f")
        assert value.split()[0] == f"{summed(name, LAST):{unit}}"
        assert f"{summed(name, BEFORE):{unit}}" in change
    [(is_open, new)] = world.sql(
        "select count(*), count(*) filter (since_at >= '2026-11-13') from attention"
    )
    assert page.figures["New attention"] == (str(new), f"of {is_open}")
    assert len(page.texts["li"]) == len(page.figures)
    [(most, count)] = world.sql(
        "select alert_type, sum(alerts)::int from alert_volume where alert_date between"
        " '2026-11-13' and '2026-11-19' group by 1 order by 2 desc, 1 limit 1"
    )
    assert f"most: {most} ({count:,})" in page.texts["li"][3]


@pytest.mark.parametrize(
    ("now", "then", "words"),
    [
        ((14, 7), (7, 7), "100 % more (7 before)"),
        ((7, 7), (14, 7), "50 % less (14 before)"),
        ((7, 7), (7, 7), "as many as before (7 before)"),
        ((0, 7), (0, 7), "as before (0 before)"),
        ((5, 7), (0, 7), "0 before"),
        ((14, 7), (2, 2), "100 % more a day (2 before in 2 known days)"),
        ((3, 3), (1, 1), "as many a day as before (1 before in 1 known day)"),
    ],
)
def test_a_change_is_said_in_words_and_by_day_where_days_are_missing(now, then, words):
    failovers = next(figure for figure in FIGURES if figure.title == "Failovers")

    assert change_in_words(failovers, now, then, 7) == words


def test_a_share_changes_by_points():
    availability = FIGURES[0]

    assert (
        change_in_words(availability, (99.5, 7), (99.75, 3), 7) == "-0.25 points (99.75 % before)"
    )


def test_the_first_page_says_what_an_incomplete_snapshot_cannot_say(tmp_path):
    world = World(tmp_path)
    world.publish(only=("alert_volume",))
    page = Page(read_report(world.published, last="30d").html)

    assert page.figures["Alerts"][1] == "nothing known before"
    assert {page.figures[name] for name in page.figures if name != "Alerts"} == {
        ("?", "not published")
    }
    assert "Failovers: The published snapshot has no failover_daily" in page.texts["li"][1]
    assert "2026-10-21 to 2026-11-19" in page.texts["p"][0]


def test_a_report_may_run_its_own_scripts_and_make_no_request(report):
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]*)"', report)

    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "connect-src" not in policy
    assert not re.search(r"<(?:script|link|img|iframe)[^>]* (?:src|href)=", report)


def test_a_hostile_name_does_not_end_the_script_that_holds_it(report, held):
    assert "<script>alert" not in report
    assert report.count("</script>") == 4
    assert {*held["answers"]["/api/map/map"]["values"]["router_name"]} >= {*NAMES}


def test_the_bundle_names_each_module_once_and_imports_nothing():
    text = bundled("report")

    modules = re.findall(r"^const module_(\w+) = ", text, re.MULTILINE)
    assert len(modules) == len(set(modules)) > 5
    assert modules[-1] == "report"
    assert not re.search(r"^(?:import|export) ", text, re.MULTILINE)
    static = files("fleetlake.dashboard") / "static"
    written = "\n".join((static / f"{name}.js").read_text("utf-8") for name in modules)
    statements = re.sub(r"^(?:import|export \{)[^;]*;$", "", written, flags=re.MULTILINE)
    lines = [line.removeprefix("export ") for line in statements.splitlines() if line]
    own = re.compile(r"const (module_|\{.*\} = module_)|return \{.*\};$|\}\)\(\);$")
    assert [line for line in text.splitlines() if line and not own.match(line)] == [
        line for line in lines if not own.match(line)
    ]


def test_the_outlines_keep_their_shapes_and_lose_what_is_not_drawn(held):
    states = held["outlines"]["us"]

    used = {abs(arc + 0.5) - 0.5 for arc in numbers(states["objects"]["states"])}
    assert len(states["objects"]["states"]["geometries"]) > 50
    assert used == set(range(len(states["arcs"])))


def numbers(value):
    """Yield every arc that a geometry names."""
    if isinstance(value, dict):
        for one in value.values():
            yield from numbers(one)
    elif isinstance(value, list):
        for one in value:
            yield from numbers(one)
    elif isinstance(value, int):
        yield value


def test_the_command_writes_one_file_and_says_where(world, tmp_path):
    file = tmp_path / "report.html"

    done = CliRunner().invoke(
        commands, ["report", "--week", "--from", str(world.published), "--output", str(file)]
    )

    assert done.exit_code == 0, done.output
    assert file.read_text("utf-8").startswith("<!doctype html>")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--week", "--month"], UsageError),
        (["--from", "nowhere"], LakeError),
        (["--output", "no/such/folder/report.html"], OutputLost),
    ],
)
def test_a_report_that_cannot_be_written_says_why(world, tmp_path, monkeypatch, words, error):
    monkeypatch.chdir(tmp_path)
    given = ["report", *([] if "--from" in words else ["--from", str(world.published)]), *words]

    done = CliRunner().invoke(commands, given)

    assert isinstance(done.exception, error)
    assert list(tmp_path.iterdir()) == []


def test_a_report_closes_the_snapshot_that_it_read(world, monkeypatch):
    closed = []
    close = PublishedSnapshot.close
    monkeypatch.setattr(PublishedSnapshot, "close", lambda one: closed.append(one) or close(one))

    read_report(world.published)

    assert len(closed) == 1


def test_dated_reports_beyond_the_latest_are_removed_and_other_files_stay(world, tmp_path):
    for name in ("fleet-report-2026-11-01.html", "fleet-report-2026-11-12.html", "my-report.html"):
        (tmp_path / name).touch()

    file = write_dated_report(world.published, tmp_path, keep=2)

    assert [kept.name for kept in dated_reports(tmp_path)] == [
        "fleet-report-2026-11-20.html",
        "fleet-report-2026-11-12.html",
    ]
    assert file == dated_reports(tmp_path)[0]
    assert held_in(file.read_text())["given"] == {"last": "7d"}
    assert (tmp_path / "my-report.html").exists()


def test_all_reports_are_removed_on_request(world, tmp_path):
    folder = tmp_path / "reports"
    write_newest_report(world.published, folder)
    write_dated_report(world.published, folder)
    (folder / "notes.txt").touch()
    (folder / f"fleet-report-2026-11-01.html.{'0' * 32}.new").touch()  # a process was killed

    assert remove_reports(folder) == 2
    assert [file.name for file in folder.iterdir()] == ["notes.txt"]
    assert remove_reports(tmp_path / "nowhere") == 0


@pytest.mark.parametrize("write", [write_newest_report, write_dated_report])
def test_a_report_that_was_read_before_an_erasure_does_not_stay(tmp_path, monkeypatch, write):
    published, days = tmp_path / "published", [20, 21]
    published.mkdir()

    def publish(name):
        (published / "snapshot.json").write_text(json.dumps({"snapshot": name}))

    def read(_folder, **_how):
        day = days.pop(0)
        if not days:
            return Report(html="without", day=date(2026, 11, day), snapshot="second")
        publish("second")  # and the erasure removes the reports that there are
        return Report(html="erased", day=date(2026, 11, day), snapshot="first")

    publish("first")
    monkeypatch.setattr(report_files, "read_report", read)

    file = write(published, tmp_path / "reports")

    assert [kept.read_text("utf-8") for kept in file.parent.iterdir()] == ["without"]


@pytest.mark.proof
def test_after_an_erasure_only_a_newly_written_report_is_left(world, tmp_path):
    settings = Settings(
        lake=tmp_path / "lake", published=world.published, reports=tmp_path / "reports"
    )
    write_dated_report(world.published, settings.reports)
    (settings.reports / "fleet-report.html").write_text("of before")

    [told] = renew_reports(settings, is_published=True)

    assert told.done.startswith("2 reports removed")
    [kept] = settings.reports.iterdir()
    assert kept.read_text("utf-8") == read_report(world.published).html


def test_a_report_says_which_panel_takes_too_long_and_shows_the_others(world, monkeypatch):
    read = PublishedSnapshot.rows

    def rows(snapshot, sql, parameters, **how):
        endless = "select count(*) as n from range(1000000) a, range(1000000) b"
        is_drives = "longest" in sql
        how |= {"seconds": 0.05} if is_drives else {}
        return read(snapshot, endless if is_drives else sql, {} if is_drives else parameters, **how)

    monkeypatch.setattr(PublishedSnapshot, "rows", rows)

    text = read_report(world.published).html

    told = [answer["what"] for answer in held_in(text)["answers"].values() if "what" in answer]
    assert len(told) == 1
    assert told[0].startswith("The query is too large. Choose")
    assert "V700-Denver-00001" in text
