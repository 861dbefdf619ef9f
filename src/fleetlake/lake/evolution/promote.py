"""Promoting a member to a column, demoting it again, and giving a column another type.

A release may add a column for a promoted member under another name or kind. Later loads fill
only the release's column. So the promoted column's values move to it, and the promotion is
deleted.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace

from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.columns import Column, Kind
from fleetlake.endpoints.model import Endpoint
from fleetlake.errors import StreamBusy, UsageError
from fleetlake.lake.connection import Lake
from fleetlake.lake.evolution.member_values import (
    column_name,
    empty_column,
    fill_column,
    format_path,
    likely_kind,
    move_values,
    parse_path,
    retype_column,
)
from fleetlake.lake.evolution.promotions import (
    Promotion,
    columns_of_table,
    members,
    promoted_column,
    promotions,
    with_promoted,
    with_retyped,
)
from fleetlake.lake.locks import commit_lock, stream_lock
from fleetlake.text.quoting import quoted

logger = logging.getLogger(__name__)

__all__ = ["demote", "members", "promote", "retype", "with_promoted"]


def promote(
    lake: Lake, endpoint: Endpoint, member: str, kind: Kind | None = None
) -> tuple[Column, int]:
    """Make a member a column and move its values out of `_extra`; return it and the row count.

    `member` is written as in `member_names`; a dot leads into an object. Without `kind`, the
    narrowest kind that fits all values is used; a value that does not fit the kind stays in
    `_extra`. Raises: UsageError for an unknown member, or one that a column already holds in whole
    or in part; StreamBusy while the endpoint is being loaded.
    """
    path = _find_path(lake, endpoint, member)
    with stream_lock(lake.path, endpoint.name):
        [endpoint] = with_promoted(lake, [endpoint])
        _refuse_overlap(endpoint, path)
        kind = kind or likely_kind(lake, endpoint, path)
        taken = columns_of_table(lake, endpoint.name)
        name = column_name(path, is_relation=kind is Kind.RELATION, taken=taken)
        column = promoted_column(path, kind, name)
        with commit_lock(lake.path), lake.transaction():
            lake.execute(
                "insert into meta.promoted by name select ? as endpoint, ? as member, ? as kind, "
                "now() as promoted_at, ? as column_name",
                [endpoint.name, format_path(path), kind, name],
            )
            filled = fill_column(lake, endpoint, column)
    return column, filled


def demote(lake: Lake, endpoint: Endpoint, member: str) -> tuple[Column, int]:
    """Move a promoted column's values back to `_extra` and drop it; return it and the row count.

    Values are written as the column holds them: a time in UTC, a number as a number. `member` may
    also be the column's name. Raises: UsageError for a member that was not promoted; StreamBusy
    while the endpoint is being loaded.
    """
    with stream_lock(lake.path, endpoint.name):
        found = _find_promotion(promotions(lake, endpoint.name), endpoint, member)
        if found.column.name in {own.name for own in endpoint.columns if own.stored_as is None}:
            raise UsageError(
                f"{found.column.name} is now a column of raw.{endpoint.name} in every lake, "
                "so it cannot be demoted."
            )
        with commit_lock(lake.path), lake.transaction():
            returned = empty_column(lake, endpoint, found.column)
            lake.execute(
                "delete from meta.promoted where endpoint = ? and member = ?",
                [found.endpoint, found.member],
            )
    return found.column, returned


RETYPES = {Kind.INTEGER: (Kind.REAL, Kind.TEXT)}
"""Kinds of declared columns that a lake may store otherwise: staging reads all as numbers."""


def retype(
    lake: Lake, endpoint: Endpoint, member: str, kind: Kind | None = None
) -> tuple[Column, int]:
    """Store a declared column in another kind; return it and the rows filled from `_extra`.

    `member` may also be the column's name. Without `kind`, the narrowest of RETYPES that fits all
    values in `_extra` is used; the column's own kind makes it as declared again. Raises: UsageError
    for a column that cannot be retyped; StreamBusy while the endpoint is being loaded.
    """
    declared = next((c for c in endpoint.columns if member in {c.field, c.name}), None)
    if declared is None or declared.kind not in RETYPES or declared.name in endpoint.required:
        able = [c.name for c in endpoint.columns if c.kind in RETYPES]
        raise UsageError(
            f"{member!r} of {endpoint.name} cannot have another type.",
            remedy=f"Columns that can: {', '.join(able) or 'none'}.",
        )
    allowed = (declared.kind, *RETYPES[declared.kind])
    if kind is not None and kind not in allowed:
        raise UsageError(f"The type of {declared.name} can be {', '.join(allowed)}.")
    with stream_lock(lake.path, endpoint.name):
        [now] = with_retyped(lake, [endpoint])
        old = now.column(declared.name)
        if kind is None:
            fitting = likely_kind(lake, endpoint, declared.path)
            kind = fitting if fitting in allowed else Kind.TEXT
            kind = max(kind, old.kind, key=allowed.index)
        new = replace(declared, kind=kind)
        with commit_lock(lake.path), lake.transaction():
            lake.execute(
                "insert into meta.retyped by name select ? as endpoint, ? as member, ? as kind, "
                "now() as retyped_at",
                [endpoint.name, declared.field, kind],
            )
            return new, retype_column(lake, endpoint, old, new) if kind is not old.kind else 0


def _find_path(lake: Lake, endpoint: Endpoint, member: str) -> tuple[str, ...]:
    """Return the path to the member that the user named. Raises: UsageError if unknown."""
    known = [one.member for one in members(lake, endpoint.name)]
    candidates = {path for path in _possible_paths(member) if format_path(path[:1]) in known}
    if len(candidates) > 1:
        raise UsageError(
            f"{member!r} may be a member of {endpoint.name}, or a path into another one.",
            remedy=f"Type one of: {', '.join(sorted(map(format_path, candidates)))}.",
        )
    if not candidates:
        raise UsageError(
            f"No record of {endpoint.name} had a member {member!r} without a column.",
            remedy=f"Members without a column: {', '.join(known) or 'none'}.",
        )
    return candidates.pop()


def _possible_paths(member: str) -> set[tuple[str, ...]]:
    """Return the paths that a text may mean: the path it spells, and the text as a single name."""
    try:
        return {parse_path(member), (member,)}
    except ValueError:
        return {(member,)}


def _refuse_overlap(endpoint: Endpoint, path: tuple[str, ...]) -> None:
    """Raise UsageError if a column holds the member, a part of it, or an object around it."""
    for own in endpoint.columns:
        depth = min(len(own.path), len(path))
        if own.path[:depth] != path[:depth]:
            continue
        if own.path == path:
            raise UsageError(f"{endpoint.name} already has a column {own.name}.")
        raise UsageError(
            f"{format_path(path)} cannot be a column of {endpoint.name}: "
            f"its column {own.name} holds {format_path(own.path)}.",
            remedy="Promote the other members of that object, or demote the column first.",
        )


def _find_promotion(promoted: Sequence[Promotion], endpoint: Endpoint, member: str) -> Promotion:
    """Return the promotion that the user named by its member or its column."""
    by_path = [one for one in promoted if one.path in _possible_paths(member)]
    found = by_path or [one for one in promoted if one.column.name == member]
    if len(found) > 1:
        found = [one for one in found if one.member == member]
    if not found:
        raise UsageError(
            f"{member!r} of {endpoint.name} was not promoted.",
            remedy=f"Promoted members: {', '.join(one.member for one in promoted) or 'none'}.",
        )
    return found[0]


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
