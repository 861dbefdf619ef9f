"""The endpoints that table-driven tests run for, so that a new row is tested automatically."""

import pytest

from fleetlake.endpoints import ENDPOINTS, requested_endpoints
from fleetlake.endpoints.model import Endpoint

REQUESTED = {e.name: e for e in requested_endpoints()}
"""The rows of the endpoint table that are read from the service."""

every_endpoint = pytest.mark.parametrize("endpoint", REQUESTED.values(), ids=REQUESTED)
"""Run a test for each endpoint that is requested."""

every_table = pytest.mark.parametrize("endpoint", ENDPOINTS.values(), ids=ENDPOINTS)
"""Run a test for each raw table, that of pushed records included."""

ONE_OF_EACH_SORT = {
    (e.mode, e.api, e.fan_out is None, len(e.key), e.event_time is None): e
    for e in REQUESTED.values()
}
"""Endpoints that together cover everything that loads treat differently."""

every_sort = pytest.mark.parametrize(
    "endpoint", ONE_OF_EACH_SORT.values(), ids=lambda one: one.name
)
"""Run a test for each of them."""


def use_rows(patch: pytest.MonkeyPatch, *rows: Endpoint, instead_of: str = "") -> None:
    """Let the endpoint table have other rows of these names, and none of the name `instead_of`."""
    others = {name: row for name, row in ENDPOINTS.items() if name != instead_of}
    changed = others | {row.name: row for row in rows}
    patch.setattr("fleetlake.endpoints._rows", lambda: changed)
