"""The delivery states of push destinations, as the last load of them found them."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from fleetlake.account import DEFAULT_PROFILE
from fleetlake.endpoints import PUSH_DESTINATIONS
from fleetlake.lake import Lake
from fleetlake.planning.push_destinations import PushDestination, PushState, remedy_of


@dataclass(frozen=True, kw_only=True)
class PushDestinationStatus:
    """One push destination. Its URL is left out: it may hold a key of the receiver's.

    `remedy` is the command that helps; "" if none is needed. Times are UTC.
    """

    account_profile: str
    destination_id: str
    name: str
    state: PushState
    last_error_at: datetime | None
    last_error_text: str | None
    remedy: str


def push_statuses(lake: Lake, *, now: datetime) -> list[PushDestinationStatus]:
    """Return all push destinations in a lake, by account and age; `now` is UTC."""
    cursor = lake.execute(
        f"select * from raw.{PUSH_DESTINATIONS.name} where valid_to is null "
        "order by account_profile, destination_config_id"
    )
    names = [column[0] for column in cursor.description or ()]
    rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return [_status(row["account_profile"], PushDestination.of_row(row), now) for row in rows]


def _status(profile: str, destination: PushDestination, now: datetime) -> PushDestinationStatus:
    state = destination.state(now)
    remedy = remedy_of(state, destination.destination_id)
    return PushDestinationStatus(
        account_profile=profile,
        destination_id=destination.destination_id,
        name=destination.name,
        state=state,
        last_error_at=destination.last_error_at,
        last_error_text=destination.last_error_text,
        remedy=f"{remedy} --profile {profile}" if remedy and profile != DEFAULT_PROFILE else remedy,
    )


def push_faults(found: Iterable[PushDestinationStatus]) -> Iterator[str]:
    """Yield a sentence for each destination whose pushes fail, with the command that helps."""
    for one in found:
        if one.state is PushState.SUSPENDED:
            yield f"Pushes to {one.name} are suspended{_since(one)}: run `{one.remedy}`."
        elif one.state is PushState.UNREACHABLE:
            yield (
                f"Pushes to {one.name} fail{_since(one)}: check that `fleetlake receive` runs, "
                f"then run `{one.remedy}`."
            )


def push_notes(found: Iterable[PushDestinationStatus]) -> Iterator[str]:
    """Yield a sentence for each destination that a user has disabled."""
    for one in found:
        if one.state is PushState.DISABLED:
            yield f"Pushes to {one.name} are disabled: `{one.remedy}` enables them."


def push_counts(found: Iterable[PushDestinationStatus]) -> dict[tuple[str, str], int]:
    """Return how many destinations each account has in each state, zeros included."""
    found = list(found)
    counts = Counter((one.account_profile, str(one.state)) for one in found)
    profiles = dict.fromkeys(one.account_profile for one in found)
    return {(p, str(state)): counts[p, str(state)] for p in profiles for state in PushState}


def _since(one: PushDestinationStatus) -> str:
    if one.last_error_at is None:
        return ""
    text = f": {one.last_error_text}" if one.last_error_text else ""
    return f" (last error {one.last_error_at:%Y-%m-%d %H:%M} UTC{text})"
