"""The lake of one run: the totals of its loads, and ranges that are proven at its end."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from unittest.mock import Mock

import pyarrow as pa
import pytest

from fleetlake.decoding.arrow import read_page, schema_of
from fleetlake.endpoints import ENDPOINTS
from fleetlake.errors import LakeError
from fleetlake.lake import Lake, open_lake
from fleetlake.lake.loads import Committed
from fleetlake.lake.run_state import RunState
from fleetlake.lake.watermarks import proven_intervals
from fleetlake.loading.run import LakeThread
from fleetlake.planning.intervals import Interval
from fleetlake.service.clock import Clock
from fleetlake.settings import ClockTrust
from tests.support.loads import NOON, Load, load_of_rows

PAST = Interval(NOON - timedelta(hours=2), NOON - timedelta(hours=1))
GROUPS, USERS = ENDPOINTS["groups"], ENDPOINTS["users"]


@pytest.fixture
def lake(lake_path: Path) -> Iterator[Lake]:
    with open_lake(lake_path) as opened:
        yield opened


@pytest.fixture
def in_lake(lake: Lake) -> Iterator[LakeThread]:
    with ThreadPoolExecutor(max_workers=1) as thread:
        yield LakeThread(RunState(lake), thread, Clock(ClockTrust.SERVICE), run_id="run")


def load_of(*ids: int) -> Load:
    records = ",".join(f'{{"id":"{id_}"}}' for id_ in ids)
    page = read_page(GROUPS, f'{{"data":[{records}],"meta":{{"limit":9,"next":null}}}}'.encode())
    rows = pa.Table.from_batches([page.rows], schema=schema_of(GROUPS))
    return load_of_rows(GROUPS, rows, proven={"": [PAST]})


def commit(in_lake: LakeThread, load: Load) -> None:
    asyncio.run(in_lake.commit(load.batch, load.proof))


def test_changes_of_an_endpoints_loads_are_added_up(in_lake):
    for load in (load_of(1, 2), load_of(3), load_of(3)):
        commit(in_lake, load)

    assert in_lake.totals[GROUPS.name] == Committed(3, 0, 0)
    assert in_lake.totals[USERS.name] == Committed(0, 0, 0)


def test_a_commit_that_fails_counts_nothing(in_lake, lake, monkeypatch):
    failing = Mock(side_effect=LakeError("the disk is full"))
    monkeypatch.setattr(lake, "execute", failing)

    with pytest.raises(LakeError):
        commit(in_lake, load_of(1))
    assert in_lake.totals[GROUPS.name] == Committed(0, 0, 0)


def test_readings_without_new_rows_are_proven_at_the_end_of_the_run(in_lake, lake):
    commit(in_lake, load_of(1))
    lake.execute("delete from meta.intervals")
    commit(in_lake, load_of(1))
    assert proven_intervals(lake, "default", GROUPS) == {}

    asyncio.run(in_lake.commit_proofs())

    assert proven_intervals(lake, "default", GROUPS) == {"": [PAST]}
