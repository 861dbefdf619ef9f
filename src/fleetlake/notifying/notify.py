"""Tell the places that a project names about findings, through Apprise."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic import SecretStr

from fleetlake.errors import MessageNotSent, SettingsError
from fleetlake.lake import Lake, open_lake
from fleetlake.lake.ducklake import columns_in
from fleetlake.lake.locks import notify_lock
from fleetlake.marts.finding_states import MOST_AT_ONCE, FindingState, FindingStep, NewStep
from fleetlake.marts.findings import read_findings, read_steps, take_step
from fleetlake.marts.named_places import places_file, read_places
from fleetlake.notifying.untold import (
    FindingMessage,
    is_of_groups,
    parts_of,
    record,
    record_sent,
    unfinished,
    untold,
)
from fleetlake.settings import Settings
from fleetlake.settings.maintenance_window import MaintenanceWindow
from fleetlake.settings.notify_rule import NotifyRule, Severity
from fleetlake.text.plain import one_line
from fleetlake.text.redaction import without_secrets
from fleetlake.text.wording import counted, install_command

MOST_LINES = 40
"""Findings that a message names; it says how many more there are."""

LONGEST_LINE = 300


@dataclass(frozen=True, kw_only=True)
class Told:
    """What a place was told of, as findings; `is_sent` is false if it was only looked at."""

    place: str
    findings: Sequence[dict[str, Any]]
    is_sent: bool


def notify(settings: Settings, *, is_dry: bool = False, now: datetime | None = None) -> list[Told]:
    """Tell every place of its untold findings, each in one message. `is_dry` changes nothing.

    Findings within a maintenance window are snoozed first.

    A finding that is told counts as told whatever happens; a message whose sending failed, or was
    killed, is sent again by the next call, with the same number.

    Raises: SettingsError for an address that Apprise does not know, or MessageNotSent for places
    that could not be reached, after all other messages; StreamBusy if another process sends them.
    """
    moment = now or datetime.now(UTC)
    told: list[Told] = []
    failed: list[MessageNotSent | SettingsError] = []
    if not (settings.notify or settings.maintenance):
        return told
    with notify_lock(settings.lake), open_lake(settings.lake, must_exist=True) as lake:
        if not is_dry:
            snooze_planned(lake, settings.maintenance)
        for place, rule in settings.notify.items():
            try:
                told.append(_tell(lake, place, rule, is_dry=is_dry, now=moment))
            except (MessageNotSent, SettingsError) as error:
                failed.append(error)
    if failed:
        kind = type(failed[0])
        raise kind(" ".join(str(error.what) for error in failed), remedy=failed[0].remedy)
    return told


def send_test(place: str, rule: NotifyRule) -> None:
    """Send a test message. Raises: SettingsError, MessageNotSent."""
    try:
        _send(place, rule.url, "fleetlake: test", "Messages about findings arrive here.")
    except MessageNotSent as error:
        raise MessageNotSent(error.what, remedy="Check its address and the network.") from None


def check_addresses(settings: Settings) -> str | None:
    """Return in words that the addresses can be read; None without one. Sends nothing.

    Raises: SettingsError naming the settings of those that Apprise does not know.
    """
    failed: list[SettingsError] = []
    for place, rule in settings.notify.items():
        try:
            _sender(place, rule.url)
        except SettingsError as error:
            failed.append(error)
    if failed:
        what = " ".join(dict.fromkeys(error.what for error in failed))
        raise SettingsError(what, remedy=failed[0].remedy)
    places = ", ".join(settings.notify)
    return f"{places}: valid; `fleetlake notify --test` tries one" if places else None


def _tell(lake: Lake, place: str, rule: NotifyRule, *, is_dry: bool, now: datetime) -> Told:
    if rule.is_quiet(now):
        return Told(place=place, findings=(), is_sent=False)
    left = unfinished(lake, place)
    if left and not left.findings:  # they ended meanwhile, or are dealt with
        if not is_dry:
            record_sent(lake, place, left)
        left = None
    findings = left.findings if left else untold(lake, place, rule, now=now)
    if not findings or is_dry:
        return Told(place=place, findings=findings, is_sent=False)
    message = left or record(lake, place, findings)
    _send(place, rule.url, title_of(message.findings), text_of(message))
    record_sent(lake, place, message)
    return Told(place=place, findings=findings, is_sent=True)


def title_of(findings: Sequence[dict[str, Any]]) -> str:
    """Return the subject of a message: how many findings, and how urgent."""
    counts = Counter(one["severity"] for one in findings)
    return f"fleetlake: {', '.join(f'{counts[s]} {s}' for s in Severity if counts[s])}"


def text_of(message: FindingMessage) -> str:
    """Return the text of a message: a line for each finding, and the message's number."""
    lines = [line_of(one) for one in message.findings[:MOST_LINES]]
    if more := len(message.findings) - len(lines):
        lines.append(f"… and {counted(more, 'more finding')}: `fleetlake findings` lists them.")
    return "\n".join([*lines, "", f"Message {message.number}"])


def line_of(one: dict[str, Any]) -> str:
    """Return a finding as one line of a message."""
    who = one["router_name"] or (f"router {one['router_id']}" if one["router_id"] else "")
    group = f" ({one['group_name']})" if one["group_name"] and who else ""
    who = who or one["group_name"] or one["account_name"] or ""  # of an outage
    since = (
        f" Since {one['since_at'].astimezone(UTC):%Y-%m-%d %H:%M} UTC." if one["since_at"] else ""
    )
    about = f"{who}{group}: " if who else ""
    return one_line(f"{one['severity']}, {about}{one['message']}{since}", LONGEST_LINE)


def _send(place: str, url: SecretStr, title: str, text: str) -> None:
    """Send a text by Apprise, which knows mail, chats and many services by their URLs."""
    apprise, sender = _sender(place, url)
    with apprise.LogCapture(level=logging.WARNING, fmt="%(message)s") as log:
        is_sent = sender.notify(title=title, body=text, body_format=apprise.NotifyFormat.TEXT)
        said = log.getvalue()
    if not is_sent:
        reason = one_line(without_secrets(said, url), 300) or "no reason was given"
        raise MessageNotSent(
            f"The message to {place} could not be sent: {reason}",
            remedy="Check its address and the network; the next run sends the message again.",
        )


def _sender(place: str, url: SecretStr) -> tuple[Any, Any]:
    """Return Apprise and what sends to an address. Raises: SettingsError if Apprise rejects it."""
    try:
        import apprise  # noqa: PLC0415 - an extra
    except ImportError:
        raise SettingsError(
            "Messages need the extra `notify`.",
            remedy=install_command("notify"),
        ) from None
    for name in ("apprise", "urllib3"):  # their lines may hold parts of addresses
        logging.getLogger(name).propagate = False
    sender = apprise.Apprise()
    if not sender.add(url.get_secret_value()):
        raise SettingsError(
            f"FLEETLAKE_NOTIFY__{place.upper()}__URL is not an address that Apprise knows.",
            remedy="Examples: mailtos://user:password@example.com?to=ops@example.com, "
            "slack://…, json://host/path. docs/how-to/notify.md has more.",
        )
    return apprise, sender


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
