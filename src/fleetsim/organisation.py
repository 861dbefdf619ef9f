"""The organisation around the fleet: the account tree, products, groups, users."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class AccountNode:
    """One account of the tree; `parent` is an index into ACCOUNTS, None for the root."""

    id: int
    name: str
    parent: int | None


ACCOUNTS: Final = (
    AccountNode(10157, "Meridian Logistics", None),
    AccountNode(10204, "Meridian North", 0),
    AccountNode(10291, "Meridian South", 0),
    AccountNode(10333, "Meridian North Field Service", 1),
    AccountNode(10418, "Meridian Retail", 0),
    AccountNode(10562, "Meridian Contractors", 0),
)
ROW_OF_ACCOUNT: Final = {account.id: row for row, account in enumerate(ACCOUNTS)}
ROOT: Final = 0
NORTH: Final = 1
CONTRACTORS: Final = 5
"""Holds users and no routers: it cannot be deleted while they exist."""

ROUTER_ACCOUNTS: Final = (0, 1, 2, 3, 4)


@dataclass(frozen=True)
class Product:
    """A device model; `has_battery` marks the E100 series (service contract, batteries)."""

    id: int
    name: str
    series: str
    device_type: str = "router"
    has_battery: bool = False


PRODUCTS: Final = (
    Product(46, "S300 Site Router", "S300"),
    Product(51, "S500 Site Router", "S500"),
    Product(63, "E102 Site Router", "E100", has_battery=True),
    Product(64, "E105 Vehicle Router", "E100", has_battery=True),
    Product(72, "V700 Vehicle Router", "V700"),
    Product(88, "A200 Access Point", "A200", device_type="access_point"),
)
SITE_PLAIN, SITE_PLUS, SITE_BATTERY, VEHICLE_BATTERY, VEHICLE_PLAIN, ACCESS_POINT = range(6)

CARRIERS: Final = ("Northcell", "Bluewave", "Prairie Mobile", "Telmira")
CARRIER_IDS: Final = ("310910", "310920", "310930", "310940")

_FIRST_NAMES: Final = (
    *("Ada", "Ben", "Carla", "Dmitri", "Elif", "Farid", "Grace", "Hugo", "Ines", "Jon"),
)
_LAST_NAMES: Final = ("Abara", "Berg", "Castro", "Dunne", "Eriksen", "Faulkner", "Gupta", "Hale")

DOMAIN: Final = "meridian.example"


@dataclass(frozen=True)
class Person:
    """One user; `account` is an index into ACCOUNTS."""

    id: int
    account: int
    first_name: str
    last_name: str

    @property
    def email(self) -> str:
        """Return the address, which is also the user name."""
        return f"{self.first_name}.{self.last_name}{self.id}@{DOMAIN}".lower()


def people(routers: int) -> tuple[Person, ...]:
    """Return the users of a fleet: a dozen, and one more per twenty routers up to 500."""
    count = 12 + min(routers // 20, 488)
    return tuple(
        Person(
            id=30011 + 13 * number,
            account=number % len(ACCOUNTS),
            first_name=_FIRST_NAMES[number % len(_FIRST_NAMES)],
            last_name=_LAST_NAMES[number // 3 % len(_LAST_NAMES)],
        )
        for number in range(count)
    )


def subtree(account: int) -> tuple[int, ...]:
    """Return the indexes of an account and of all accounts nested in it.

    >>> subtree(NORTH)
    (1, 3)
    """
    found = [account]
    for index, candidate in enumerate(ACCOUNTS):
        if candidate.parent in found and index not in found:
            found.append(index)
    return tuple(found)
