"""Deleting what other records belong to: routers and accounts."""

import numpy as np

from fleetsim.resources import RESOURCES
from fleetsim.writing.desk import Desk, Written, record_id
from fleetsim.writing.forms import (
    ACCOUNT_FORM,
    GROUP_FORM,
    LOCATION_FORM,
    ROUTER_FORM,
)
from fleetsim.writing.snapshot_records import delete, existing


def delete_account(desk: Desk, key: str) -> Written:
    """Delete an account that holds no users, and its groups and places with it."""
    identity = existing(ACCOUNT_FORM, desk, key)
    ACCOUNT_FORM.check(desk, identity)
    for form in (GROUP_FORM, LOCATION_FORM):
        held = RESOURCES[form.resource]
        assert held.rows is not None
        block = held.rows(desk.view)
        owners = np.asarray(held.by_name["account"].read(desk.view, block))
        for owned in np.asarray(held.by_name["id"].read(desk.view, block))[owners == identity]:
            delete(form, desk, str(owned))
    return delete(ACCOUNT_FORM, desk, key)


def delete_router(desk: Desk, key: str) -> Written:
    """Unregister a router: all its data goes with it.

    A view no longer has it in scope, so none of its data is served.
    """
    written = delete(ROUTER_FORM, desk, key)
    created = desk.writes_to("locations").created
    for number in [n for n, record in created.items() if record["router"] == record_id(key)]:
        del created[number]
    return written
