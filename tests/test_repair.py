"""What `fleetlake check` and `fleetlake repair` tell people, and the gaps that a repair records."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fleetlake.care.integrity import losses, rebuild
from fleetlake.care.integrity.damage import CheckReport, Damage, DamageKind, in_words
from fleetlake.care.integrity.listing import ListedFile
from fleetlake.care.integrity.losses import Loss
from fleetlake.care.integrity.rebuild import Rebuilt
from fleetlake.cli.check import check
from fleetlake.cli.repair import repair
from fleetlake.endpoints import ENDPOINTS
from fleetlake.errors import LakeError
from fleetlake.lake import open_lake
from fleetlake.lake.gaps import gaps
from fleetlake.lake.tables import META
from fleetlake.lake.watermarks import add_intervals
from fleetlake.loading.repair import RepairPlan, read_again
from fleetlake.planning.intervals import Interval
from fleetlake.settings import Settings

DAYS = [datetime(2026, 6, day, tzinfo=UTC) for day in (1, 2, 3)]
NOTHING = CheckReport(files=2, size=9, is_full=True)
FILE = ListedFile(
    name="raw/alerts/1.parquet",
    schema="raw",
    table="alerts",
    table_id=1,
    data_file_id=1,
    is_delete=False,
    rows=5,
    size=900,
    footer_size=100,
    begun=1,
    ended=None,
    is_encrypted=False,
)
GONE = Damage(kind=DamageKind.MISSING, table="raw.alerts", name=FILE.name, found="gone", file=FILE)
LOSS = Loss(
    file=FILE,
    files=(FILE,),
    rows=5,
    held=Interval(DAYS[0], DAYS[1]),
    devices="3 routers",
    profile="default",
)
REPORT = CheckReport(files=2, size=3_000_000, is_full=False, damages=(GONE,))
Said = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set a lake, and enough width for a row to be one line."""
    monkeypatch.setenv("FLEETLAKE_LAKE", str(tmp_path / "lake"))
    monkeypatch.setenv("COLUMNS", "300")


@pytest.fixture
def repaired(monkeypatch: pytest.MonkeyPatch) -> list[RepairPlan]:
    """Return the plans that were carried out, without a lake."""
    plans: list[RepairPlan] = []
    monkeypatch.setattr("fleetlake.loading.repair.repair", lambda _, plan, **__: plans.append(plan))
    return plans


def find(monkeypatch: pytest.MonkeyPatch, report: CheckReport) -> None:
    """Let checks find this."""
    losses = (LOSS,) if report.damages else ()
    plan = RepairPlan(report=report, losses=losses, contradicted=())
    monkeypatch.setattr("fleetlake.care.integrity.check.check_lake", lambda *_, **__: report)
    monkeypatch.setattr("fleetlake.care.integrity.check.note_damage", lambda *_: None)
    monkeypatch.setattr("fleetlake.loading.repair.plan_repair", lambda *_, **__: plan)


def test_a_check_names_each_damaged_file(monkeypatch: pytest.MonkeyPatch, capsys: Said) -> None:
    find(monkeypatch, REPORT)
    noted: list[object] = []
    monkeypatch.setattr(
        "fleetlake.care.integrity.check.note_damage", lambda _, report: noted.append(report)
    )

    with pytest.raises(LakeError, match="1 file missing"):
        check()

    assert noted == [REPORT]
    said = capsys.readouterr().out
    assert all(word in said for word in ("raw.alerts", FILE.name, "missing", "gone"))
    assert said.splitlines()[-1] == "2 files (3.0 MB): sizes and footers compared, 1 fault found."


def test_damages_are_counted_by_kind_with_the_tables_they_are_in() -> None:
    def damage(kind: DamageKind, table: str) -> Damage:
        return Damage(kind=kind, table=table, name="", found="")

    tables = ["raw.b", "raw.a", "raw.b"]

    assert in_words(
        (
            *(damage(DamageKind.CATALOG, table) for table in ("", "")),
            *(damage(DamageKind.MISSING, table) for table in tables),
            damage(DamageKind.INDEX, "raw.a"),
            damage(DamageKind.CATALOG, "raw.c"),
        )
    ) == (
        "The lake is damaged: 3 files missing (raw.a, raw.b); 3 faults in the catalog (raw.c); "
        "1 contradiction between meta and raw (raw.a)."
    )
    assert in_words((damage(DamageKind.CATALOG, ""),)) == (
        "The lake is damaged: 1 fault in the catalog."
    )


def test_a_check_says_what_it_could_not_compare(
    monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    find(monkeypatch, replace(NOTHING, files=1, unproven=1, notes=("there are no sizes.",)))

    check(full=True)

    note, compared, unproven = capsys.readouterr().out.splitlines()
    assert note == "Note: there are no sizes."
    assert compared.endswith("every byte read, 0 faults found.")
    assert unproven == "1 file without a checksum yet: each was decoded instead."


def test_a_dry_run_lists_each_loss_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: Said, repaired: list[RepairPlan]
) -> None:
    find(monkeypatch, REPORT)

    repair(dry_run=True)

    said = capsys.readouterr()
    assert all(word in said.out for word in ("raw.alerts", FILE.name, "2026-06-01", "3 routers"))
    assert LOSS.prospect in said.out
    assert said.err.splitlines()[-2:] == [
        "The lake is damaged: 1 file missing (raw.alerts).",
        "Nothing was changed. A repair reads again: alerts.",
    ]
    assert repaired == []


def test_a_repair_says_what_is_to_be_done_next(
    monkeypatch: pytest.MonkeyPatch, capsys: Said, repaired: list[RepairPlan]
) -> None:
    find(monkeypatch, REPORT)

    repair(load=False)

    assert [plan.losses for plan in repaired] == [(LOSS,)]
    assert capsys.readouterr().err.splitlines()[-2:] == [
        "Rows deleted. To be read again: alerts.",
        "Run `fleetlake build`, then publish and export as usual.",
    ]


def test_a_lake_without_damage_is_not_repaired(
    monkeypatch: pytest.MonkeyPatch, capsys: Said, repaired: list[RepairPlan]
) -> None:
    find(monkeypatch, NOTHING)

    repair()

    assert capsys.readouterr() == ("", "Nothing has to be repaired.\n")
    assert repaired == []


def test_a_catalog_built_anew_is_reported_with_what_was_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    rows = {"raw.alerts": 5, "raw.users": 2}
    done = Rebuilt(rows=rows, files=3, unreadable=("a",), unknown=("b", "c"))
    monkeypatch.setattr("fleetlake.care.integrity.rebuild.rebuild_catalog", lambda *_, **__: done)

    repair(rebuild=True)

    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        "The catalog was rebuilt: 7 rows from 3 files.",
        "  a could not be read.",
        "  b is in no table.",
        "  c is in no table.",
    ]
    assert lines[4].startswith("Run `fleetlake ingest`")


def test_the_lost_rows_of_a_device_that_is_no_longer_listed_are_a_gap(
    lake_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = ENDPOINTS["router_state_samples"]
    before, lost, after = (Interval(at, at + timedelta(days=1)) for at in DAYS)
    proven = {
        "1 is listed": [before, after],
        "2 is gone": [before, after],
        "3 is gone, and its rows were read again": [before, lost, after],
        "4 is gone, and its rows were never read": [after],
    }
    with open_lake(lake_path) as lake:
        lake.execute("insert into raw.routers by name select 1 as id, 'default' as account_profile")
        add_intervals(lake, "default", endpoint, {id_[0]: held for id_, held in proven.items()})
        add_intervals(lake, "west", endpoint, {"2": [before, after]})
    file = replace(FILE, table=endpoint.name)
    loss = replace(LOSS, file=file, files=(file,), held=lost)
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(
        "fleetlake.loading.repair.ingest", lambda _, names, **__: asked.append(names) or []
    )

    plan = RepairPlan(report=REPORT, losses=(loss,), contradicted=())
    read_again(Settings(lake=lake_path), plan)

    with open_lake(lake_path, read_only=True) as lake:
        [gap] = gaps(lake)
    assert asked == [("routers", "router_state_samples")]
    assert (gap.account_profile, gap.endpoint, gap.partition) == ("default", endpoint.name, "2")
    assert (gap.start_at, gap.end_at) == (lost.start, lost.end)
    assert gap.reason == "its file was lost, and the service no longer lists the device"


def test_a_rebuilt_catalog_keeps_tables_and_columns_that_there_are() -> None:
    kept = rebuild._KEPT  # noqa: SLF001 - a name that no table has would keep nothing

    assert [table for table in kept if table not in META] == []
    assert [column for table, column in kept.items() if column and column not in META[table]] == []


@pytest.mark.parametrize(
    ("ids", "range_", "shown"),
    [
        ([1, 2, 3], ("1", "3"), "router_id 1, 2, 3 (3)"),
        ([*range(1_005)], ("0", "1004"), "router_id 0, 1, 2, 3, 4, … (1,005)"),
        ([*range(5)], ("0", "4"), "router_id 0, 1, 2, 3, 4 (5)"),
        ([], ("4", "9"), "router_id 4 to 9"),
        ([], ("4", "4"), "router_id 4"),
        ([], (None, None), ""),
    ],
    ids=str,
)
def test_a_lost_file_is_described_by_a_few_of_its_devices_or_their_range(
    monkeypatch: pytest.MonkeyPatch, ids: list[int], range_: tuple[str | None, ...], shown: str
) -> None:
    monkeypatch.setattr(losses, "_read_ids", lambda *_: ids)
    statistics = {"_loaded_at": ("2026", "2027"), "router_id": range_}
    lake: Any = SimpleNamespace(path=Path("lake"))
    describe = losses._devices  # noqa: SLF001 - its file would have to be damaged just so

    assert describe(lake, FILE, statistics, ENDPOINTS["alerts"]) == shown
    assert describe(lake, FILE, statistics, None) == ""
