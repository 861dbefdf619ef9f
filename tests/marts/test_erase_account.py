"""Erasing a whole account, with its sub-account, users and routers, from a lake that is in use."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.relations import Thing
from fleetlake.exporters import TARGETS
from fleetlake.exporters.export import export
from fleetlake.lake import open_lake
from fleetlake.marts import build_marts
from fleetlake.privacy.erase import erase
from fleetlake.privacy.receipt import raise_unfinished
from fleetlake.publishing.publish import publish
from fleetsim.app import create_app
from fleetsim.options import SimulatorOptions
from tests.marts.conftest import LOADED_AT
from tests.support.leaks import scan
from tests.support.sim import Sim
from tests.test_erase import IN_TEXTS
from tests.test_load import key_of, keys_in

NORTH = 10204
"""An account of the simulator that has a sub-account; both have routers and users."""

TABLES = ("raw.users", "raw.routers", "raw.activity_logs", "device_inventory", "change_log")

pytestmark = pytest.mark.release


@dataclass(frozen=True)
class Family:
    """An account of the simulator with its sub-account: what belongs to them, and tells of them."""

    accounts: set[int]
    users: set[int]
    routers: set[int]
    interfaces: set[int]
    texts: set[str]

    @property
    def ids(self) -> set[int]:
        """All of their ids."""
        return self.accounts | self.users | self.routers | self.interfaces

    def owns(self, endpoint: str, record: dict[str, Any]) -> bool:
        """Return whether a record of the service is one of them, or belongs to them."""
        named = {
            "account": self.accounts,
            "user": self.users,
            "router": self.routers,
            "net_device": self.interfaces,
        }
        if (listed := named.get(endpoint.removesuffix("s"))) and int(record["id"]) in listed:
            return True
        device = int(record.get("_device") or 0)
        return device in self.routers | self.interfaces or any(
            address_id(record.get(member)) in ids
            for name, ids in named.items()
            for member in (name, f"{name}_id")
        )


def address_id(value: Any) -> int | None:
    """Return the id at the end of an address, or the id itself."""
    last = str(value or "").rstrip("/").rpartition("/")[2]
    return int(last) if last.isdecimal() else None


def family_of(fleet: Sim, account: int) -> Family:
    """Return an account with what the service says belongs to it or to its sub-accounts."""
    accounts = {account} | {
        int(one["id"]) for one in fleet.truth("accounts") if address_id(one["account"]) == account
    }
    users = [one for one in fleet.truth("users") if address_id(one["account"]) in accounts]
    routers = [one for one in fleet.truth("routers") if address_id(one["account"]) in accounts]
    ids = {int(one["id"]) for one in routers}
    interfaces = [n for n in fleet.truth("net_devices") if address_id(n["router"]) in ids]
    telling = [*users, *routers, *({k: n[k] for k in n if k != "name"} for n in interfaces)]
    texts = {str(one[k]) for one in telling for k in IN_TEXTS if one.get(k)}
    texts |= {one["name"] for one in fleet.truth("accounts") if int(one["id"]) in accounts}
    return Family(
        accounts=accounts,
        users={int(one["id"]) for one in users},
        routers=ids,
        interfaces={int(one["id"]) for one in interfaces},
        texts=texts | {text.replace(":", "") for text in texts},
    )


OF_OTHERS = (
    *("accounts", "users", "routers", "groups", "net_devices", "alerts", "failovers"),
    *("historical_locations", "router_state_samples", "net_device_signal_samples"),
)


def assert_others_are_whole(fleet: Sim, family: Family, now: datetime) -> None:
    """Assert that the lake has each record of all others once, and none of the erased."""
    until = now - timedelta(seconds=60)
    with open_lake(fleet.settings().lake, read_only=True) as lake:
        for name in OF_OTHERS:
            endpoint = ENDPOINTS[name]
            kept = keys_in(lake, endpoint)
            listed = fleet.truth(name, None if endpoint.is_snapshot else until)
            others = {key_of(endpoint, one) for one in listed if not family.owns(name, one)}
            ever = {
                key_of(endpoint, one) for one in fleet.truth(name) if not family.owns(name, one)
            }
            assert len(kept) == len(set(kept)), name
            assert others <= set(kept) <= ever, name
            assert others, name


def test_an_erased_account_is_gone_from_every_file_and_all_others_are_whole(
    make_lake: Callable[..., Path], tmp_path: Path
) -> None:
    make_lake(tmp_path)
    app = create_app(SimulatorOptions(routers=12, days=4, now=LOADED_AT, speed=0))
    fleet = Sim(app, tmp_path)
    addresses = {name: SecretStr(str(tmp_path / name)) for name in ("parquet", "delta")}
    settings = fleet.settings(exports=addresses)
    fleet.ingest("users_v3")
    build_marts(settings.lake)
    publish(settings.lake, settings.published, raw=["users"])
    with open_lake(settings.lake) as lake:
        for name, address in addresses.items():
            export(lake, TARGETS[name], address, TABLES)
    family = family_of(fleet, NORTH)
    assert scan([tmp_path], texts=family.texts, ids=family.ids).leaks

    receipt = erase(settings, [(Thing.ACCOUNT, NORTH)])
    raise_unfinished(receipt.outlets)

    assert {Thing(name): n for name, n in receipt.things.items()} == {
        Thing.ACCOUNT: len(family.accounts),
        Thing.USER: len(family.users),
        Thing.ROUTER: len(family.routers),
        Thing.NET_DEVICE: len(family.interfaces),
    }
    assert scan([tmp_path], texts=family.texts, ids=family.ids).leaks == []
    assert_others_are_whole(fleet, family, LOADED_AT)

    fleet.advance(86_400)
    fleet.ingest()
    build_marts(settings.lake)
    publish(settings.lake, settings.published, raw=["users"])

    assert scan([tmp_path], texts=family.texts, ids=family.ids).leaks == []
    assert_others_are_whole(fleet, family, LOADED_AT + timedelta(days=1))
