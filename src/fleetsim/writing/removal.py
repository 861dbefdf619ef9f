"""Deleting routers and accounts, and the records that belong to them."""

import numpy as np

from fleetsim.resources import RESOURCES
from fleetsim.writing.forms import (
    ACCOUNT_FORM,
    GROUP_FORM,
    LOCATION_FORM,
    ROUTER_FORM,
)
from fleetsim.writing.snapshot_records import delete, existing
from fleetsim.writing.write_context import WriteAnswer, WriteContext, record_id


def delete_account(context: WriteContext, key: str) -> WriteAnswer:
    """Delete an account without users, together with its groups and locations."""
    identity = existing(ACCOUNT_FORM, context, key)
    ACCOUNT_FORM.check(context, identity)
    for form in (GROUP_FORM, LOCATION_FORM):
        held = RESOURCES[form.resource]
        assert held.rows is not None
        block = held.rows(context.view)
        owners = np.asarray(held.by_name["account"].read(context.view, block))
        for owned in np.asarray(held.by_name["id"].read(context.view, block))[owners == identity]:
            delete(form, context, str(owned))
    return delete(ACCOUNT_FORM, context, key)


def delete_router(context: WriteContext, key: str) -> WriteAnswer:
    """Unregister a router, together with all its data.

    Views no longer have it in scope, so none of its data is served.
    """
    written = delete(ROUTER_FORM, context, key)
    created = context.writes_to("locations").created
    for number in [n for n, record in created.items() if record["router"] == record_id(key)]:
        del created[number]
    return written
