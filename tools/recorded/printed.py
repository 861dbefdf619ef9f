"""What the commands print about small lakes: sessions of command lines, and their output.

`tests/printed.json` has the output that was read and found right; a test compares it.
`python -m tools.recorded.printed` rewrites it after an intended change. What differs from run to
run (folders, the time, durations, free space) is replaced by a mark.
"""

import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

from typer.testing import CliRunner

from fleetlake.cli import app
from fleetlake.lake import Lake, open_lake
from fleetlake.lake.audit_trail import EventKind, record_event
from fleetlake.lake.evolution.format import this_release
from fleetlake.settings import load_settings
from tests.support.processes import environment
from tests.support.sim import Sim, new_sim
from tools.recorded.printed_service import ALERTS, RECORDS, UPKEEP, served

PRINTED = Path(__file__).parents[2] / "tests/printed.json"
LOADED = ("accounts", "users", "groups", "routers", "net_devices", "alerts", "batteries")
FORMATS = ("table", "json", "csv")
QUERY = "select id, name, account_id from raw.groups order by id limit 3"
SESSION = (
    *((*words, "--format", form)
      for words in (
          ("records", "gaps", "list"), ("records", "events", "list"),
          ("records", "quarantine", "list"),
          ("records", "quarantine", "show", "users"), ("records", "columns", "list"),
          ("query", QUERY),
          ("ingest", "--plan", "users", "activity_logs"),
      )
      for form in FORMATS),
    ("doctor",), ("doctor", "--format", "json"),
    ("status",), ("status", "--format", "csv"), ("metrics",), ("check",),
    ("check", "--full"), ("repair", "--dry-run"), ("repair",),
    ("erase", "--router", "1000006", "--dry-run"), ("erase", "--router", "7", "--dry-run"),
    ("erase", "--dry-run"), ("records", "columns", "promote", "routers", "colour"),
    ("records", "columns"),
    ("records", "columns", "promote", "routers", "colour"),
    ("records", "columns", "promote", "routers", "name"),
    ("records", "columns", "promote", "nonsense", "x"),
    ("records", "columns", "demote", "routers", "colour"),
    ("records", "columns", "demote", "routers", "colour"), ("query", "select nonsense"),
    ("query", "delete from raw.users"), ("records", "verify", "nonsense"), ("ingest", "nonsense"),
    ("ingest", "alerts", "--shard", "3/2"), ("backup", "{folder}/copy"),
    ("restore", "{folder}/copy", "--to", "{folder}/again"), ("restore", "{folder}/nowhere"),
    ("records", "quarantine", "retry", "users"), ("records", "quarantine", "acknowledge", "users"),
    ("records", "quarantine", "acknowledge"), ("records", "gaps", "acknowledge"),
    ("records", "gaps"), ("status",), ("maintain",),
    ("backfill", "alerts", "--from", "x"), ("backfill", "users", "--from", "2026-06-01"),
    ("track", "7", "--day", "2026-06-14"),
    ("publish",), ("export", "nonsense"),
)  # fmt: skip
_SHOWN = 100
SERVED = {"alerts": ALERTS, "records": RECORDS, "upkeep": UPKEEP}
SESSIONS = ("lists", *SERVED)
_MARKS = (
    (rf"(?<![\d.]){re.escape(this_release())}\b", "<version>"),
    (r"(│ raw_\w+ +│ +[\d,]+ +│ +[\d,]+ +│ +)[\d.]+", r"\1<figure>"),  # seconds of an export
    (r"\bducklake-[\w-]+\.parquet", "<file>"),
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[47][0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<random id>"),
    (r"\b\d[\d,.]* (s|min|h|d|days?|hours?|weeks?|months?) (ago|left|behind)", r"<age> \2"),
    (r"\b\d[\d,.]* (bytes|[kMG]i?B)\b", r"<size> \1"),
    (r"(<size> bytes instead of) [\d,]+", r"\1 <size>"),
    (r'("(?:disk_free_bytes|[a-z_]*bytes|[a-z_]*seconds|[a-z_]*_s)": ?)[\d.e+-]+', r"\1<figure>"),
    (r"(?m)^(fleetlake_\w*(?:seconds|hours|bytes)\S*) .*$", r"\1 <figure>"),
    (r"\b(fleetlake|duckdb|pyarrow|httpx|dbt-core|dbt-duckdb|DuckDB) v?\d[\w.]*", r"\1 <version>"),
    (r"\b\d{8}T\d{6}[.]\d+Z", "<backup>"),
    (r"(?<![\d,.])\d{1,3}(\.\d+)? s\b", "<figure> s"),
    (r"[\w.-]+@[\w.-]+", "<actor>"),
)
_MOMENT = re.compile(r"20\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d([.]\d+)?)?")
_STARTED = "2026-06-15 11:40"
"""The simulator's clock, less what a load leaves to the next one."""

_PASSING = ("2026-06-15 12:20", "2026-06-17 11:40")
"""The days by which the service's clock is moved in a session."""

_EMPTY = re.compile(r"│ never|^default,\w+,0,,|\"} 0[.]0$|^[┏┡└]|^… ")
"""Streams that were never loaded, the rules of tables, and the progress of what takes long."""

_STREAM_END = re.compile(r"\w+: .*\(\d+ calls?, <figure> s\)$")
"""Streams of one load end in any order."""


def lines_of(text: str, folder: Path) -> list[str]:
    """Return the lines of an output with marks in place of what differs from run to run."""
    text = _MOMENT.sub(_as_mark, text.replace(str(folder), "<folder>"))
    for pattern, mark in _MARKS:
        text = re.sub(pattern, mark, text)
    lines = [re.sub(r"[ ━─]+", " ", line).strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not _EMPTY.search(line)]
    ended = iter(sorted(line for line in lines if _STREAM_END.match(line)))
    return [next(ended) if _STREAM_END.match(line) else line for line in lines]


def _as_mark(moment: re.Match[str]) -> str:
    """Return a moment of the records as it is, and a mark for one during the session."""
    text = moment[0].replace("T", " ")
    is_known = text < _STARTED or _PASSING[0] <= text < _PASSING[1]
    return moment[0] if is_known else "<now>"


def fill(lake: Lake) -> None:
    """Put a gap, quarantined records, an unknown member and an event into a lake."""
    lake.execute(
        "insert into meta.gaps values ('default', 'alerts', '7', '2026-01-01 02:00:00+02', "
        "'2026-01-02 00:00:00.5Z', 'expired', '2026-01-03 00:00:00Z', null)"
    )
    lake.execute(
        "insert into meta.quarantine by name select 'default' as account_profile, unnest("
        "['routers', 'routers', 'users']) as endpoint, 'no id' as reason, '' as partition, "
        "'{\"name\": \"x\"}' as raw, timestamptz '2026-01-04 00:00:00Z' as quarantined_at"
    )
    lake.execute(
        "insert into meta.schema_drift by name select 'default' as account_profile, "
        "'routers' as endpoint, 'colour' as member, '\"red\"' as example, "
        "timestamptz '2026-01-05 00:00:00Z' as first_seen_at"
    )
    record_event(lake, EventKind.CHECK, "a test", details={"file": "x.parquet"})


def printed(folder: Path, name: str) -> dict[str, Any]:
    """Return the exit code, output and error of each command of a session, run in `folder`."""
    own = folder / name
    own.mkdir()
    with patch("fleetlake.cli.screen.PLAIN_WIDTH", 400):  # no line breaks by the folder's length
        return _session(own, name) if name in SERVED else _printed(own)


def _printed(folder: Path) -> dict[str, Any]:
    sim = _started(folder)
    assert [outcome.error for outcome in sim.ingest(*LOADED)] == [None] * len(LOADED)
    with open_lake(folder / "lake") as lake:
        fill(lake)
    return {
        f"{number}. {' '.join(words)}": _said(folder, words, environment(folder))
        for number, words in enumerate(SESSION)
    }


def _session(folder: Path, name: str) -> dict[str, Any]:
    """Return what the commands of a session with the service print, by number and words."""
    sim = _started(folder)
    env, found = environment(folder, "http://localhost"), {}
    with served(sim):
        for number, step in enumerate(SERVED[name]):
            if isinstance(step, tuple):
                found[f"{number}. {' '.join(step)[:_SHOWN]}"] = _said(folder, step, env)
            else:
                step(sim)
    return found


def _started(folder: Path) -> Sim:
    """Return a simulated service whose copy in the folder is empty."""
    with open_lake(folder / "lake"):
        pass
    return new_sim(folder)


def _said(folder: Path, words: tuple[str, ...], env: dict[str, str]) -> dict[str, Any]:
    """Return the exit code, output and error of one command."""
    load_settings.cache_clear()
    asked = [word.replace("{folder}", str(folder)) for word in words]
    own = dict(word.split("=", 1) for word in asked if word.startswith("FLEETLAKE_"))
    asked = [word for word in asked if not word.startswith("FLEETLAKE_")]
    done = CliRunner().invoke(app, asked, env={**env, **own, "COLUMNS": "400"})
    load_settings.cache_clear()
    error = done.exception if not isinstance(done.exception, SystemExit) else None
    said = [f"{type(error).__name__}: {error}", getattr(error, "remedy", "")] if error else []
    return {
        "exit_code": getattr(error, "exit_code", done.exit_code),
        "output": lines_of(done.stdout, folder),
        "error": lines_of("\n".join([done.stderr, *map(str, said)]), folder),
    }


def dump(folder: Path) -> str:
    """Return all sessions as JSON, one line of output per line."""
    found = {name: printed(folder, name) for name in SESSIONS}
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        PRINTED.write_text(dump(Path(folder)), encoding="utf-8")
    sys.stdout.write(f"{PRINTED.name} is written.\n")
