"""Replacing promoted columns by a release's columns for the same members.

A release may add a column for a promoted member under another name or kind. Later loads fill
only the release's column. So the promoted column's values move to it, and the promotion is
deleted.
"""

import logging

from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.columns import Column
from fleetlake.errors import StreamBusy
from fleetlake.lake.connection import Lake
from fleetlake.lake.evolution.member_values import empty_column, move_values
from fleetlake.lake.evolution.promotions import Promotion, columns_of_table, promotions
from fleetlake.lake.locks import commit_lock, stream_lock
from fleetlake.text.quoting import quoted

logger = logging.getLogger(__name__)


def replace_superseded(lake: Lake) -> None:
    """Replace promoted columns that a release's columns have superseded.

    A stream that is being loaded is skipped until the next time. Raises: LakeError.
    """
    for one in promotions(lake):
        if not _clashing_columns(one):
            continue
        try:
            with stream_lock(lake.path, one.endpoint), commit_lock(lake.path):
                _replace(lake, one)
        except StreamBusy:
            logger.debug(
                "%s is being loaded; its promoted columns are replaced later", one.endpoint
            )


def _clashing_columns(one: Promotion) -> list[Column]:
    """Return the release's columns that clash with a promoted one: same member or name."""
    own = ENDPOINTS[one.endpoint].columns if one.endpoint in ENDPOINTS else ()
    promoted = (one.path, one.column.name, one.kind)
    return [
        column
        for column in own
        if (column.path == one.path or column.name == one.column.name)
        and (column.path, column.name, column.kind) != promoted
    ]


def _replace(lake: Lake, one: Promotion) -> None:
    """Move a promoted column's values into the release's columns, in one transaction."""
    endpoint = ENDPOINTS[one.endpoint]
    with lake.transaction():
        empty_column(lake, endpoint, one.column)
        held = columns_of_table(lake, endpoint.name)
        for column in _clashing_columns(one):
            if column.name.lower() not in held:
                table = f"raw.{quoted(endpoint.name)}"
                lake.execute(
                    f"alter table {table} add column {quoted(column.name)} {column.sql_type}"
                )
            move_values(lake, endpoint, column)
        lake.execute(
            "delete from meta.promoted where endpoint = ? and member = ?",
            [one.endpoint, one.member],
        )
    logger.warning(
        "The member %s of %s now has a column in this release; its promoted column was removed.",
        one.member,
        one.endpoint,
    )
