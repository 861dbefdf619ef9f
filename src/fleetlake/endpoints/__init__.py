"""The endpoint table: one row per endpoint. No other code names an endpoint.

A row is a table in a TOML file: `endpoint_files` says what a file may hold. `inventory.toml`
(lists read whole), `events.toml` (lists ordered by time) and `v3.toml` are loaded in every project.
`optional/` describes lists that are loaded if a project has a copy. `endpoints/*.toml` in a project
are its own. Fields come from the service contract where it lists them, otherwise from what the live
service returns.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from fleetlake.endpoints.list_definitions import Defined, described_in
from fleetlake.endpoints.model import Api, Endpoint, Service
from fleetlake.errors import SettingsError, UsageError
from fleetlake.machine.project import found_project
from fleetlake.startup import without_plugins
from fleetlake.text.wording import did_you_mean

if TYPE_CHECKING:
    from fleetlake.endpoints.endpoint_files import FileFault

FOLDER = "endpoints"
"""Folder of a project with the lists that its user describes."""

NOT_DESCRIBED = f"neither this release nor a file in the project's {FOLDER} describes it"
"""Why a table of a lake is not loaded: its list is described by no file any more."""

_HERE = Path(__file__).parent


@cache
def shipped_lists() -> dict[str, Defined]:
    """Return the lists of this release, in the order of the table."""
    return described_in(_HERE / f"{name}.toml" for name in ("inventory", "events", "v3"))


@cache
def optional_lists() -> dict[str, Defined]:
    """Return the lists that this release describes and does not load."""
    return described_in(sorted((_HERE / "optional").glob("*.toml")))


def own_files() -> list[Path]:
    """Return the endpoint files of the user's project."""
    project = found_project()
    return sorted((project / FOLDER).glob("*.toml")) if project else []


def read_own(files: Collection[Path]) -> tuple[list[Defined], list["FileFault"]]:
    """Return the lists that files describe, and all that is wrong in them and between them."""
    if not files:
        return [], []
    with without_plugins():
        from fleetlake.endpoints.endpoint_files import (  # noqa: PLC0415 - costs 2 % of a start
            contradictions,
            read_files,
        )
    found, faults = read_files(files)
    shipped = {name: one.endpoint for name, one in shipped_lists().items()}
    return found, [*faults, *contradictions(found, shipped)]


@cache
def own_lists() -> dict[str, Defined]:
    """Return the lists that the user's project describes. Raises: SettingsError."""
    found, faults = read_own(own_files())
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise SettingsError(
            f"{faults[0]}{more}", remedy="Correct it. `fleetlake endpoints check` lists all faults."
        )
    return {one.endpoint.name: one for one in found}


def own_services() -> dict[str, Service]:
    """Return the other services that the project's lists are read from. Raises: SettingsError."""
    named = (one.endpoint.service for one in own_lists().values())
    return {service.name: service for service in named if service}


class _Table(Mapping[str, Endpoint]):
    """All rows by name: the shipped ones, then those of the project, which are read when needed."""

    def __getitem__(self, name: str) -> Endpoint:
        return _rows()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_rows())

    def __len__(self) -> int:
        return len(_rows())


@cache
def _rows() -> dict[str, Endpoint]:
    return {name: one.endpoint for name, one in {**shipped_lists(), **own_lists()}.items()}


def forget_own() -> None:
    """Forget the project's lists, so that the next question reads its files again."""
    own_lists.cache_clear()
    _rows.cache_clear()


ENDPOINTS: Mapping[str, Endpoint] = _Table()

_SHIPPED = {name: one.endpoint for name, one in shipped_lists().items()}

PUSHED = next(row for row in _SHIPPED.values() if not row.is_requested)
"""What the service pushes instead of being asked for it."""

POLLED = _SHIPPED[str(PUSHED.confirmed_by)]
"""The endpoint whose records confirm the pushed ones."""

PUSHED_LISTS = ("alerts", "data", "objects")
"""Members of a pushed message that may hold its alerts; the contract does not show the body."""

PROBE = _SHIPPED["accounts"]
"""Endpoint that is asked for one record when any response will do."""

V3_PROBE = next(row for row in _SHIPPED.values() if row.api is Api.V3)
"""The same for v3, which has its own keys and root."""


ALERTS, ALERT_RULES, PUSH_DESTINATIONS = (
    _SHIPPED[name] for name in ("alerts", "alert_rules", "alert_push_destinations")
)
"""What is raised, which of it is raised and announced, and where it is pushed to."""

GROUPS = _SHIPPED["groups"]


def endpoint_named(name: str) -> Endpoint:
    """Return the row of that name, or of that table. Raises: UsageError with the nearest name.

    >>> endpoint_named("raw.alerts").name
    'alerts'
    """
    found = ENDPOINTS.get(name.removeprefix("raw."))
    if found is None:
        suggestion = did_you_mean(name.removeprefix("raw."), ENDPOINTS)
        raise UsageError(
            f"There is no endpoint called {name!r}.",
            remedy=f"{suggestion}`fleetlake endpoints list` lists them all.",
        )
    return found


def requested_endpoints() -> list[Endpoint]:
    """Return the rows that are read from the service, in the table's order.

    >>> PUSHED in requested_endpoints()
    False
    """
    return [row for row in ENDPOINTS.values() if row.is_requested]


def require_requested(endpoints: Sequence[Endpoint]) -> None:
    """Raise UsageError if one of the endpoints is never read from the service."""
    for endpoint in endpoints:
        if not endpoint.is_requested:
            raise UsageError(
                f"The service pushes {endpoint.name}; they cannot be requested from it.",
                remedy=f"`fleetlake receive` takes them. {endpoint.confirmed_by} lists the same "
                "events, so name that.",
            )


def endpoints_named(names: Iterable[str]) -> list[Endpoint]:
    """Return the named rows in the table's order. Raises: UsageError for an unknown name.

    >>> [e.name for e in endpoints_named(["batteries", "accounts"])]
    ['accounts', 'batteries']
    """
    wanted = {endpoint_named(name).name for name in names}
    return [row for name, row in ENDPOINTS.items() if name in wanted]
