"""Commits a minute into a shared lake by 1, 2 and 4 processes at once. `make bench-commits`.

Catalog and files are on this machine, and PostgreSQL flushes each commit to the disk. Processes
wait for each other's commits, so the figures are those of the whole lake.
"""

import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.queues import Queue
from uuid import uuid4

import adbc_driver_postgresql.dbapi
import pyarrow as pa
from pydantic import SecretStr

from fleetlake.decoding.arrow import schema_of
from fleetlake.endpoints import ALERTS
from fleetlake.lake import open_lake
from fleetlake.lake.run_state import RunState
from fleetlake.lake_address import SharedLake
from tests.support.loads import NOON, commit, load_of_rows

SECONDS = 10.0
PROCESSES = (1, 2, 4)
ROWS = (100, 10_000)


def alerts(rows: int, turn: int) -> pa.Table:
    """Return so many new alerts of one second."""
    load_id = uuid4()
    made = {key: [f"{load_id} {number}" for number in range(rows)] for key in ALERTS.key}
    made[str(ALERTS.event_time)] = [NOON + timedelta(seconds=turn)] * rows
    schema = schema_of(ALERTS)
    columns = [pa.array(made.get(f.name, [None] * rows), f.type) for f in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def commit_for_a_while(
    catalog: str, files: str, rows: int, wait_for_all: Callable[[], object], made: "Queue[int]"
) -> None:
    """Commit for `SECONDS`, and put the number of commits into a queue."""
    with open_lake(SharedLake(SecretStr(catalog), files), threads=1) as lake:
        state = RunState(lake, "default")
        wait_for_all()
        until, turn = time.monotonic() + SECONDS, 0
        while time.monotonic() < until:
            commit(lake, load_of_rows(ALERTS, alerts(rows, turn)), state=state)
            turn += 1
    made.put(turn)


def commits(server: str, processes: int, rows: int) -> int:
    """Return how many commits several processes make in all, in a lake of their own."""
    name = f"bench_{uuid4().hex[:12]}"
    with (
        adbc_driver_postgresql.dbapi.connect(server, autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(f"CREATE DATABASE {name}")
    catalog = server.replace("/postgres?", f"/{name}?")
    spawn = multiprocessing.get_context("spawn")
    start, made = spawn.Barrier(processes), spawn.Queue()
    with tempfile.TemporaryDirectory() as files:
        with open_lake(SharedLake(SecretStr(catalog), files)):  # creates it
            pass
        arguments = (catalog, files, rows, start.wait, made)
        workers = [
            spawn.Process(target=commit_for_a_while, args=arguments) for _ in range(processes)
        ]
        for worker in workers:
            worker.start()
        total = sum(made.get() for _ in workers)
        for worker in workers:
            worker.join()
    return total


def main() -> None:
    """Print the commits a minute for each number of processes and rows of a commit."""
    server = os.environ["FLEETLAKE_TEST_POSTGRES"]
    for rows in ROWS:
        for processes in PROCESSES:
            rate = commits(server, processes, rows) * 60 / SECONDS
            sys.stdout.write(
                f"{processes} processes, {rows:,} rows a commit: {rate:,.0f} commits a minute\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
