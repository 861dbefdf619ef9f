"""Deleting a router: it is unregistered, and all its data goes with it."""

from fleetlake.simulator.writing.desk import Desk, Written, record_id
from fleetlake.simulator.writing.forms import ROUTER_FORM
from fleetlake.simulator.writing.records import delete


def delete_router(desk: Desk, key: str) -> Written:
    """Delete a router; a view no longer has it in scope, so none of its data is served."""
    written = delete(ROUTER_FORM, desk, key)
    created = desk.table("locations").created
    for number in [n for n, record in created.items() if record["router"] == record_id(key)]:
        del created[number]
    return written
