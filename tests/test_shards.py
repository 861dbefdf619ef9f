"""Shards of a large fleet: together they load what one load does, and do not block each other.

The truth comes from the simulator, as in test_load.py.
"""

import subprocess
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fleetlake.account import DEFAULT_PROFILE
from fleetlake.cli import app
from fleetlake.endpoints import ENDPOINTS
from fleetlake.errors import FleetlakeError, StreamBusy
from fleetlake.lake import open_lake
from fleetlake.lake.current import fan_out_ids
from fleetlake.lake.locks import stream_lock
from fleetlake.lake.watermarks import proven_intervals
from fleetlake.planning.coverage import LIST_LIFE
from fleetlake.planning.intervals import BEGINNING
from fleetlake.planning.shards import PARTS, WHOLE, Shard
from tests.support.processes import UNSETTLED, command, environment, fleetlake, service
from tests.support.sim import Sim
from tests.test_crash import compare
from tests.test_load import assert_complete

DIVISIBLE = [e for e in ENDPOINTS.values() if e.is_divisible]
SERIES = next(e for e in DIVISIBLE if e.fan_out and e.fan_out.moved)


@pytest.mark.parametrize("of", range(1, PARTS + 1))
def test_each_id_is_in_one_shard_and_shards_have_similar_sizes(of: int) -> None:
    shards = [Shard(number, of) for number in range(1, of + 1)]
    ids = range(1000, 25_000, 2)

    sizes = [sum(shard.has(one) for one in ids) for shard in shards]

    assert sum(sizes) == len(ids)
    assert all(sum(shard.has(one) for shard in shards) == 1 for one in ids[:200])
    largest = len(shards[0].parts) / PARTS
    assert max(sizes) < 1.1 * largest * len(ids)


@pytest.mark.parametrize("text", ["0/4", "5/4", "1/0", "1/13", "2", "/4", "1/", "a/b", "-1/2", ""])
def test_nonexistent_shard_is_refused_with_the_correct_form(text: str) -> None:
    with pytest.raises(ValueError, match="1/4"):
        Shard.parse(text)


def test_command_refuses_a_nonexistent_shard(tmp_path: Path) -> None:
    words = ["ingest", "--shard", "5/4"]
    done = CliRunner().invoke(app, words, env=environment(tmp_path))

    assert isinstance(done.exception, FleetlakeError)
    assert done.exception.exit_code == 2
    assert "1/4" in str(done.exception)


def test_shards_lock_their_part_of_a_stream_and_exclude_other_loads_of_it(tmp_path: Path) -> None:
    with stream_lock(tmp_path, SERIES.name, Shard(1, 4)):
        with stream_lock(tmp_path, SERIES.name, Shard(2, 4)):
            pass
        with stream_lock(tmp_path, SERIES.name, Shard(2, 2)):
            pass
        for wanting in (Shard(1, 4), Shard(1, 2), WHOLE):
            with pytest.raises(StreamBusy), stream_lock(tmp_path, SERIES.name, wanting):
                pass

    with stream_lock(tmp_path, SERIES.name):
        pass


def test_refused_lock_leaves_no_part_of_the_stream_locked(tmp_path: Path) -> None:
    with (
        stream_lock(tmp_path, SERIES.name, Shard(3, 3)),
        pytest.raises(StreamBusy),
        stream_lock(tmp_path, SERIES.name),
    ):
        pass

    with stream_lock(tmp_path, SERIES.name, Shard(1, 3)):
        pass


@pytest.mark.proof
@pytest.mark.parametrize(
    "order", [pytest.param((1, 2, 3), marks=pytest.mark.release), (3, 1, 2)], ids=str
)
def test_shards_in_any_order_load_the_same_as_one_whole_load(
    make_sim: Any, order: tuple[int, ...]
) -> None:
    sim = make_sim(days=1)
    names = [endpoint.name for endpoint in DIVISIBLE]
    for number in order:
        sim.ingest(*names, shard=Shard(number, 3))

    for endpoint in DIVISIBLE:
        assert_complete(sim, endpoint)
        with open_lake(sim.settings().lake, read_only=True) as lake:
            proven = proven_intervals(lake, DEFAULT_PROFILE, endpoint)
            ids = fan_out_ids(lake, DEFAULT_PROFILE, endpoint)
        intervals = {(i.start, len(found)) for found in proven.values() for i in found}
        assert set(proven) == {str(one) for one in ids}, endpoint.name
        assert intervals == {(BEGINNING, 1)}, endpoint.name


def test_shard_reads_and_proves_only_its_own_ids(sim: Sim) -> None:
    sim.ingest(SERIES.name, shard=Shard(2, 3))

    with open_lake(sim.settings().lake, read_only=True) as lake:
        ids = fan_out_ids(lake, DEFAULT_PROFILE, SERIES)
        proven = proven_intervals(lake, DEFAULT_PROFILE, SERIES)
        rows = lake.rows(f"select distinct {SERIES.fan_out.partition} from raw.{SERIES.name}")
    own = {str(one) for one in ids if Shard(2, 3).has(one)}
    assert set(proven) == own
    assert {str(one) for (one,) in rows} <= own
    assert len(own) < len(ids)


def test_only_the_first_shard_loads_indivisible_endpoints(sim: Sim) -> None:
    assert sim.ingest("accounts", "alerts", shard=Shard(2, 2)) == []
    assert sim.calls("alerts") == 0

    sim.ingest("accounts", "alerts", shard=Shard(1, 2))

    assert_complete(sim, ENDPOINTS["alerts"])


@pytest.mark.proof
def test_shard_skips_ids_that_did_not_move_according_to_a_recent_list(sim: Sim) -> None:
    bulk = SERIES.fan_out.moved.endpoint
    sim.ingest(bulk, SERIES.name)
    spared = []
    for age in (LIST_LIFE + timedelta(minutes=5), timedelta(minutes=5)):
        sim.advance(7200)
        sim.ingest(bulk)
        sim.advance(age.total_seconds())
        outcomes = [sim.ingest(SERIES.name, shard=Shard(number, 2))[0] for number in (1, 2)]
        spared.append(sum(outcome.skipped for outcome in outcomes))

    assert spared[0] == 0 < spared[1]
    sim.ingest(bulk, SERIES.name)
    assert_complete(sim, SERIES, datetime.fromisoformat(sim.ask("GET", "/sim/state").json()["now"]))


@pytest.mark.release
@pytest.mark.proof
@pytest.mark.xdist_group("processes")
def test_concurrent_shards_in_separate_processes_load_every_record_once(
    tmp_path: Path,
) -> None:
    with service(routers=12, days=2, speed=0) as fleet:
        env = environment(tmp_path, fleet.url)
        first = fleetlake("ingest", "routers", "net_devices", env=env)
        now = datetime.fromisoformat(fleet.state()["now"])
        shards = [
            subprocess.Popen(
                command("ingest", "--shard", f"{number}/4"),
                env=env,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for number in range(1, 5)
        ]
        said = [shard.communicate(timeout=600)[0] for shard in shards]
        rows, doubles, losses = compare(fleet, env, (now - UNSETTLED).isoformat())

    assert first.returncode == 0, first.stderr
    assert [shard.returncode for shard in shards] == [0] * 4, said
    assert "another process" not in "".join(said)
    assert rows > 5000
    assert (doubles, losses) == (0, 0)
