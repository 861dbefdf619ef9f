"""What follows from the endpoint table: the rows of a device or person, and groups of endpoints.

A column `router_id` names a router wherever it is. Endpoints are loaded together by their
properties, so a new row in the table joins a group, and gets a schedule, automatically.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from fleetlake.endpoints import ENDPOINTS, requested_endpoints
from fleetlake.endpoints.columns import Column, Kind, Privacy
from fleetlake.endpoints.model import Api, Endpoint, Group, Mode
from fleetlake.errors import SettingsError
from fleetlake.settings import load_settings
from fleetlake.text.wording import did_you_mean


class Thing(StrEnum):
    """What can be erased, by the name that its relations have; interfaces go with their router."""

    ACCOUNT = "account"
    USER = "user"
    ROUTER = "router"
    NET_DEVICE = "net_device"

    @property
    def listing(self) -> Endpoint:
        """The endpoint that lists these things; its key is their id."""
        return ENDPOINTS[f"{self}s"]


@dataclass(frozen=True, kw_only=True)
class RoleColumns:
    """Columns that say who acted, or what was acted upon: an id, and the kind of thing it is of."""

    id: str
    type: str
    others: tuple[str, ...]


_TYPES = {
    Thing.ACCOUNT: ("rome account", "sso account", "account"),
    Thing.USER: ("legacy user", "sso user", "user"),
    Thing.ROUTER: ("router", "access point"),
    Thing.NET_DEVICE: ("net device",),
}
"""Types of actors and objects (service contract, activity_logs)."""


def thing_of_type(type_name: str | None) -> Thing | None:
    """Return the thing that a type of actors or objects means.

    >>> thing_of_type("access point"), thing_of_type("schedule")
    (<Thing.ROUTER: 'router'>, None)
    """
    name = load_settings().words.neutral((type_name or "").strip()).lower()
    return next((thing for thing, names in _TYPES.items() if name in names), None)


def types_of(thing: Thing) -> tuple[str, ...]:
    """Return the names that a thing has as an actor or object, in lower case."""
    return tuple(name.lower() for name in load_settings().words.either(_TYPES[thing]))


def naming_columns(endpoint: Endpoint, thing: Thing) -> tuple[str, ...]:
    """Return the columns with the id of a thing that a row belongs to: its own, and relations.

    >>> naming_columns(ENDPOINTS["users"], Thing.ACCOUNT)
    ('account_id',)
    >>> naming_columns(ENDPOINTS["users"], Thing.USER)
    ('id',)
    """
    own = endpoint.key if endpoint.name == thing.listing.name else ()
    return (*own, *(c.name for c in endpoint.columns if c.name == f"{thing}_id"))


def role(endpoint: Endpoint, name: str) -> RoleColumns | None:
    """Return the columns of a role, `actor` or `object`, if an endpoint's rows have it."""
    names = [c.name for c in endpoint.columns if c.name.startswith(f"{name}_")]
    id_, type_ = f"{name}_id", f"{name}_type_name"
    if not {id_, type_} <= {*names}:
        return None
    others = (c.name for c in endpoint.columns if c.name in names and c.privacy)
    return RoleColumns(id=id_, type=type_, others=tuple(others))


def is_known_by_value(endpoint: Endpoint) -> bool:
    """Return whether rows name no thing by its id, but hold identifiers of one."""
    named = any(naming_columns(endpoint, thing) for thing in Thing)
    return not named and not role(endpoint, "object") and bool(identifiers(endpoint))


def identifiers(endpoint: Endpoint) -> list[Column]:
    """Return the columns that identify one device, SIM card or person."""
    return [c for c in endpoint.columns if c.privacy is Privacy.IDENTIFIER]


def telling_columns(thing: Thing) -> list[Column]:
    """Return the columns of a thing's list whose values distinguish it from others of its kind."""
    telling = {Privacy.IDENTIFIER, Privacy.NAME}
    return [c for c in thing.listing.columns if c.privacy in telling]


def text_columns(endpoint: Endpoint) -> list[Column]:
    """Return the columns whose texts or JSON may mention other things than the row's own."""
    is_text = (Kind.TEXT, Kind.JSON)
    return [c for c in endpoint.columns if c.privacy is Privacy.TEXT and c.kind in is_text]


def mentions(thing: Thing, id_: object) -> Iterator[str]:
    """Yield how texts, addresses and JSON members name a thing by its id.

    >>> list(mentions(Thing.ROUTER, 7))
    ['router 7', 'router_id 7', 'routers 7']
    >>> "email_destinations 7" in mentions(Thing.USER, 7)
    True
    """
    for name in (thing, f"{thing}_id", thing.listing.name, *_ID_LISTS.get(thing, ())):
        yield f"{name} {id_}"


_ID_LISTS = {Thing.USER: ("email_destinations",), Thing.ACCOUNT: ("associated_accounts",)}
"""Members that are lists of ids (service contract, alert_rules)."""


def freshness_of(chosen: Mapping[str, float]) -> dict[str, timedelta]:
    """Return the freshness of each list that is read device by device; `chosen` are hours by name.

    Raises: SettingsError for the name of another list.

    >>> freshness_of({"router_logs": 24})["router_logs"]
    datetime.timedelta(days=1)
    """
    divisible = [e for e in ENDPOINTS.values() if e.is_divisible]
    defaults = {e.name: e.fan_out.freshness for e in divisible if e.fan_out}
    if wrong := sorted(chosen.keys() - defaults.keys()):
        is_known = wrong[0] in ENDPOINTS
        why = "is read whole by each load" if is_known else "is not an endpoint"
        raise SettingsError(
            f"The setting freshness (FLEETLAKE_FRESHNESS__{wrong[0].upper()}): {wrong[0]} {why}.",
            remedy=f"{did_you_mean(wrong[0], defaults)}It takes {', '.join(defaults)}.",
        )
    return defaults | {name: timedelta(hours=hours) for name, hours in chosen.items()}


def move_lists() -> set[str]:
    """Return the lists that say which devices moved; they save calls in the run that loads them."""
    return {e.fan_out.moved.endpoint for e in ENDPOINTS.values() if e.fan_out and e.fan_out.moved}


def group_of(endpoint: Endpoint) -> Group:
    """Return the one group that an endpoint belongs to.

    >>> str(group_of(ENDPOINTS["alerts"])), str(group_of(ENDPOINTS["batteries"]))
    ('events', 'readings')
    """
    if endpoint.schedule is not None:
        return endpoint.schedule
    if endpoint.name in move_lists():
        return Group.SERIES
    if endpoint.is_snapshot:
        is_listed = endpoint.fan_out is None or bool(endpoint.fan_out.listed_in)
        is_reading = endpoint.mode is Mode.UPSERT or not is_listed
        return Group.READINGS if is_reading else Group.INVENTORY
    if endpoint.fan_out is not None:
        return Group.SERIES
    return Group.EVENTS if endpoint.is_live else Group.ACTIVITY


def endpoints_of(
    group: Group, *, has_v3: bool = True, is_divisible: bool | None = None
) -> list[str]:
    """Return the names of a group's endpoints, in the endpoint table's order.

    `is_divisible` keeps only those that shards can divide, or only the others.

    >>> "locations" in endpoints_of(Group.SERIES, is_divisible=False)
    True
    """
    return [
        endpoint.name
        for endpoint in requested_endpoints()
        if group_of(endpoint) is group
        and (has_v3 or endpoint.api is not Api.V3)
        and is_divisible in {None, endpoint.is_divisible}
    ]
