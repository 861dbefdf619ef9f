"""Actions that a POST starts: reboot_activity, speed_test, test_alert_push_destinations."""

from typing import Any

from fleetsim import stamps
from fleetsim.ledger import Fields
from fleetsim.refusals import not_found, validation
from fleetsim.rules import DESTINATIONS
from fleetsim.units import MINUTE, NULL
from fleetsim.writing.alert_settings import find
from fleetsim.writing.readers import (
    WriteAnswer,
    WriteContext,
    exists,
    ids_of,
    ids_with,
    object_of,
    raw_value,
    read_fields,
    record_id,
    relation,
    router_row,
    subject_of,
    text,
)

_TEST_TAKES = MINUTE


def reboot(context: WriteContext, body: Fields) -> WriteAnswer:
    """Ask a router, or each router of a group, to reboot."""
    [name] = [one for one in ("router", "group") if one in body][:1] or ["router"]
    fields = read_fields(context, body, {name: relation(f"{name}s")}, (name,))
    identity = fields[name]
    routers = [identity] if name == "router" else ids_with(context, "routers", "group", identity)
    for router in routers:
        row, account = router_row(context, router)
        after = {"id": str(router), "requested": "reboot"}
        subject = subject_of(router)
        context.log("request", "router", subject, before={}, after=after, account=account)
        context.raise_alert("reboot_status_change", account=account, router=row, value=2)
    return WriteAnswer(201, {name: f"{context.view.origin}/api/v2/{name}s/{identity}/"})


def start_speed_test(context: WriteContext, body: Fields) -> WriteAnswer:
    """Start a speed test of a router, or of the interfaces in `config.net_device_ids`."""
    config = body.get("config")
    named = config.get("net_device_ids", []) if isinstance(config, dict) else []
    interfaces = ids_of("net_devices")(context, "net_device_ids", named)
    readers = {"router": relation("routers"), "account": relation("accounts"), "config": object_of}
    fields = read_fields(context, body, readers, () if interfaces else ("router",))
    routers = [raw_value(context, "net_devices", one, "router") for one in interfaces]
    router = fields.get("router", next((one for one in routers if one != NULL), None))
    if router is None:
        raise validation("net_device_ids", "no interface belongs to a router")
    number = context.view.ledger.next_serial()
    created = {**fields, "router": router, "interfaces": interfaces, "created_at": context.view.now}
    context.writes_to("speed_test").created[number] = created
    _, account = router_row(context, router)
    after = {"id": str(number), "router": str(router)}
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
    result: dict[str, Any] = {"download_mbps": round(speed, 1), "upload_mbps": 9.5}
    root = f"{context.view.origin}/api/v2"
    results = [
        {**result, "net_device": f"{root}/net_devices/{one}/"} for one in record["interfaces"]
    ] or [result]
    asked = {"config": record["config"]} if record["interfaces"] else {}
    return {
        "id": str(number),
        "router": f"{root}/routers/{record['router']}/",
        "state": "complete" if done else "running",
        "created_at": stamps.to_datetime(record["created_at"]).isoformat(),
        "results": results if done else [],
        "resource_url": f"{root}/speed_test/{number}/",
        **asked,
    }


async def test_destination(context: WriteContext, body: Fields) -> WriteAnswer:
    """Send a test message to a destination and report the result."""
    fields = read_fields(context, body, {"destination_config_id": text}, ("destination_config_id",))
    number = find(context, DESTINATIONS, fields["destination_config_id"])
    destination = context.writes_to(DESTINATIONS).created[number]
    error = await context.simulation.pusher.try_once(destination)
    return WriteAnswer(201, {"success": error is None, "details": error or "delivered"})
