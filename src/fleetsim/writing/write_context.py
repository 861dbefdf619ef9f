"""The context of a write: the caller, the ledger, and the log entries and alerts to add."""

from dataclasses import dataclass
from typing import Any

from fleetsim.activity_types import ACTION_TYPES, ACTOR_TYPES, OBJECT_TYPES
from fleetsim.alert_types import CODE
from fleetsim.callers import Caller
from fleetsim.ledger import ActivityEntry, Deletion, Fields, ResourceWrites
from fleetsim.list_requests import LONGEST_NUMBER
from fleetsim.organisation import ACCOUNTS, ROOT
from fleetsim.refusals import not_found
from fleetsim.resources.activity_texts import code
from fleetsim.simulation import Simulation
from fleetsim.view import View


@dataclass(frozen=True)
class WriteAnswer:
    """The response to a write: a status, and a JSON body or an empty one."""

    status: int
    body: Fields | None = None


@dataclass(frozen=True)
class WriteContext:
    """One write in progress."""

    simulation: Simulation
    caller: Caller
    view: View

    @property
    def own_account(self) -> int:
        """Return the id of the account in which the caller's keys were created."""
        return ACCOUNTS[self.caller.account].id

    def writes_to(self, resource: str) -> ResourceWrites:
        """Return what has been written to a resource."""
        return self.view.ledger.writes_to(resource)

    def log(
        self,
        action: str,
        kind: str,
        subject: Fields,
        *,
        before: Fields,
        after: Fields,
        account: int,
        is_about_people: bool = False,
    ) -> None:
        """Add an entry to the activity log; `account` is an id."""
        ledger = self.view.ledger
        actor_type, key = "api key", self.caller.name
        ledger.activity.append(
            ActivityEntry(
                at=self.view.now,
                tail=ledger.next_tail(),
                account=self.account_row(account),
                is_about_people=is_about_people,
                action={
                    "type": code(ACTION_TYPES, action),
                    "type_name": action,
                    "before": before,
                    "after": after,
                },
                actor={
                    "id": key,
                    "type": code(ACTOR_TYPES, actor_type),
                    "type_name": actor_type,
                    "email": "",
                },
                object={**subject, "type": code(OBJECT_TYPES, kind), "type_name": kind},
            )
        )

    def note_deletion(self, resource: str, identity: Any, record: Fields) -> None:
        """Store a record as it was last served, for the truth about deletions."""
        gone = Deletion(self.view.now, resource, str(identity), record)
        self.view.ledger.deletions.append(gone)

    def account_row(self, account: int) -> int:
        """Return the row of an account id; for a created account, its parent's row."""
        for row, known in enumerate(ACCOUNTS):
            if known.id == account:
                return row
        created = self.writes_to("accounts").created.get(account)
        return ROOT if created is None else self.account_row(created["account"])

    def raise_alert(self, name: str, *, account: int, router: int = -1, value: int = 0) -> None:
        """Raise an alert about a router row, or about an account id."""
        row = self.account_row(account)
        self.view.ledger.raise_alert(self.view.now, CODE[name], row, router=router, value=value)


def record_id(key: str) -> int:
    """Return a record id from a path.

    Raises: Refusal (404) if it cannot be one.
    """
    if not key.isascii() or not key.isdigit() or len(key) > LONGEST_NUMBER:
        raise not_found()
    return int(key)


def subject_of(identity: Any, name: str | None = None) -> Fields:
    """Return the `object` members that identify the record a write changed."""
    return {"id": str(identity)} if name is None else {"id": str(identity), "name": name}
