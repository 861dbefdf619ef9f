"""How often each endpoint is to be loaded: the schedules of `prefect.yaml`, by endpoint.

The project's own file counts, else the package's. For another scheduler, write its intervals there,
so that alert rules know when a stream is late. A series that is read only from devices that moved
is proven complete for the others by a sweep, so it is late only after that.
"""

from collections.abc import Iterator
from typing import Any

import yaml

from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.groups import Group, endpoints_of
from fleetlake.errors import SettingsError
from fleetlake.machine.project import deployments_file, project_folder
from fleetlake.planning.coverage import SWEEP


def load_intervals() -> dict[str, float]:
    """Return the seconds between two scheduled loads, by endpoint.

    An endpoint is left out if no schedule loads it, or none that is an interval. Raises:
    SettingsError if the file is not YAML.
    """
    file = deployments_file(project_folder())
    try:
        read = yaml.safe_load(file.read_text("utf-8"))
    except (yaml.YAMLError, UnicodeError) as error:
        raise SettingsError(f"{file} is not a YAML file: {error}", remedy="Fix it.") from None
    deployments = read.get("deployments") if isinstance(read, dict) else None
    found: dict[str, float] = {}
    for group, seconds in _scheduled(deployments if isinstance(deployments, list) else []):
        for name in endpoints_of(group):
            found[name] = min(seconds, found.get(name, seconds))
    swept = {e.name for e in ENDPOINTS.values() if e.fan_out and e.fan_out.moved}
    return {
        name: max(seconds, SWEEP.total_seconds()) if name in swept else seconds
        for name, seconds in found.items()
    }


def _scheduled(deployments: list[Any]) -> Iterator[tuple[Group, float]]:
    """Yield the group and the interval of each schedule that loads."""
    groups = {str(group): group for group in Group}
    for one in filter(_is_mapping, deployments):
        parameters = one.get("parameters")
        group = groups.get(str(parameters.get("group"))) if _is_mapping(parameters) else None
        if group is None or one.get("paused"):
            continue
        for schedule in filter(_is_mapping, one.get("schedules") or []):
            seconds = schedule.get("interval")
            if isinstance(seconds, int | float) and seconds > 0:
                yield group, float(seconds)


def _is_mapping(value: object) -> bool:
    return isinstance(value, dict)
