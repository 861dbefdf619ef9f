"""Actions that a POST starts: reboot_activity, speed_test, test_alert_push_destinations."""

from typing import Any

import numpy as np

from fleetsim import stamps
from fleetsim.ledger import Fields
from fleetsim.refusals import not_found
from fleetsim.resources.accounts import account_of
from fleetsim.rules import DESTINATIONS
from fleetsim.units import MINUTE
from fleetsim.writing.alert_settings import find
from fleetsim.writing.readers import exists, object_of, read_fields, relation, text
from fleetsim.writing.write_context import WriteAnswer, WriteContext, record_id, subject_of

_TEST_TAKES = MINUTE


def _router_row(context: WriteContext, identity: int) -> tuple[int, int]:
    """Return a router's row and the id of its account."""
    fleet = context.view.world.fleet
    row = int(fleet.router_ids.rows(np.array([identity]))[0])
    return row, account_of(context.view, row)


def reboot(context: WriteContext, body: Fields) -> WriteAnswer:
    """Ask a router to reboot."""
    fields = read_fields(context, body, {"router": relation("routers")}, ("router",))
    row, account = _router_row(context, fields["router"])
    after = {"id": str(fields["router"]), "requested": "reboot"}
    subject = subject_of(fields["router"])
    context.log("request", "router", subject, before={}, after=after, account=account)
    context.raise_alert("reboot_status_change", account=account, router=row, value=2)
    url = f"{context.view.origin}/api/v2/routers/{fields['router']}/"
    return WriteAnswer(201, {"router": url})


def start_speed_test(context: WriteContext, body: Fields) -> WriteAnswer:
    """Start a speed test of a router's interfaces."""
    readers = {"router": relation("routers"), "config": object_of}
    fields = read_fields(context, body, readers, ("router",))
    number = context.view.ledger.next_serial()
    context.writes_to("speed_test").created[number] = {**fields, "created_at": context.view.now}
    _, account = _router_row(context, fields["router"])
    after = {"id": str(number), "router": str(fields["router"])}
    context.log("request", "speedtest", subject_of(number), before={}, after=after, account=account)
    return WriteAnswer(201, read_speed_test(context, str(number)))


def read_speed_test(context: WriteContext, key: str) -> Fields:
    """Return a speed test of a router the caller can see; it is complete after a minute."""
    number = record_id(key)
    record = context.writes_to("speed_test").created.get(number)
    if record is None or not exists(context, "routers", record["router"]):
        raise not_found()
    done = context.view.now >= record["created_at"] + _TEST_TAKES
    speed = 20 + context.view.world.draws.unit("speed-test", number).item() * 80
    results: list[dict[str, Any]] = [{"download_mbps": round(speed, 1), "upload_mbps": 9.5}]
    return {
        "id": str(number),
        "router": f"{context.view.origin}/api/v2/routers/{record['router']}/",
        "state": "complete" if done else "running",
        "created_at": stamps.to_datetime(record["created_at"]).isoformat(),
        "results": results if done else [],
        "resource_url": f"{context.view.origin}/api/v2/speed_test/{number}/",
    }


async def test_destination(context: WriteContext, body: Fields) -> WriteAnswer:
    """Send a test message to a destination and report the result."""
    fields = read_fields(context, body, {"destination_config_id": text}, ("destination_config_id",))
    number = find(context, DESTINATIONS, fields["destination_config_id"])
    destination = context.writes_to(DESTINATIONS).created[number]
    error = await context.simulation.pusher.try_once(destination)
    return WriteAnswer(201, {"success": error is None, "details": error or "delivered"})
