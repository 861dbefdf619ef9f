"""The command line as a user sees it, above all when something is wrong."""

import csv
import io
import json
import re
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fleetlake import errors
from fleetlake.cli import app
from fleetlake.cli.formats import instant
from fleetlake.cli.lake_records import _remedy
from fleetlake.lake import open_lake
from fleetlake.lake.attach import extension_path
from fleetlake.lake.locks import commit_lock
from fleetlake.loading.outcome import Outcome, outcome_line, totals_line
from fleetlake.loading.verify import Comparison
from fleetlake.machine.source_commit import source_commit
from fleetlake.monitoring.doctor import run_checks
from fleetlake.planning.intervals import Interval
from fleetlake.settings import Settings, load_settings
from tests.support.processes import Service, command, environment, fleetlake, query, service


@pytest.fixture(scope="module")
def fleet() -> Iterator[Service]:
    """Return a simulated service that the tests of this module share."""
    with service(routers=5, days=1) as running:
        yield running


def test_version_and_commit_are_printed() -> None:
    printed = CliRunner().invoke(app, ["--version"]).output

    assert printed == f"fleetlake {version('fleetlake')} (commit {source_commit() or 'unknown'})\n"


def test_help_names_every_exit_code_in_use() -> None:
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).output

    codes = {
        kind.exit_code
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.FleetlakeError)
    }
    assert all(re.search(rf"\b{code}\b", shown) for code in codes)


@pytest.mark.proof
def test_a_wrong_key_is_one_paragraph_and_nothing_is_loaded(fleet: Service, tmp_path: Path) -> None:
    env = environment(tmp_path, fleet.url, mgr_api_key="not-the-key")

    done = fleetlake("ingest", env=env)

    assert done.returncode == 4
    assert done.stderr.count(" returned 401:") == 1
    assert "FLEETLAKE_PORTAL_API_ID, " in done.stderr
    assert "Traceback" not in done.stderr
    assert query("select count(*) as n from meta.loads", env) == [{"n": 0}]


@pytest.mark.proof
def test_a_host_that_does_not_respond_is_named_within_seconds(tmp_path: Path) -> None:
    done = fleetlake("ingest", env=environment(tmp_path, "http://127.0.0.1:9"), timeout=30)

    assert done.returncode == 5
    assert "127.0.0.1:9" in done.stderr
    assert "What to do" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.proof
@pytest.mark.parametrize("screen", [{}, {"FORCE_COLOR": "1"}], ids=["lines", "bars"])
def test_a_load_reports_the_end_of_each_stream_once_and_then_the_totals(
    fleet: Service, tmp_path: Path, screen: dict[str, str]
) -> None:
    env = environment(tmp_path, fleet.url)

    done = fleetlake("ingest", "accounts", "users", env={**env, **screen})

    served = {name: len(fleet.truth(name)) for name in ("accounts", "users")}
    reported = re.findall(r"(\w+): (\d+) added \(\d calls?, [\d.]+ s\)", done.stderr)
    assert sorted(reported) == [(name, str(rows)) for name, rows in served.items()]
    reported = re.fullmatch(r"2 streams: (\d+) rows added \(3 calls, [\d.]+ s\)\n", done.stdout)
    assert reported
    assert int(reported[1]) == sum(served.values())


def test_the_totals_of_a_load_count_changed_and_quarantined_rows_and_failed_streams() -> None:
    bad = Outcome(
        endpoint="users",
        added=1,
        calls=3,
        seconds=2.0,
        error=errors.Unreachable("Nobody answered."),
    )
    fair = Outcome(
        endpoint="alerts",
        added=1200,
        changed=4,
        quarantined=2,
        calls=1,
        seconds=0.51,
        profile="west",
        lost=1,
    )

    assert outcome_line(bad) == "users: Nobody answered."
    assert outcome_line(fair) == (
        "alerts of west: 1,200 added, 4 changed, 2 quarantined, "
        "1 range lost: see `fleetlake records gaps` (1 call, 0.5 s)"
    )
    assert outcome_line(replace(fair, endpoint="batteries", profile="default", lost=0)) == (
        "batteries: 1,200 versions added, 4 ended, 2 quarantined (1 call, 0.5 s)"
    )
    assert totals_line([bad, fair], seconds=2.5) == (
        "1 of 2 streams: 1,201 rows added, 4 changed, 2 quarantined, "
        "1 range lost: see `fleetlake records gaps` (4 calls, 2.5 s)"
    )


def test_a_lake_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    env = environment(tmp_path, "http://127.0.0.1:9", lake=tmp_path / "file" / "lake")

    done = CliRunner().invoke(app, ["ingest"], env=env).exception

    assert isinstance(done, errors.LakeError)
    assert str(tmp_path / "file" / "lake") in done.what
    assert "FLEETLAKE_LAKE" in done.remedy


def test_a_port_in_use_is_named_with_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        words = ["simulate", "--port", str(port), "--routers", "1", "--days", "0.01"]
        done = CliRunner().invoke(app, words)

    assert isinstance(done.exception, errors.UsageError)
    where = f"127.0.0.1, port {port}"
    assert done.exception.what == f"Cannot listen on {where}: Address already in use."
    assert "--port" in done.exception.remedy


@pytest.mark.parametrize(
    "words",
    [
        ["records", "events", "--since"],
        ["records", "verify", "alerts", "--to"],
        ["track", "Bus", "--day"],
    ],
)
@pytest.mark.parametrize("typed", ["yesterday", "2026-06-31"])
def test_text_that_is_not_a_time_is_refused_with_an_example(words: list[str], typed: str) -> None:
    done = CliRunner().invoke(app, [*words, typed], env={"COLUMNS": "200"})

    assert done.exit_code == 2
    assert f"'{typed}' is not a " in done.output
    assert "Write it as 2026-06-15" in done.output
    assert "%Y" not in CliRunner().invoke(app, [*words[:-1], "--help"]).output


@pytest.mark.release
def test_the_command_that_verify_suggests_restores_the_missing_records(
    fleet: Service, tmp_path: Path
) -> None:
    env = environment(tmp_path, fleet.url)
    fleetlake("ingest", "alerts", env=env)
    with open_lake(Path(env["FLEETLAKE_LAKE"])) as lake:
        lake.execute(
            "delete from raw.alerts where created_at = (select min(created_at) from raw.alerts)"
        )

    bad = fleetlake("records", "verify", "alerts", "--from", "2020-01-01", env=env)
    advised = re.search("`fleetlake (.+?)`", bad.stderr)
    assert advised
    fleetlake(*advised[1].split(), env=env)
    good = fleetlake("records", "verify", "alerts", env=env)

    assert bad.returncode == errors.RecordsMissing.exit_code
    assert "alerts from 2020-01-01T00:00:00 until 20" in bad.stdout
    assert (good.returncode, " 0 of them missing" in good.stdout) == (0, True)


def test_the_range_that_verify_suggests_includes_the_last_fraction_of_a_second() -> None:
    end = datetime(2026, 6, 2, 3, 4, 5, 600_000, tzinfo=UTC)
    compared = Comparison(
        endpoint="alerts",
        interval=Interval(end - timedelta(days=1, seconds=0.2), end),
        served=1,
        missing=frozenset({("a",)}),
        surplus=frozenset(),
        calls=1,
    )

    advised = dict(re.findall(r"--(from|to) ([\w:-]+)", _remedy(compared)))

    assert instant(advised["from"]) <= compared.interval.start
    assert instant(advised["to"]) >= end


@pytest.fixture
def printed(fleet: Service, lake_path: Path) -> Callable[..., list[dict[str, Any]]]:
    """Return a function that runs a command on a separate lake and returns its JSON and CSV."""
    env = environment(lake_path.parent, fleet.url, calls_per_minute=450)

    def rows(*words: str) -> list[dict[str, Any]]:
        load_settings.cache_clear()
        done = [CliRunner().invoke(app, [*words, "--format", f], env=env) for f in ("json", "csv")]
        found: list[dict[str, Any]] = json.loads(done[0].stdout)
        table = list(csv.DictReader(io.StringIO(done[1].stdout)))
        assert [list(row) for row in table] == [list(row) for row in found]
        assert done[0].exit_code == done[1].exit_code
        return found

    return rows


def test_a_load_says_what_it_did_to_each_stream_in_machine_readable_form(
    fleet: Service, lake_path: Path
) -> None:
    env = environment(lake_path.parent, fleet.url)
    refused = environment(lake_path.parent, fleet.url, portal_api_key="wrong-key")
    load_settings.cache_clear()
    good = CliRunner().invoke(app, ["ingest", "accounts", "--format", "json"], env=env)
    load_settings.cache_clear()
    bad = CliRunner().invoke(app, ["ingest", "accounts", "--format", "csv"], env=refused)

    [loaded] = json.loads(good.stdout)
    assert 0 <= loaded.pop("seconds") < 60
    assert loaded.pop("calls") >= 1
    assert loaded == {
        "account_profile": "default",
        "endpoint": "accounts",
        "status": "loaded",
        "added": len(fleet.truth("accounts")),
        "changed": 0,
        "quarantined": 0,
        "lost_ranges": 0,
        "error": None,
    }
    assert bad.stdout.splitlines() == [",".join(json.loads(good.stdout)[0])]  # none was read
    assert bad.exception
    assert "wrong-key" not in f"{bad.output}{bad.exception}"


def test_verify_has_machine_readable_counts_and_range(
    fleet: Service, printed: Callable[..., list[dict[str, Any]]]
) -> None:
    served = len(fleet.truth("accounts"))

    [listed] = printed("records", "verify", "accounts")
    [ranged] = printed("records", "verify", "alerts", "--from", "2026-01-01", "--to", "2026-01-02")

    assert listed.pop("calls") >= 1
    assert listed == {
        "account_profile": "default",
        "endpoint": "accounts",
        "start_at": None,
        "end_at": None,
        "served": served,
        "missing": served,
        "surplus": 0,
    }
    assert (ranged["start_at"], ranged["end_at"]) == (
        "2026-01-01T00:00:00Z",
        "2026-01-02T00:00:00Z",
    )


def test_a_query_without_a_lake_says_how_to_get_one(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["query", "select 1"], env=environment(tmp_path)).exception

    assert isinstance(done, errors.LakeError)
    assert "fleetlake demo" in done.remedy


def test_doctor_finds_nothing_wrong_with_a_working_installation(
    fleet: Service, tmp_path: Path
) -> None:
    done = fleetlake("doctor", env=environment(tmp_path, fleet.url))

    assert done.returncode == 0, done.stdout
    assert "✗" not in done.stdout
    assert "✓ service: " in done.stdout
    assert "✓ v3: " in done.stdout


@pytest.mark.proof
def test_doctor_detects_an_extension_that_was_modified_after_signing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoilt = tmp_path / "ducklake.duckdb_extension"
    whole = bytearray(extension_path("ducklake").read_bytes())
    whole[len(whole) // 2] ^= 1
    spoilt.write_bytes(whole)
    monkeypatch.setattr("fleetlake.monitoring.doctor.extension_path", lambda _: spoilt)

    checks = run_checks(Settings(lake=tmp_path / "lake"))
    found = next(check for check in checks if check.name == "extensions")

    assert "Reinstall the packages" in str(found.error)


@pytest.mark.proof
def test_doctor_says_by_how_much_and_which_way_the_clocks_differ(tmp_path: Path) -> None:
    with service(routers=1, days=0.1) as early:
        early.advance(3 * 3600 + 60)
        done = fleetlake("doctor", env=environment(tmp_path, early.url))

    said = " ".join(done.stdout.split())
    assert "the service's clock is 3 h ahead of this machine's; loads go by the service's" in said


@pytest.mark.proof
def test_doctor_checks_v3_too_and_names_its_token(fleet: Service, tmp_path: Path) -> None:
    done = fleetlake("doctor", env=environment(tmp_path, fleet.url, v3_token="not-the-token"))

    assert done.returncode == 4
    assert "✓ service: " in done.stdout
    assert "✗ v3: " in done.stdout
    assert "FLEETLAKE_V3_TOKEN" in done.stdout
    assert "not-the-token" not in done.stdout


@pytest.mark.proof
def test_doctor_says_which_part_to_fix(tmp_path: Path) -> None:
    done = fleetlake("doctor", env=environment(tmp_path, "http://127.0.0.1:9"))

    assert done.returncode == 5
    assert "✗ service" in done.stdout
    assert "What to do" in done.stdout


@pytest.mark.proof
@pytest.mark.parametrize("shape", ["table", "csv", "json"])
def test_a_closed_pipe_is_not_an_error(tmp_path: Path, shape: str) -> None:
    words = command("query", "from range(1_000_000)", "--format", shape)
    env = environment(tmp_path, "http://127.0.0.1:9")
    with open_lake(tmp_path / "lake"):
        pass

    with subprocess.Popen(
        words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read() if process.stderr else ""

    assert (process.returncode, said) == (0, "")


@pytest.mark.proof
def test_ctrl_c_ends_an_ingest_cleanly_and_the_next_one_continues(tmp_path: Path) -> None:
    with service(routers=20, days=3) as fleet:
        fleet.faults(latency_ms=60)
        env = environment(tmp_path, fleet.url)
        with subprocess.Popen(
            command("ingest"), env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            while "routers: " not in (process.stderr.readline() if process.stderr else ""):
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=120)
        kept = query("select count(*) as n from raw.routers", env)
        fleet.faults(latency_ms=0)
        again = fleetlake("ingest", env=env)

    assert process.returncode == 130
    assert "Stopping" in said
    assert "run it again" in said
    assert kept == [{"n": 20}]
    assert again.returncode == 0


@pytest.mark.proof
def test_a_second_ctrl_c_exits_at_once_and_loses_nothing_committed(
    tmp_path: Path,
) -> None:
    with service(routers=20, days=3) as fleet:
        fleet.faults(latency_ms=60)
        env = environment(tmp_path, fleet.url)
        with subprocess.Popen(command("ingest"), env=env, stderr=subprocess.PIPE, text=True) as run:
            assert run.stderr is not None
            while "routers: " not in run.stderr.readline():
                assert run.poll() is None
            with commit_lock(Path(env["FLEETLAKE_LAKE"])):  # no commit completes
                run.send_signal(signal.SIGINT)
                while "Stopping" not in run.stderr.readline():
                    assert run.poll() is None
                run.send_signal(signal.SIGINT)
                assert run.wait(timeout=120) == 130
        kept = query("select count(*) as n from raw.routers", env)

    assert kept == [{"n": 20}]


@pytest.mark.proof
def test_no_key_appears_in_logs_errors_the_lake_or_parquet(fleet: Service, tmp_path: Path) -> None:
    keys = {
        "portal_api_id": "portal-id",
        "portal_api_key": "portal-key",
        "mgr_api_id": "admin-id",
        "mgr_api_key": "admin-key",
    }
    env = environment(tmp_path, fleet.url)
    said = []
    for words in (
        ("--debug", "ingest", "accounts", "groups", "routers", "asset_endpoints"),
        ("--debug", "build", "--select", "+device_inventory"),
        ("--debug", "publish"),
        ("--debug", "status", "--format", "json"),
        ("--debug", "doctor"),
    ):
        done = fleetlake(*words, env=env)
        assert done.returncode == 0, done.stderr
        said += [done.stdout, done.stderr]
    env |= {"FLEETLAKE_MGR_API_KEY": "wrong-but-secret"}
    refused = fleetlake("--debug", "ingest", "accounts", env=env)
    said += [refused.stdout, refused.stderr]

    secrets = [*keys.values(), "wrong-but-secret"]
    for text in said:
        assert not [secret for secret in secrets if secret in text]
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert len(files) > 30
    for file in files:
        content = file.read_bytes()
        assert not [secret for secret in secrets if secret.encode() in content], file
