"""A service that uses the vendor's words gives the marts of one that uses the contract's."""

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from fleetlake.alerting.account_settings import account_settings
from fleetlake.alerting.chosen_types import TYPE_GROUPS, chosen_types
from fleetlake.alerting.kept_secrets import KeptSecrets
from fleetlake.alerting.push_setup import PushSetup, Wanted
from fleetlake.lake import Lake, open_lake
from fleetlake.marts.build import build_marts
from fleetlake.receiving.drain import drain_all
from fleetlake.receiving.intake import open_intake
from fleetlake.receiving.push_app import create_app as create_receiver
from fleetlake.settings import Settings, load_settings
from fleetsim.app import create_app
from fleetsim.options import SimulatorOptions
from tests.support.alert_messages import push
from tests.support.sim import NOW, Sim
from tests.test_vendor_words import WORDS, as_toml

pytestmark = pytest.mark.xdist_group("marts")  # they share what makes a run of dbt cheap

MARTS = ("security_events", "failover_episodes", "alert_volume", "attention", "change_log")
ALTERNATE = {"type": "alt_modem_wan_disconnected", "friendly_info": "gone", "router": 1000006}


class Receiver:
    """A receiver in this process, to which a simulated service pushes."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.statuses: list[int] = []
        self._app: Starlette | None = None

    async def send(self, _url: str, body: bytes, headers: Mapping[str, str]) -> str | None:
        transport = httpx.ASGITransport(app=self._app)
        async with httpx.AsyncClient(transport=transport, base_url="http://receiver") as client:
            answer = await client.post("/push", content=body, headers=headers)
        self.statuses.append(answer.status_code)
        return None if answer.is_success else f"HTTP {answer.status_code}"

    async def receive(self, sim: Sim) -> None:
        """Have the service push what happens in the next hours."""
        intake = open_intake(self.settings)
        self._app = create_receiver(lambda: intake, metrics=("false",))
        wanted = Wanted(url="https://r.example/push", name="r", types=chosen_types(TYPE_GROUPS))
        async with self._app.router.lifespan_context(self._app):
            async with account_settings(self.settings, transport=sim.transport) as account:
                secrets = KeptSecrets(self.settings.push_secrets_file)
                steps = await PushSetup(account, secrets, wanted).run()
                assert any(step.is_change for step in steps)
                again = await PushSetup(account, secrets, wanted).run()
                assert not any(step.is_change for step in again)
            async with httpx.AsyncClient(transport=sim.transport, base_url="http://s") as client:
                await client.post("/sim/clock", json={"advance_seconds": 6 * 3600})


def marts_of(
    folder: Path, words: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> dict[str, list[Any]]:
    """Return the marts of a world that is loaded, pushed for some hours, and loaded again."""
    folder.mkdir()
    monkeypatch.chdir(folder)
    Path("fleetlake.toml").write_text("[vendor_words]\n" + as_toml(words))
    load_settings.cache_clear()
    sim = Sim(None, folder)
    settings = sim.settings(push_secrets_file=folder / "push-secrets")
    assert settings.vendor_words == words
    receiver = Receiver(settings)
    options = SimulatorOptions(routers=12, days=4, now=NOW, speed=0, vendor_words=words)
    sim.app = create_app(options, receiver.send)
    assert [outcome.error for outcome in sim.ingest() if outcome.error] == []

    asyncio.run(receiver.receive(sim))

    assert set(receiver.statuses) == {200}
    sent = settings.words.sent(ALTERNATE["type"])
    push(settings.push_journal, {**ALTERNATE, "type": sent, "detected_at": NOW.isoformat()})
    drained = drain_all(settings.lake, settings.push_journal)
    assert drained.alerts > 1
    assert drained.dead_letters == 0
    sim.ingest("alerts", "activity_logs", "failovers", "alert_rules")
    build_marts(settings.lake, select=" ".join(f"+{name}" for name in MARTS))
    with open_lake(settings.lake, read_only=True) as lake:
        assert lake.rows("select count(*) from meta.confirmations") == [(drained.alerts - 1,)]
        types = {name for (name,) in lake.rows("select distinct type from raw.alerts")}
        assert settings.words.sent("mgr_login_failure") in types
        require_changes_of_devices(lake, sim)
        require_failed_logins(lake, sim, settings.words.sent("mgr_login_failure"))
        columns = "columns(c -> c <> 'built_at')"
        return {m: lake.rows(f"select {columns} from marts.{m} order by all") for m in MARTS}


def require_changes_of_devices(lake: Lake, sim: Sim) -> None:
    """Require each change that a device made to name the members that the service said."""
    logs = [log for log in sim.truth("activity_logs") if "diff" in log["action"]]
    wanted = {}
    for log in logs:
        updates, removals = log["action"]["diff"]
        members = [*updates, *(".".join(map(str, path)) for path in removals)]
        wanted[log["action"]["id"]] = (log["actor"]["name"], len(members), sorted(members))
    found = lake.rows(
        "select activity_id, actor_name, members_changed, "
        "list_sort(list_transform(string_split(changes, '; '), x -> split_part(x, ':', 1))) "
        "from marts.change_log where actor_name is not null"
    )

    assert wanted
    assert {key: tuple(values) for key, *values in found} == wanted


def require_failed_logins(lake: Lake, sim: Sim, name: str) -> None:
    """Require each failed login to have the user and the address of its text."""
    texts = [alert["friendly_info"] for alert in sim.truth("alerts") if alert["type"] == name]
    found = lake.rows(
        "select description, actor, ip_address from marts.security_events "
        "where event_type = 'mgr_login_failure'"
    )

    assert sorted(text for text, *_ in found) == sorted(texts)
    for text, actor, address in found:
        assert text == f"Login of user {actor} from {address} failed: bad password."


@pytest.mark.release
def test_the_marts_are_those_of_the_same_world_in_the_contracts_words(tmp_path, monkeypatch):
    neutral = marts_of(tmp_path / "neutral", {}, monkeypatch)
    vendor = marts_of(tmp_path / "vendor", WORDS, monkeypatch)

    assert all(neutral.values())
    assert "mgr_login_failure" in json.dumps(neutral["security_events"], default=str)
    assert ALTERNATE["type"] in json.dumps(neutral["alert_volume"], default=str)
    assert vendor == neutral


@pytest.mark.proof
def test_a_changed_table_of_words_makes_the_next_build_a_full_one(
    make_sim: Callable[..., Sim], tmp_path, monkeypatch
):
    """What was loaded before the table was set comes under the contract's names."""
    sim = make_sim(vendor_words=WORDS)
    monkeypatch.chdir(tmp_path)
    words = tmp_path / "words.toml"
    words.write_text(as_toml({name: word for name, word in WORDS.items() if "X-" in name}))
    monkeypatch.setenv("FLEETLAKE_VENDOR_WORDS", str(words))
    load_settings.cache_clear()
    sim.ingest("alerts")
    build_marts(sim.settings().lake, select="+alert_volume")

    def built() -> set[str]:
        with open_lake(sim.settings().lake, read_only=True) as lake:
            return {t for (t,) in lake.rows("select distinct alert_type from marts.alert_volume")}

    before = built()
    words.write_text(as_toml(WORDS))
    load_settings.cache_clear()
    build_marts(sim.settings().lake, select="+alert_volume")

    assert "acme_login_failure" in before
    assert "acme_login_failure" not in built()
    assert built() == {
        "mgr_login_failure" if name == "acme_login_failure" else name for name in before
    }
