"""Several accounts in one lake: every row once, with the account that read it."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from fleetlake.endpoints import ENDPOINTS
from fleetlake.errors import BudgetSpent, CredentialsRefused, SettingsError
from fleetlake.lake import open_lake
from fleetlake.loading.ingest import ingest
from fleetlake.monitoring.streams import stream_statuses
from fleetlake.settings import Settings
from tests.support.sim import KEYS, NOW, Sim, copied, new_sim
from tests.test_load import flaws

ROOT = {name: KEYS[name] for name in KEYS}
SUBACCOUNT = {**ROOT, "mgr_api_id": "subaccount-id", "mgr_api_key": "subaccount-key"}
NAMES = ["accounts", "routers", "net_devices", "alerts", "failovers", "net_device_usage_samples"]
FLEET = {"routers": 12, "days": 1}


def both(sim: Sim, **root: Any) -> Settings:
    """Return settings whose main keys are a sub-account's, with the root account as a profile."""
    return sim.settings(**SUBACCOUNT, profile="branch", profiles={"root": {**ROOT, **root}})


@pytest.fixture
def sim(make_sim: Any) -> Sim:
    return make_sim(**FLEET)


@pytest.fixture(scope="module")
def loaded(empty_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Sim:
    """Return a service that both accounts have read, to inspect or copy."""
    sim = new_sim(tmp_path_factory.mktemp("both"), **FLEET)
    shutil.copytree(empty_lake, sim.folder / "lake")
    outcomes = ingest(both(sim), NAMES, transport=sim.transport)
    assert [outcome.error for outcome in outcomes if outcome.error] == []
    return sim


def test_every_record_that_any_of_the_accounts_sees_is_in_the_lake_once(loaded: Sim) -> None:
    assert flaws(loaded, [ENDPOINTS[name] for name in NAMES]) == {}
    with open_lake(loaded.settings().lake, read_only=True) as lake:
        owners = lake.rows("select distinct account_profile from raw.routers order by 1")
    assert owners == [("branch",), ("root",)]


@pytest.mark.proof
def test_each_account_requests_only_its_own_devices(loaded: Sim, tmp_path: Path) -> None:
    sim = copied(loaded, tmp_path, **FLEET)
    settings = both(sim)

    again = ingest(settings, NAMES, transport=sim.transport)

    assert [(o.added, o.changed) for o in again] == [(0, 0)] * len(again)
    assert {o.profile for o in again} == {"branch", "root"}
    with open_lake(settings.lake, read_only=True) as lake:
        asked = dict(
            lake.rows(
                "select account_profile, count(distinct partition) from meta.intervals "
                "where endpoint = 'net_device_usage_samples' group by 1"
            )
        )
    assert asked["branch"] > 0
    assert asked["branch"] + asked["root"] == len(sim.truth("net_devices"))


@pytest.mark.proof
def test_status_shows_the_accounts_separately(loaded: Sim) -> None:
    with open_lake(loaded.settings().lake, read_only=True) as lake:
        found = stream_statuses(lake, now=NOW, calls_per_minute=450)

    rows = {s.account_profile: s.rows for s in found if s.endpoint == "routers"}
    assert rows.keys() == {"branch", "root"}
    assert sum(rows.values()) == len(loaded.truth("routers"))


def test_an_account_whose_keys_are_refused_does_not_stop_the_others(sim: Sim) -> None:
    with pytest.raises(CredentialsRefused):
        ingest(both(sim, mgr_api_key="wrong"), ["users"], transport=sim.transport)

    with open_lake(sim.settings().lake, read_only=True) as lake:
        [(users,)] = lake.rows("select count(*) from raw.users where account_profile = 'branch'")
    assert users > 0


def test_each_account_has_its_own_call_limit(sim: Sim) -> None:
    outcomes = ingest(both(sim, calls_per_day=1), ["users", "groups"], transport=sim.transport)

    errors = {o.profile: type(o.error) for o in outcomes if o.error}
    assert errors == {"root": BudgetSpent}
    assert both(sim, calls_per_day=1).daily_budgets() == {"branch": 0, "root": 1}


def test_profiles_are_set_by_the_environment_and_their_keys_print_as_stars(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in ROOT.items():
        monkeypatch.setenv(f"FLEETLAKE_PROFILES__NORTH__{name.upper()}", value)

    settings = Settings(base_url="http://localhost/api/v2/")

    [north] = settings.accounts()
    assert north.profile == "north"
    assert set(north.keys().values()) == set(ROOT.values()) - {ROOT["v3_token"]}
    assert not any(value in repr(settings) + repr(north) for value in ROOT.values())


def test_an_unknown_profile_is_refused_with_the_valid_names(sim: Sim) -> None:
    with pytest.raises(SettingsError, match="no profile 'south'") as refusal:
        both(sim).account("south")

    assert "branch, root" in refusal.value.remedy
