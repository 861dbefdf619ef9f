"""Findings within a maintenance window are snoozed until its end, once."""

from collections.abc import Mapping, Sequence
from typing import Any

from fleetlake.lake.connection import Lake
from fleetlake.lake.ducklake import columns_in
from fleetlake.marts.finding_states import MOST_AT_ONCE, FindingState, FindingStep, NewStep
from fleetlake.marts.findings import read_findings, read_steps, take_step
from fleetlake.marts.named_places import places_file, read_places
from fleetlake.notifying.untold import is_of_groups, parts_of
from fleetlake.settings.maintenance_window import MaintenanceWindow


def snooze_planned(lake: Lake, windows: Mapping[str, MaintenanceWindow]) -> int:
    """Snooze the open findings that lie in a window, by the time of the data; return how many.

    One that a person opens again stays open. Raises: LakeError if the marts were never built, and
    BuildFailed if the project's file of places has wrong rows.
    """
    if not windows:
        return 0
    found = read_findings(lake, state=FindingState.OPEN)
    snoozed = 0
    for name, window in windows.items():
        end = window.end_of(found[0]["as_of_at"]) if found else None
        if end is None:
            continue
        actor = f"maintenance {name}"
        before = {step[0] for step in read_steps(lake) if (step[3], step[6]) == (actor, end)}
        new = sorted(covered(lake, window, found) - before)
        for start in range(0, len(new), MOST_AT_ONCE):
            few = frozenset(new[start : start + MOST_AT_ONCE])
            step = NewStep(finding_ids=few, step=FindingStep.SNOOZE, actor=actor, until=end)
            snoozed += len(take_step(lake, step))
    return snoozed


def covered(lake: Lake, window: MaintenanceWindow, found: Sequence[dict[str, Any]]) -> set[str]:
    """Return the findings that are of a window's groups and places, whenever it is.

    An outage is if all its devices are. Raises: BuildFailed as above.
    """
    parts, inside = parts_of(found), _routers_at(lake, window.places)
    return {
        one["attention_id"]
        for one in found
        if all(
            is_of_groups([part], window.groups)
            and (not window.places or part["router_id"] in inside)
            for part in parts.get(one["attention_id"], (one,))
        )
    }


def _routers_at(lake: Lake, names: Sequence[str]) -> set[int]:
    """Return the routers whose latest position is in a named place, by its name in any case."""
    file, wanted = places_file(), {name.casefold() for name in names}
    places = [one for one in read_places(file) if one.name.casefold() in wanted] if file else []
    if not places or ("location_latest", "latitude_deg") not in columns_in(lake, "marts"):
        return set()
    rows = lake.rows("select router_id, latitude_deg, longitude_deg from marts.location_latest")
    return {router for router, *at in rows if any(place.holds(*at) for place in places)}
