"""Readers query while three processes write: no error, and no noticeable wait.

`make soak N=120` runs it for longer. Each reader counts the rows, and a count never falls.
"""

import json
import os
import statistics
import subprocess
import sys
import time

import pytest

from fleetlake.lake import open_lake
from tests.support.processes import environment

SECONDS = float(os.environ.get("SOAK_SECONDS", "6"))
WRITERS, READERS = 3, 2
LONGEST_WAIT_SECONDS = float(os.environ.get("SOAK_LONGEST_WAIT", "5"))
"""A second on a quiet machine; longer while other tests run, because a reader waits for CPU."""

WRITE = """
import sys, time
from fleetlake.lake import open_lake
from fleetlake.lake.locks import commit_lock
from fleetlake.settings import load_settings
writer, until, commits = int(sys.argv[1]), time.monotonic() + float(sys.argv[2]), 0
with open_lake(load_settings().lake) as lake:
    while time.monotonic() < until:
        with commit_lock(lake.path):
            lake.execute("begin")
            lake.execute(f"insert into marts.trips select {writer}, i, now() from range(1000) r(i)")
            lake.execute("update meta.loads set rows_added = rows_added + 1000")
            lake.execute("commit")
        commits += 1
print(commits)
"""
READ = """
import json, sys, time
from fleetlake.lake import open_lake
from fleetlake.settings import load_settings
until, seen, waits = time.monotonic() + float(sys.argv[2]), 0, []
while time.monotonic() < until:
    began = time.monotonic()
    with open_lake(load_settings().lake, read_only=True) as lake:
        waits.append(time.monotonic() - began)
        for _ in range(10):
            began = time.monotonic()
            [(rows, reported)] = lake.rows(
                "select (select count(*) from marts.trips), (select rows_added from meta.loads)"
            )
            waits.append(time.monotonic() - began)
            assert rows == reported, "a reader saw half a commit"
            assert rows >= seen, "a reader saw rows go"
            seen = rows
print(json.dumps({"waits": waits, "rows": seen}))
"""


def started(script: str, number: int, env: dict[str, str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, str(number), str(SECONDS)]
    return subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_a_reader_sees_nothing_of_an_unfinished_commit_and_then_all_of_it(lake_path):
    both = "select (select count(*) from marts.trips), (select sum(rows_added) from meta.loads)"
    with open_lake(lake_path) as writer, open_lake(lake_path, read_only=True) as reader:
        writer.execute("create table marts.trips (trip_id bigint)")
        writer.execute("insert into meta.loads (load_id, rows_added) values ('all', 0)")
        seen = [reader.rows(both)]
        writer.execute("begin")
        writer.execute("insert into marts.trips select i from range(1000) r(i)")
        seen.append(reader.rows(both))
        writer.execute("update meta.loads set rows_added = rows_added + 1000")
        seen.append(reader.rows(both))
        writer.execute("commit")
        seen.append(reader.rows(both))

    assert seen == [[(0, 0)]] * 3 + [[(1000, 1000)]]


@pytest.mark.release
@pytest.mark.xdist_group("processes")
def test_readers_see_whole_commits_and_never_wait_while_three_writers_write(tmp_path):
    env = environment(tmp_path)
    with open_lake(tmp_path / "lake") as lake:
        lake.execute(
            "create table marts.trips (router_id bigint, trip_id bigint, ended_at timestamptz)"
        )
        lake.execute("insert into meta.loads (load_id, rows_added) values ('all', 0)")
    began = time.monotonic()
    writers = [started(WRITE, number, env) for number in range(WRITERS)]
    readers = [started(READ, number, env) for number in range(READERS)]
    ends = [process.communicate(timeout=SECONDS + 120) for process in (*writers, *readers)]
    # DuckDB may draw a bar before it; the last line is ours.
    reported = [out.splitlines()[-1] if out else "" for out, _ in ends]
    assert [process.returncode for process in (*writers, *readers)] == [0] * 5, ends
    commits = sum(int(line) for line in reported[:WRITERS])
    reads = [json.loads(line) for line in reported[WRITERS:]]
    waits = sorted(wait for read in reads for wait in read["waits"])
    longest = waits[-1]
    sys.stdout.write(
        f"{len(waits):,} reads by {READERS} readers beside {commits:,} commits by {WRITERS} "
        f"writers in {time.monotonic() - began:.0f} s: no error; a read took "
        f"{statistics.median(waits):.3f} s, 99 of 100 less than "
        f"{waits[len(waits) * 99 // 100]:.3f} s, the longest {longest:.3f} s\n"
    )

    assert commits > 0
    assert min(read["rows"] for read in reads) > 0
    assert longest < LONGEST_WAIT_SECONDS
