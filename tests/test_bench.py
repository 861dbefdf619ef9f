"""The bench measures what it claims: every peer loads every record, and none twice."""

import doctest
import json
import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

from tools.bench import cases, figures, fleet, fleet_report, profiled, ratios
from tools.bench.__main__ import bench, check
from tools.bench.cases import CASES, PEERS, Peer, chosen
from tools.bench.figures import AGAIN, FIRST, LAKE_REPORT, PEER_REPORT, Figures, Section, read
from tools.bench.lake import LargeLake, merge
from tools.bench.measure import Measure, mb_of_tree, measure
from tools.bench.page import PAGE, as_measured
from tools.bench.page_server import CURSORS, Records
from tools.bench.ratios import ratio_table
from tools.bench.records import write_records

pytestmark = pytest.mark.release  # the benchmark's own tests

COUNT = 700
PRESENT = [peer for peer in PEERS if peer.is_installed]


def a_measure(cpu_seconds: float) -> Measure:
    return Measure(cpu_seconds=cpu_seconds, wall_seconds=1.0, peak_mb=100.0, calls=2)


def took_all(section: Section, peers: Sequence[Peer]) -> None:
    """Fail if a peer of a bench read no page, or read all of them twice."""
    for peer in peers:
        [first] = section.result(peer.name, FIRST).measures
        assert first.calls >= 2, "a page holds 500"
        assert first.cpu_seconds > 0
        assert first.peak_mb > 5
        if peer.keeps:
            [again] = section.result(peer.name, AGAIN).measures
            assert again.calls < first.calls or peer.is_ours


@pytest.mark.parametrize("case", ["activity_logs", "fewer_alerts"])
def test_every_peer_loads_every_record_and_nothing_on_a_second_run(case):
    some, peers = chosen([case, *(peer.name for peer in PRESENT)], COUNT)

    [section] = bench(some, peers, rounds=1).sections  # it ends if a peer misses a record

    took_all(section, [peer for peer in peers if peer.takes_part(some[0])])


def test_a_peer_receives_every_record_and_nothing_on_a_second_run():
    some, peers = chosen(["alerts", "floor", "script"], COUNT)

    [section] = bench(some, peers, rounds=1).sections

    took_all(section, peers)


def test_a_peer_with_a_missing_or_duplicate_record_ends_the_bench():
    [case], [script] = chosen(["alerts", "script"], COUNT)
    all_served = {"records": COUNT, "bytes": 9_000}

    check(script, case, {"rows": COUNT}, all_served)
    check(script, case, {"bytes": 9_000}, all_served)
    for wrong in ({"rows": COUNT - 1}, {"rows": COUNT + 1}, {"bytes": 8_999}):
        with pytest.raises(SystemExit, match=r"script (holds|took)"):
            check(script, case, wrong, all_served)


@pytest.mark.parametrize("resource", sorted(CURSORS))
def test_the_page_server_serves_each_record_once_newest_first(resource, tmp_path):
    write_records(resource, COUNT, tmp_path / "records")
    lines = (tmp_path / "records").read_bytes().splitlines()
    records = Records(lines, resource)

    query, taken = {"limit": "90"}, []
    while True:
        count, text, cursor = records.page(query)
        page = json.loads(b"[" + bytes(text) + b"]", strict=False)
        assert len(page) == count
        taken += page
        if cursor is None:
            break
        query[CURSORS[resource]] = cursor

    assert sorted(map(json.dumps, taken)) == sorted(
        json.dumps(json.loads(line, strict=False)) for line in lines
    )
    times = [(r["action"]["timestamp"] if "action" in r else r["created_at"]) for r in taken]
    assert times == sorted(times, reverse=True)


def test_the_page_server_respects_time_bounds(tmp_path):
    write_records("activity_logs", COUNT, tmp_path / "records")
    records = Records((tmp_path / "records").read_bytes().splitlines(), "activity_logs")
    whole = json.loads(b"[" + bytes(records.page({"limit": "500"})[1]) + b"]", strict=False)
    newer, older = (whole[place]["action"]["timestamp"] for place in (10, 30))
    time = "action__timestamp"

    counts = [
        records.page({"limit": "500", **bounds})[0]
        for bounds in (
            {f"{time}__gte": older, f"{time}__lt": newer},
            {f"{time}__gt": older, f"{time}__lt": newer},
            {f"{time}__gt": whole[0]["action"]["timestamp"]},
        )
    ]

    assert counts == [20, 19, 0]
    with pytest.raises(ValueError, match="color"):
        records.page({"color": "red"})


def test_a_table_shows_medians_spread_the_previous_run_and_ratios(tmp_path):
    section = Section(name="alerts", title="Some alerts")
    for name, seconds in {"floor": [0.5, 0.4, 0.6], "script": [4.0], "fleetlake": [1.0]}.items():
        section.result(name, FIRST).measures += map(a_measure, seconds)
    path = tmp_path / "figures.json"
    Figures(sections=[section]).write(path)
    Figures(sections=[section]).write(path)

    lines = PEER_REPORT.markdown(read(path)).splitlines()

    start = "| floor | first load | 0.50 | 0.40 to 0.60 | 0.50 | 1.00 | 100 |"
    assert f"{start} 2 | 0.00 | 0.12 | 2.0 |" in lines
    assert "| script | first load | 4.00 | - | 4.00 | 1.00 | 100 | 2 | 0.00 | 1.0 | 0.25 |" in lines
    assert start in LAKE_REPORT.markdown(read(path)).splitlines()


def test_ratios_are_relative_to_the_script_and_cover_every_case_and_nothing_new():
    large, small = (Section(name=n, title=n) for n in ("large", "small"))
    for section, run, costs in (
        (large, FIRST, {"script": [4.0, 5.0, 6.0], "fleetlake": [2.0, 1.0, 9.0]}),
        (small, FIRST, {"script": [2.0], "fleetlake": [3.0], "snail": [50.0]}),
        (small, AGAIN, {"script": [0.5], "snail": [1.0]}),
    ):
        for name, seconds in costs.items():
            section.result(name, run).measures += map(a_measure, seconds)

    lines = ratio_table(Figures(sections=[large, small])).splitlines()

    assert lines == [
        "| script = 1.00 | fleetlake | script | snail |",
        "|:--|--:|--:|--:|",
        "| CPU, large | 0.40 | 1.00 | - |",
        "| CPU, small | 1.50 | 1.00 | 25 |",
        "| CPU, nothing new, after small | - | 1.00 | 2.00 |",
        "| peak memory in MB, large | 100 | 100 | - |",
        "| peak memory in MB, small | 100 | 100 | 100 |",
    ]


def test_without_the_script_no_ratio_is_shown():
    section = Section(name="alerts", title="Some alerts")
    section.result("fleetlake", FIRST).measures.append(a_measure(1.0))

    assert "| CPU, Some alerts | - |" in ratio_table(Figures(sections=[section])).splitlines()


def test_the_page_shows_the_recorded_figures():
    assert as_measured(PAGE.read_text()) == PAGE.read_text(), "run python -m tools.bench.page"


def test_part_of_the_bench_can_be_chosen_by_name():
    with pytest.raises(SystemExit, match="There is no snail"):
        chosen(["snail"])
    with pytest.raises(SystemExit, match="only in fewer_alerts"):
        chosen(["far_alerts", "singer"])

    assert chosen() == (CASES, PEERS)
    assert [case.name for case in chosen(["singer"])[0]] == ["fewer_alerts"]


def test_memory_of_child_processes_counts_in_any_session():
    holds = "held = bytearray(150_000_000); print('ready', flush=True); input()"
    starts = (
        "import subprocess, sys; held = bytearray(150_000_000); "
        "subprocess.run([sys.executable, '-c', sys.argv[1]], start_new_session=True)"
    )
    command = [sys.executable, "-c", starts, holds]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"

        held = mb_of_tree(process.pid)

        process.communicate(b"\n")
    assert 286 < held < 400  # two times 150,000,000 bytes, and two interpreters


def test_cpu_time_of_child_processes_counts():
    computes = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
    work = "import time\nwhile time.process_time() < 0.5: pass"

    taken, _ = measure([sys.executable, "-c", computes, work], os.environ)

    assert taken.cpu_seconds > 0.5
    assert taken.wall_seconds > 0.5


@pytest.mark.parametrize("module", [cases, figures, fleet, fleet_report, profiled, ratios])
def test_docstring_examples_of_the_bench_are_correct(module):
    done = doctest.testmod(module)

    assert done.attempted > 0
    assert done.failed == 0


def test_a_profile_shows_every_function_and_its_share():
    stacks = [
        "thread (1): Main;ask (fleetlake/client.py:9);get (httpx/_client.py:7) 6",
        "thread (1): Main;ask (fleetlake/client.py:9);get (httpx/_client.py:8) 1",
        "thread (2): lake;run (threading.py:9) 3",
    ]

    looks, shares = profiled.shares_of(stacks)

    assert looks == 10
    assert shares == [("ask (client.py)", "httpx", 0.7), ("outside", "threading.py", 0.3)]


def test_a_large_lake_is_scanned_whole_and_a_second_read_adds_only_new_rows(tmp_path):
    lake = LargeLake(240_000, tmp_path)  # in 35 days: 30 interfaces
    lake.fill("2 days", 0, 2 * 86_400)

    held = lake.step("scan", "all", "scan")["rows"]
    sampled = lake.step("sample", "the newest rows", "sample")["rows"]
    new = merge(lake) + merge(lake)

    assert held == sampled == 30 * 2 * 96
    assert new == 2 * 58  # one in a hundred, the first included
    assert lake.step("scan", "all", "scan")["rows"] == held + new
    assert lake.step("scan", "the newest day", "scan-day")["rows"] < held


def test_a_fleet_lives_for_a_day_and_its_lake_has_every_record():
    section = fleet.bench(routers=12, workers=1)  # it ends if a record is missing

    [first] = section.result("ingest lists, events", "a day").measures
    [again] = section.result("ingest lists, events", "nothing new").measures
    assert first.calls > 20
    assert again.calls > 10
    assert section.result("build", "an hour later").measures


def test_a_section_of_a_fleet_joins_those_of_other_sizes_and_replaces_its_own(tmp_path):
    path = tmp_path / "fleet.json"
    names = ("10000 1 folder", "3000 1 folder", "10000 2 shared", "1000 1 folder")
    for name, cpu in zip(names, (20.0, 8.0, 5.0, 2.0), strict=True):
        section = Section(name=name, title=f"{name}, {cpu}")
        section.result("build", "first").measures.append(a_measure(cpu))
        fleet.keep(section, path)
    again = Section(name="3000 1 folder", title="again")
    again.result("build", "first").measures.append(a_measure(6.0))

    fleet.keep(again, path)

    kept = read(path)
    in_order = ["1000 1 folder", "3000 1 folder", "10000 1 folder", "10000 2 shared"]
    assert [s.name for s in kept.sections] == in_order
    assert kept.sections[1].title == "again"
    assert "| build | first | 3,000 to 10,000 | 1.00 |" in fleet_report.growth_table(kept)


def test_parts_of_a_fleets_day_can_be_measured_alone():
    kept = []

    section = fleet.bench(routers=5, workers=1, parts=["lists"], keep=lambda s: kept.append(str(s)))

    assert {result.name for result in section.results} == {"ingest lists, events"}
    assert section.title == "5 routers, 1 worker, a lake in a folder, only lists"
    assert len(kept) == 2
    assert "an hour later" not in kept[0]
