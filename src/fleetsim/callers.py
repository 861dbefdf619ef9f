"""Authentication: two key pairs, four roles, and which calls count (service contract)."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from fleetsim.organisation import NORTH, ROOT
from fleetsim.refusals import unauthorized

PORTAL_ID: Final = "portal-id"
PORTAL_KEY: Final = "portal-key"
V3_TOKEN: Final = "simulator-token"  # noqa: S105 - a fixed, public credential of the simulator


class Role(StrEnum):
    """What a key pair may do; the last two cannot write."""

    ADMINISTRATOR = "Administrator"
    FULL_ACCESS = "Full Access User"
    READ_ONLY = "Read Only User"
    DIAGNOSTIC = "Diagnostic User"

    @property
    def may_write(self) -> bool:
        """Return whether the role may change anything."""
        return self in (Role.ADMINISTRATOR, Role.FULL_ACCESS)


@dataclass(frozen=True)
class Caller:
    """An authenticated key pair: its role and the row of the account it was made in."""

    name: str
    role: Role
    account: int

    @property
    def sees_people(self) -> bool:
        """Return whether activities about users and accounts are returned to this caller."""
        return self.account == ROOT and self.role is Role.ADMINISTRATOR


KEY_PAIRS: Final = {
    "admin-id": ("admin-key", Caller("admin", Role.ADMINISTRATOR, ROOT)),
    "full-id": ("full-key", Caller("full", Role.FULL_ACCESS, ROOT)),
    "readonly-id": ("readonly-key", Caller("readonly", Role.READ_ONLY, ROOT)),
    "diagnostic-id": ("diagnostic-key", Caller("diagnostic", Role.DIAGNOSTIC, ROOT)),
    "subaccount-id": ("subaccount-key", Caller("subaccount", Role.ADMINISTRATOR, NORTH)),
}


def is_counted(headers: Mapping[str, str]) -> bool:
    """Return whether a call counts against the usage limit: both portal keys are valid."""
    sent = headers.get("x-portal-api-id"), headers.get("x-portal-api-key")
    return sent == (PORTAL_ID, PORTAL_KEY)


def authenticate(headers: Mapping[str, str]) -> Caller:
    """Return the caller of four valid headers.

    Raises: Refusal (401) if any of the four is missing or invalid.
    """
    key, caller = KEY_PAIRS.get(headers.get("x-mgr-api-id", ""), ("", None))
    if caller is None or headers.get("x-mgr-api-key") != key or not is_counted(headers):
        raise unauthorized()
    return caller
