"""Findings within a maintenance window are snoozed until its end, once."""

from collections.abc import Mapping

from fleetlake.lake.connection import Lake
from fleetlake.marts.finding_states import MOST_AT_ONCE, FindingState, FindingStep, NewStep
from fleetlake.marts.findings import read_findings, read_steps, take_step
from fleetlake.notifying.untold import is_of_groups, parts_of
from fleetlake.settings.maintenance_window import MaintenanceWindow


def snooze_planned(lake: Lake, windows: Mapping[str, MaintenanceWindow]) -> int:
    """Snooze the open findings that lie in a window, by the time of the data; return how many.

    One that a person opens again stays open. Raises: LakeError if the marts were never built.
    """
    if not windows:
        return 0
    found = read_findings(lake, state=FindingState.OPEN)
    parts = parts_of(found)
    snoozed = 0
    for name, window in windows.items():
        end = window.end_of(found[0]["as_of_at"]) if found else None
        if end is None:
            continue
        actor = f"maintenance {name}"
        before = {step[0] for step in read_steps(lake) if (step[3], step[6]) == (actor, end)}
        ids = {
            one["attention_id"]
            for one in found
            if all(
                is_of_groups([part], window.groups)
                for part in parts.get(one["attention_id"], (one,))
            )
        }
        new = sorted(ids - before)
        for start in range(0, len(new), MOST_AT_ONCE):
            few = frozenset(new[start : start + MOST_AT_ONCE])
            step = NewStep(finding_ids=few, step=FindingStep.SNOOZE, actor=actor, until=end)
            snoozed += len(take_step(lake, step))
    return snoozed
