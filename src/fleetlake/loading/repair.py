"""Repairing a damaged lake: forget what was lost, then read it again from the service."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import httpx

from fleetlake.care.integrity.check import check_lake, damage_error
from fleetlake.care.integrity.damage import CheckReport, DamageKind
from fleetlake.care.integrity.forget import forget_losses
from fleetlake.care.integrity.listing import OnBytes, ignore_bytes
from fleetlake.care.integrity.losses import REPROVED, Loss, describe_losses
from fleetlake.endpoints import ENDPOINTS, requested_endpoints
from fleetlake.endpoints.model import Endpoint
from fleetlake.errors import LakeError
from fleetlake.lake import Lake, open_lake
from fleetlake.lake.catalog import open_as_is
from fleetlake.lake.current import fan_out_ids
from fleetlake.lake.gaps import add_gap
from fleetlake.lake.locks import AT_ONCE, Patience, commit_lock
from fleetlake.lake.watermarks import proven_intervals
from fleetlake.lake_address import LakeAddress
from fleetlake.loading.ingest import ingest
from fleetlake.loading.outcome import Outcome
from fleetlake.loading.run import Watcher
from fleetlake.planning.intervals import Interval, coalesce, subtract
from fleetlake.settings import Settings


@dataclass(frozen=True, kw_only=True)
class RepairPlan:
    """What a repair will do: the damage, what the lost files held, and what is to be read again.

    `contradicted` are the endpoints of which meta and the raw table disagree.
    """

    report: CheckReport
    losses: tuple[Loss, ...]
    contradicted: tuple[str, ...]

    @property
    def to_read(self) -> tuple[str, ...]:
        """The endpoints to load again, with the lists that their ids come from."""
        lost = {loss.endpoint.name for loss in self.losses if loss.endpoint}
        if {loss.file.table for loss in self.losses if loss.file.schema == "meta"} & REPROVED:
            lost = {*ENDPOINTS}
        lost |= {*self.contradicted}
        fan_outs = [fan_out for name in lost if (fan_out := ENDPOINTS[name].fan_out)]
        sources = {fan_out.source for fan_out in fan_outs}
        moved = {fan_out.moved.endpoint for fan_out in fan_outs if fan_out.moved}
        return tuple(e.name for e in requested_endpoints() if e.name in lost | sources | moved)

    @property
    def is_nothing(self) -> bool:
        """True if nothing has to be forgotten."""
        return not (self.losses or self.contradicted or self.report.lost_files)


def plan_repair(
    path: LakeAddress, *, is_full: bool = True, on_checked: OnBytes = ignore_bytes
) -> RepairPlan:
    """Check a lake and describe what its damaged files held; nothing is changed.

    Raises: LakeError if the catalog is damaged or lost, because no single file can then be blamed.
    """
    report = check_lake(path, is_full=is_full, on_checked=on_checked)
    if any(one.kind is DamageKind.CATALOG for one in report.damages):
        raise damage_error(path, report)
    contradicted = {one.table for one in report.damages if one.kind is DamageKind.INDEX}
    losses: list[Loss] = []
    if report.lost_files:
        with open_as_is(path.resolve()) as lake, lake.single_snapshot():
            losses = describe_losses(lake, report.lost_files)
    return RepairPlan(
        report=report,
        losses=tuple(losses),
        contradicted=tuple(sorted(name.removeprefix("raw.") for name in contradicted)),
    )


def repair(path: LakeAddress, plan: RepairPlan, *, patience: Patience = AT_ONCE) -> None:
    """Forget what a plan says was lost, in one transaction.

    Raises: LakeBusy if a stream is being loaded for longer than `patience`; LakeError.
    """
    with suppress(LakeError), open_lake(path):
        pass  # brings an older lake up to date, if it can be read at all
    with open_as_is(path.resolve(), read_only=False) as lake:
        forget_losses(
            lake, plan.losses, plan.report.lost_files, plan.contradicted, patience=patience
        )


def read_again(
    settings: Settings,
    plan: RepairPlan,
    *,
    watcher: Watcher | None = None,
    transport: httpx.AsyncBaseTransport | None = None,
) -> list[Outcome]:
    """Load the endpoints of a plan, and record as gaps what the service cannot be asked for.

    Raises: the errors of `ingest`. What was not read stays unproven, so the next load reads it.
    """
    if not plan.to_read:
        return []
    outcomes = ingest(settings, plan.to_read, watcher=watcher, transport=transport)
    with open_lake(settings.lake) as lake:
        for name, ranges in _lost_ranges(plan).items():
            for account in settings.accounts():
                _record_unlisted(lake, account.profile, ENDPOINTS[name], ranges)
    return outcomes


def _lost_ranges(plan: RepairPlan) -> dict[str, list[Interval]]:
    """Return the lost ranges of each endpoint that is read by id."""
    held: dict[str, list[Interval]] = {}
    for loss in plan.losses:
        if loss.endpoint and loss.endpoint.is_divisible and loss.held:
            held.setdefault(loss.endpoint.name, []).append(loss.held)
    return {name: coalesce(ranges) for name, ranges in held.items()}


def _record_unlisted(
    lake: Lake, profile: str, endpoint: Endpoint, ranges: Sequence[Interval]
) -> None:
    """Record gaps for ids that the service no longer lists, so their rows are not asked for."""
    listed = {str(id_) for id_ in fan_out_ids(lake, profile, endpoint)}
    lost = [
        (partition, hole)
        for partition, proven in proven_intervals(lake, profile, endpoint).items()
        if partition not in listed
        for whole in ranges
        for hole in subtract(whole, proven)
        if hole.start in {one.end for one in proven}  # a proven range ends where the loss begins
        and hole.start == whole.start
    ]
    if not lost:
        return
    with commit_lock(lake.path), lake.transaction():
        for partition, hole in lost:
            reason = "its file was lost, and the service no longer lists the device"
            add_gap(lake, profile, endpoint, hole, reason, partition=partition)
