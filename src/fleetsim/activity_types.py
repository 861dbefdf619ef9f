"""Types of actions, actors and objects, as the service contract lists them."""

from typing import Final

from fleetsim.alert_types import contract_names

_ACTIONS: Final = """
    create, delete, update, request, report, login, logout, register, unregister, activate,
    license, share, lock to imei, change plan, suspend, deactivate, sim activate, failed,
    expired, login failed, passed, error, enable, disable, add, remove, download, unshare,
    account locked
"""
ACTION_TYPES: Final = tuple(" ".join(name.split()) for name in _ACTIONS.split(","))
ACTOR_TYPES: Final = (
    *("system", "legacy user", "api key", "router", "sso user", "access point"),
    "API 3.0 token",
)
OBJECT_TYPES: Final = tuple(contract_names("object_types"))
"""The code of an activity type is its position here, counted from 1: the contract has no codes."""
