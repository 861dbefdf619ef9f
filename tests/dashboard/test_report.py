"""A report is one file with its rows, scripts and map, and asks nobody for anything."""

import json
import re
from datetime import date
from importlib.resources import files

import pytest
from typer.testing import CliRunner

from fleetlake.cli import app as commands
from fleetlake.dashboard import report as report_files
from fleetlake.dashboard.open_snapshots import PublishedSnapshot
from fleetlake.dashboard.panels import dashboard_pages
from fleetlake.dashboard.report import (
    Report,
    bundled,
    dated_reports,
    read_report,
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


LAST, BEFORE = ("2026-11-13", "2026-11-20"), ("2026-11-06", "2026-11-13")
SUMS = {
    "Availability": "100 * sum(primary_s + backup_s) / sum(known_s)"
    " from wan_availability_daily where wan_date",
    "Failovers": "count(*) from failover_episodes where started_at",
    "Data on backup": "coalesce(sum(backup_bytes), 0) from failover_episodes where started_at",
    "Alerts": "sum(alerts) from alert_volume where alert_date",
    "Data": "sum(total_bytes) from data_usage_daily where usage_date",
}


def test_the_first_page_compares_five_figures_of_a_week_with_the_week_before(report, held, world):
    told = held["answers"]["/api/compare/changes"]["values"]

    def summed(name, days):
        between = f">= '{days[0]}' and {SUMS[name].split()[-1]} < '{days[1]}'"
        return pytest.approx(float(world.sql(f"select {SUMS[name]} {between}")[0][0]))

    assert "<h2>What changed since last week</h2>" in report
    assert report.index("What changed since") < report.index("Appendix: ")
    assert [told[name][0] for name in ("since_date", "last_date", "before_date", "days")] == [
        *("2026-11-13", "2026-11-19", "2026-11-06", 7)
    ]
    assert told["figure"] == [*SUMS]
    assert told["value"] == [summed(name, LAST) for name in SUMS]
    assert told["earlier"] == [summed(name, BEFORE) for name in SUMS]
    assert told["is_sum"] == [False, True, True, True, True]


def test_the_first_page_of_an_incomplete_snapshot_says_what_is_missing(tmp_path):
    world = World(tmp_path)
    world.publish(only=("alert_volume",))

    report = read_report(world.published, last="30d").html

    assert "What changed in 30 days" in report
    said = held_in(report)["answers"]["/api/compare/changes"]["what"]
    assert "The published snapshot has no " in said
    assert "wan_availability_daily" in said


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
