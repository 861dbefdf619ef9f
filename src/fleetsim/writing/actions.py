"""reboot_activity, speed_test and test_alert_push_destinations: things asked for by POST."""

from typing import Any

import numpy as np

from fleetsim import stamps
from fleetsim.ledger import Fields
from fleetsim.refusals import not_found
from fleetsim.resources.accounts import account_of
from fleetsim.rules import DESTINATIONS
from fleetsim.units import MINUTE
from fleetsim.writing.alert_settings import find
from fleetsim.writing.desk import Desk, Written, record_id, subject_of
from fleetsim.writing.readers import exists, object_of, read_fields, relation, text

_TEST_TAKES = MINUTE


def _router_row(desk: Desk, identity: int) -> tuple[int, int]:
    """Return a router's row and the id of its account."""
    fleet = desk.view.world.fleet
    row = int(fleet.router_ids.rows(np.array([identity]))[0])
    return row, account_of(desk.view, row)


def reboot(desk: Desk, body: Fields) -> Written:
    """Ask a router to reboot."""
    fields = read_fields(desk, body, {"router": relation("routers")}, ("router",))
    row, account = _router_row(desk, fields["router"])
    after = {"id": str(fields["router"]), "requested": "reboot"}
    subject = subject_of(fields["router"])
    desk.log("request", "router", subject, before={}, after=after, account=account)
    desk.raise_alert("reboot_status_change", account=account, router=row, value=2)
    url = f"{desk.view.origin}/api/v2/routers/{fields['router']}/"
    return Written(201, {"router": url})


def start_speed_test(desk: Desk, body: Fields) -> Written:
    """Start a speed test of a router's interfaces."""
    readers = {"router": relation("routers"), "config": object_of}
    fields = read_fields(desk, body, readers, ("router",))
    number = desk.view.ledger.next_serial()
    desk.writes_to("speed_test").created[number] = {**fields, "created_at": desk.view.now}
    _, account = _router_row(desk, fields["router"])
    after = {"id": str(number), "router": str(fields["router"])}
    desk.log("request", "speedtest", subject_of(number), before={}, after=after, account=account)
    return Written(201, read_speed_test(desk, str(number)))


def read_speed_test(desk: Desk, key: str) -> Fields:
    """Return a speed test of a router the caller can see; it is complete after a minute."""
    number = record_id(key)
    record = desk.writes_to("speed_test").created.get(number)
    if record is None or not exists(desk, "routers", record["router"]):
        raise not_found()
    done = desk.view.now >= record["created_at"] + _TEST_TAKES
    speed = 20 + desk.view.world.draws.unit("speed-test", number).item() * 80
    results: list[dict[str, Any]] = [{"download_mbps": round(speed, 1), "upload_mbps": 9.5}]
    return {
        "id": str(number),
        "router": f"{desk.view.origin}/api/v2/routers/{record['router']}/",
        "state": "complete" if done else "running",
        "created_at": stamps.to_datetime(record["created_at"]).isoformat(),
        "results": results if done else [],
        "resource_url": f"{desk.view.origin}/api/v2/speed_test/{number}/",
    }


async def test_destination(desk: Desk, body: Fields) -> Written:
    """Send a test message to a destination and say how it went."""
    fields = read_fields(desk, body, {"destination_config_id": text}, ("destination_config_id",))
    number = find(desk, DESTINATIONS, fields["destination_config_id"])
    destination = desk.writes_to(DESTINATIONS).created[number]
    error = await desk.simulation.pusher.try_once(destination)
    return Written(201, {"success": error is None, "details": error or "delivered"})
