"""A profile of one simulated fleet: what each resource and cause holds, field by field.

Every other test compares with what the simulator says it served. So a change in the rules by which
it generates records must not go unnoticed: `fleet.json` has the profile, a test compares them, and
`python -m tools.recorded.fleet_profile` writes it anew after a change that is meant. Figures are
means and bounds, which stay the same on machines that round the last digit of a float differently.
"""

import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

from fleetsim.causes import CAUSES
from fleetsim.resources import RESOURCES
from fleetsim.v3.collections import COLLECTIONS
from tests.support.service import NOW, Record, Service, embedded, instant, start

PROFILE = Path(__file__).parents[2] / "tests/simulator/fleet.json"
LISTED = [name for name, resource in RESOURCES.items() if resource.is_listed]
LISTS = [*LISTED, *(f"{name}_v3" for name in COLLECTIONS)]
_MODEMS = (0, 44, 80)
_SHOWN = 64
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d.*")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_URL = re.compile(r"http://service\.test(.*/)(\d+|[0-9a-f-]{36})/")

Figures = dict[str, Any]


@cache
def fleet() -> Service:
    """Return the fleet of the profile: in its last days modems and routers move and change."""
    service = start(routers=80, days=1)
    service.advance(days=6)
    return service


def records_of(name: str) -> list[Record]:
    """Return the records of a resource or cause; of a few devices only, if it is a device's."""
    if name not in RESOURCES or not RESOURCES[name].per_device:
        return fleet().truth(name)
    of_modems = RESOURCES[name].by_name[RESOURCES[name].device].to == "net_devices"
    devices = _modems() if of_modems else _routers()
    return [*chain.from_iterable(fleet().truth(name, device=device) for device in devices)]


def _modems() -> list[str]:
    ids = [d["id"] for d in fleet().truth("net_devices") if d["type"] == "mdm"]
    return [ids[place] for place in _MODEMS]


def _routers() -> list[str]:
    """Return the first vehicle of each habit that shows in locations."""
    vehicles = [router for router in fleet().truth("reporting") if router["is_vehicle"]]
    habits = {
        "sends_wrong_fixes": True,
        "sends_speed": False,
        "is_far": True,
        "parked_every_minutes": 60,
    }
    found = [next(r for r in vehicles if r[name] == value) for name, value in habits.items()]
    return [str(router["router_id"]) for router in found]


def profile(name: str) -> dict[str, Figures]:
    """Return, for each field of the records, how many have it and a summary of its values."""
    fields = defaultdict(list)
    records = records_of(name)
    for record in records:
        for field, value in flat(record):
            fields[field].append(value)
    found = {"": {"records": len(records)}, **{f: summary(v) for f, v in sorted(fields.items())}}
    if name in RESOURCES:
        found[""] |= _requests(name)
    return found


def _requests(name: str) -> Figures:
    """Return how the resource can be requested."""
    resource = RESOURCES[name]
    options = ("key", "id_paging", "cursor", "ascending", "one_of", "order_by", "expands")
    filters = {c.name: " ".join(sorted(c.ops)) for c in resource.columns if c.ops}
    return {
        **{option: _plain(getattr(resource, option)) for option in options},
        "filters": filters,
        "unlimited_in": resource.unlimited_in,
        "lags": resource.lags,
    }


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the path and value of each leaf of a record; all items of a list have one path."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            key = "#" if name.isdigit() or _UUID.fullmatch(name) else name
            yield from flat(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        for inner in value:
            yield from flat(inner, f"{path}[]")
    else:
        yield path, value


def summary(values: list[Any]) -> Figures:
    """Return counts of a few different values, else bounds and means by kind of value."""
    counts = Counter(json.dumps(value) for value in values)
    if len(counts) <= _SHOWN and all(len(value) < _SHOWN for value in counts):
        return {"counts": dict(sorted(counts.items()))}
    found: Figures = {"values": len(values), "distinct": len(counts)}
    kinds = defaultdict(list)
    for value in values:
        kind, figure = _figure(value)
        kinds[kind].append(figure)
    for kind, figures in sorted(kinds.items()):
        found[kind] = [len(figures), *([min(figures), fmean(figures), max(figures)])]
    return found


def _figure(value: Any) -> tuple[str, float]:
    """Return a value's kind, and a number that stands for it."""
    if isinstance(value, str):
        return _text_figure(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "number", value
    return json.dumps(value), 0


def _text_figure(value: str) -> tuple[str, float]:
    if _TIME.fullmatch(value):
        return f"time of {len(value)} characters", (instant(value) - NOW).total_seconds()
    if _UUID.fullmatch(value):
        return "uuid", (embedded(value) - NOW).total_seconds() if value[14] == "1" else 0
    if url := _URL.fullmatch(value):
        return f"url of {url[1]}", len(url[2]) if "-" in url[2] else int(url[2])
    if value.isdecimal():
        return f"digits, {len(value)}", int(value)
    return "text", sum(map(ord, value))


def dump() -> str:
    """Return the profile as JSON, one field per line."""
    resources = []
    for name in [*LISTS, *CAUSES]:
        fields = (f"    {json.dumps(f)}: {json.dumps(s)}" for f, s in profile(name).items())
        resources.append(f"  {json.dumps(name)}: {{\n" + ",\n".join(fields) + "\n  }")
    return "{\n" + ",\n".join(resources) + "\n}\n"


if __name__ == "__main__":
    PROFILE.write_text(dump(), encoding="utf-8")
    sys.stdout.write(f"{PROFILE.name} is written.\n")
