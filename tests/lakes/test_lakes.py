"""Lakes that earlier releases made: each later one opens them, loads into them and builds.

`python -m tests.lakes.make` makes such a lake; one of each release stays here for ever.
"""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from fleetlake.endpoints import ENDPOINTS
from fleetlake.lake import open_lake
from fleetlake.lake.evolution.format import newest_format, this_release
from fleetlake.loading.ingest import ingest
from fleetlake.loading.outcome import Outcome
from fleetlake.marts.build import build_marts
from tests.lakes.digest import digests
from tests.lakes.make import ARCHIVE, FLEET, LAKES, ROWS, unpack
from tests.support.sim import NOW, Sim, new_sim
from tests.test_load import flaws

RELEASES = sorted(path.parent.name for path in LAKES.glob(f"*/{ARCHIVE}"))
MOST_BYTES = 300_000
LOADED = [
    "groups",
    "routers",
    "net_devices",
    "private_cellular_sims",
    "alerts",
    "failovers",
    "historical_locations",
    "net_device_signal_samples",
]
"""Endpoints of each kind: lists, streams, fan-outs, v2 and v3."""


@pytest.fixture(
    params=[*(pytest.param(one, marks=pytest.mark.proof) for one in RELEASES[:-1]), RELEASES[-1]]
)
def release(request: pytest.FixtureRequest) -> str:
    """Return the name of each release of which a lake is kept."""
    return str(request.param)


@pytest.fixture
def sim(release: str, tmp_path: Path) -> Sim:
    """Return the service that the release loaded, over a copy of its lake."""
    unpack(release, tmp_path)
    return new_sim(tmp_path, **FLEET)


def ingest_as_before(sim: Sim) -> list[Outcome]:
    """Load some endpoints from the address at which the lake's release found the service.

    Records hold URLs of other records, so another address would be a change of the record.
    """
    with open_lake(sim.settings().lake) as lake:
        [(url,)] = lake.rows("select min(resource_url) from raw.routers where valid_to is null")
    root = url[: url.index("/api/")]
    settings = sim.settings(base_url=f"{root}/api/v2/", v3_base_url=f"{root}/api/v3")
    return ingest(settings, LOADED, transport=sim.transport)


def test_a_lake_of_each_release_is_kept_and_small(release: str) -> None:
    size = sum(path.stat().st_size for path in (LAKES / release).iterdir())

    assert RELEASES[:2] == ["0.1", "0.2"]
    assert size < MOST_BYTES


def test_a_lake_of_an_earlier_release_is_upgraded_in_one_line_and_holds_the_same_rows(
    release: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lake_path = unpack(release, tmp_path)
    known = json.loads((LAKES / release / ROWS).read_text("utf-8"))
    before = digests(lake_path, known)
    for _ in range(2):
        with open_lake(lake_path) as lake:
            noted = lake.rows("select format_version, release from meta.lake")

    assert sum(table["rows"] for table in known.values()) > 2000
    assert before == known
    assert digests(lake_path, known) == known
    assert noted == [(newest_format(), this_release())]
    assert len(caplog.messages) <= 1


def test_the_oldest_lake_says_what_upgraded_it_and_its_lists_are_valid_since_they_were_loaded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with open_lake(unpack("0.1", tmp_path)) as lake:
        rows = lake.rows(
            "select count(*) > 0, bool_and(valid_from = _loaded_at), count(valid_to)"
            " from raw.net_device_health"
        )

    [told] = caplog.messages
    assert f"was upgraded to fleetlake {this_release()}: " in told
    assert "column" in told
    assert rows == [(True, True, 0)]


@pytest.mark.proof
def test_a_load_into_a_lake_of_an_earlier_release_adds_only_what_is_new(sim: Sim) -> None:
    first = ingest_as_before(sim)
    sim.advance(3600)
    second = ingest_as_before(sim)

    assert [(o.endpoint, o.error) for o in first + second if o.error] == []
    assert {o.endpoint: (o.added, o.changed) for o in first if o.added or o.changed} == {}
    assert sum(outcome.added for outcome in second) > 0
    assert flaws(sim, map(ENDPOINTS.__getitem__, LOADED), NOW + timedelta(hours=1)) == {}


@pytest.mark.release
def test_the_marts_of_a_lake_of_an_earlier_release_are_built_again(sim: Sim) -> None:
    sim.advance(3600)
    sim.ingest()

    done = build_marts(sim.settings().lake)

    assert done.is_full
    assert sum(model.rows or 0 for model in done.models) > 100
