"""Findings of a lake: listed with their state, and steps about them recorded.

Steps are rows of `meta.findings`, which are only added; an erasure alone removes or redacts them.
"""

from collections.abc import Collection
from datetime import timedelta
from typing import Any

from fleetlake.errors import LakeError, UsageError
from fleetlake.lake.connection import Lake, has_meta
from fleetlake.lake.ducklake import FILES_ONLY, columns_in
from fleetlake.lake.locks import commit_lock
from fleetlake.marts.finding_states import (
    STEP_COLUMNS,
    FindingState,
    FindingStep,
    NewStep,
    findings_sql,
)
from fleetlake.text.wording import counted


def read_findings(lake: Lake, *, state: FindingState | None = None) -> list[dict[str, Any]]:
    """Return the findings of a lake with their state, most urgent and newest first.

    Raises: LakeError if the marts were never built.
    """
    return lake.named_rows(findings_query(lake), {"state": state})


def findings_query(lake: Lake) -> str:
    """Return the SQL of the findings with the state `$state`, or of all if it is null.

    Raises: LakeError if the marts were never built.
    """
    _require_mart(lake)
    return (
        f"select * from ({findings_sql('marts.attention', _steps(lake))}) "
        "where state = coalesce($state, state) "
        "order by severity_rank, reason = 'outage' desc, since_at desc nulls last, attention_id"
    )


def read_steps(lake: Lake, finding_id: str | None = None) -> list[tuple[Any, ...]]:
    """Return the steps as rows of STEP_COLUMNS, oldest first."""
    return lake.rows(
        f"select {', '.join(STEP_COLUMNS)} from {_steps(lake)} "
        "where finding_id = coalesce(?, finding_id) order by made_at, finding_id",
        [finding_id],
    )


def steps_of_present(lake: Lake) -> list[tuple[Any, ...]]:
    """Return the steps about findings that are in the mart now; none before the first build."""
    if not _has_mart(lake):
        return []
    return lake.rows(
        f"select {', '.join(STEP_COLUMNS)} from {_steps(lake)} where finding_id in "
        "(select attention_id from marts.attention) order by made_at, finding_id"
    )


def acknowledged(lake: Lake, ids: Collection[str]) -> dict[str, str]:
    """Return which of these findings are acknowledged, and by whom."""
    found = read_findings(lake, state=FindingState.ACKNOWLEDGED)
    return {one["attention_id"]: one["handled_by"] for one in found if one["attention_id"] in ids}


def take_step(lake: Lake, wanted: NewStep) -> list[tuple[Any, ...]]:
    """Record a step about findings, all or none, and return its rows of STEP_COLUMNS.

    One about an outage is recorded for its devices, too. To acknowledge what is acknowledged
    already records nothing, unless there is a comment.

    The rows become a file at once: the service could not give them back.

    Raises: UsageError for a finding that is not in the mart, or a snooze that is over already;
    LakeError if the marts were never built.
    """
    _require_mart(lake)
    ids = sorted(wanted.finding_ids)
    is_length = isinstance(wanted.until, timedelta)
    length, instant = (wanted.until, None) if is_length else (None, wanted.until)
    with commit_lock(lake.path), lake.transaction():
        lake.execute(FILES_ONLY)
        known = "from marts.attention where attention_id in (select unnest(?::varchar[]))"
        found = {id_ for (id_,) in lake.rows(f"select attention_id {known}", [ids])}
        if missing := [id_ for id_ in ids if id_ not in found]:
            others = f", nor {counted(len(missing) - 1, 'other')}" if missing[1:] else ""
            raise UsageError(
                f"There is no finding {missing[0]!r}{others}.",
                remedy="`fleetlake findings` lists them: an id has several words, in quotes. "
                "It may have ended since you looked.",
            )
        if wanted.step is FindingStep.ACKNOWLEDGE and not wanted.comment:
            ids = sorted({*ids} - acknowledged(lake, ids).keys())
        known += " or parent_id in (select unnest(?::varchar[]))"
        [(newest,)] = lake.rows(f"select max(as_of_at) {known}", [ids, ids])
        if instant is not None and newest is not None and instant <= newest:
            raise UsageError(
                f"The snooze would end before the newest data, {newest:%Y-%m-%d %H:%M} UTC.",
                remedy="Choose a later end.",
            )
        [(before,)] = lake.rows("select max(made_at) from meta.findings")
        lake.execute(
            "insert into meta.findings by name select attention_id as finding_id, ? as step, "
            # Two steps have an order, whatever the clock does between them.
            "greatest(now(), ?::timestamptz + interval 1 microsecond) as made_at, ? as actor, "
            "as_of_at as seen_at, severity_rank, router_id, net_device_id, "
            "coalesce(?::timestamptz, as_of_at + ?::interval) as until_at, ? as assignee, "
            f"? as comment {known}",
            [
                *(wanted.step, before, wanted.actor, instant, length),
                *(wanted.assignee, wanted.comment, ids, ids),
            ],
        )
        return lake.rows(
            f"select {', '.join(STEP_COLUMNS)} from meta.findings where made_at > ? or ? is null "
            "order by finding_id",
            [before, before],
        )


def _has_mart(lake: Lake) -> bool:
    return ("attention", "attention_id") in columns_in(lake, "marts")


def _require_mart(lake: Lake) -> None:
    if not _has_mart(lake):
        raise LakeError("The lake holds no findings yet.", remedy="Run `fleetlake build` first.")
    if ("attention", "parent_id") not in columns_in(lake, "marts"):
        raise LakeError(
            "The findings are those of an earlier release.", remedy="Run `fleetlake build`."
        )


def _steps(lake: Lake) -> str:
    """Return the table of steps, or an empty one of a lake that an earlier release wrote."""
    if has_meta(lake, "findings"):
        return "meta.findings"
    times = {"made_at", "seen_at", "until_at"}
    columns = [
        f"null::{'timestamptz' if name in times else 'bigint' if 'rank' in name else 'varchar'} "
        f"as {name}"
        for name in STEP_COLUMNS
    ]
    return f"(select {', '.join(columns)} where false)"
