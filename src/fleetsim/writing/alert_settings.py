"""Writes of alert_rules and alert_push_destinations, as described in the service contract."""

from typing import Any, Final
from urllib.parse import urlsplit
from uuid import UUID

import httpx

from fleetsim.alert_types import CONTRACT_ALERT_TYPES
from fleetsim.answers import one_record
from fleetsim.ledger import Fields
from fleetsim.organisation import CARRIERS
from fleetsim.refusals import not_found, validation
from fleetsim.resources import RESOURCES
from fleetsim.resources.alert_rules import sees_account
from fleetsim.rules import DESTINATIONS, RULES, key_text, retire
from fleetsim.units import NEVER
from fleetsim.writing.readers import (
    WriteAnswer,
    WriteContext,
    flag,
    ids_of,
    optional_object,
    read_fields,
    subject_of,
    text,
    wrong,
)

LONGEST_SECRET: Final = 256
SCHEDULES: Final = ("none", "hourly", "daily")
POOLED_TYPES: Final = ("pdp_router_overage", "pdp_account_overage")


def find(context: WriteContext, resource: str, key: str) -> int:
    """Return the ledger number of a rule or destination the caller can see, or refuse (404)."""
    one_record(context.view, RESOURCES[resource], key)
    for number, record in context.writes_to(resource).created.items():
        if key_text(record) == str(UUID(key)):
            return number
    raise not_found()


def _secret(_context: WriteContext, name: str, value: Any) -> Fields:
    """Read the flat dictionary whose single key is `secret`."""
    if not isinstance(value, dict) or list(value) != ["secret"]:
        raise wrong(name, value)
    secret = value["secret"]
    if not isinstance(secret, str) or len(secret) > LONGEST_SECRET:
        raise validation(name, f"secret is a string of at most {LONGEST_SECRET} characters")
    return value


def _endpoint(_context: WriteContext, name: str, value: Any) -> Fields:
    """Read the flat dictionary whose single key is `url`."""
    if not isinstance(value, dict) or list(value) != ["url"] or not isinstance(value["url"], str):
        raise wrong(name, value)
    if not _is_address(value["url"]):
        raise validation(name, "url must be an http or https address")
    return value


def _is_address(text: str) -> bool:
    """Return whether a URL can be posted to: its host and port must be valid."""
    try:
        parts, url = urlsplit(text), httpx.URL(text)
        return url.scheme in ("http", "https") and bool(url.host) and parts.port != 0
    except (httpx.InvalidURL, ValueError):  # also raised for an IDNA label that cannot be decoded
        return False


_DESTINATION_FIELDS: Final = {
    "name": text,
    "endpoint": _endpoint,
    "authentication": _secret,
    "enabled": flag,
    "suspended": flag,
}


def _new_record(context: WriteContext, fields: Fields) -> Fields:
    """Return a record with its account, key and times."""
    now, ledger = context.view.now, context.view.ledger
    stamp = {"account": context.own_account, "created_at": now, "tail": ledger.next_tail()}
    return {**fields, **stamp, "updated_at": now}


def create_destination(context: WriteContext, body: Fields) -> WriteAnswer:
    """Create a push destination; two destinations of one account cannot have the same URL."""
    required = ("endpoint", "authentication", "name")
    fields = read_fields(context, body, _DESTINATION_FIELDS, required)
    if fields.pop("suspended", False):
        raise validation("suspended", "cannot be set to true")
    _refuse_shared_url(context, context.own_account, fields["endpoint"], 0)
    blank = {"enabled": True, "suspended": False, "last_error_at": None, "last_error_text": None}
    record = _new_record(context, {**blank, **fields})
    context.writes_to(DESTINATIONS).created[context.view.ledger.next_serial()] = record
    return WriteAnswer(201, _created(context, DESTINATIONS, "notification_configuration", record))


def _refuse_shared_url(context: WriteContext, account: int, endpoint: Fields, own: int) -> None:
    for number, other in context.writes_to(DESTINATIONS).created.items():
        if number != own and other["account"] == account and other["endpoint"] == endpoint:
            raise validation("endpoint", "another destination has this url")


def change_destination(context: WriteContext, key: str, body: Fields) -> WriteAnswer:
    """Change a destination; `suspended` can only be patched to false."""
    number = find(context, DESTINATIONS, key)
    fields = read_fields(context, body, _DESTINATION_FIELDS, ())
    record = context.writes_to(DESTINATIONS).created[number]
    if fields.get("suspended") and not record["suspended"]:
        raise validation("suspended", "cannot be patched from false to true")
    if "endpoint" in fields:
        _refuse_shared_url(context, record["account"], fields["endpoint"], number)
    if fields.get("suspended") is False:
        context.simulation.pusher.resume(number)
    _changed(context, "notification_configuration", record, fields)
    return WriteAnswer(202)


def _created(context: WriteContext, resource: str, kind: str, record: Fields) -> Fields:
    """Log a creation and return the record as served, with its `resource_url`."""
    key = key_text(record)
    served = one_record(context.view, RESOURCES[resource], key)
    context.log("create", kind, subject_of(key), before={}, after=served, account=record["account"])
    return {**served, "resource_url": f"{context.view.origin}/api/v2/{resource}/{key}/"}


def _changed(context: WriteContext, kind: str, record: Fields, fields: Fields) -> None:
    """Change a record and log it; a secret is never shown."""
    shown = {name: value for name, value in fields.items() if name != "authentication"}
    before = {name: record.get(name) for name in shown}
    record |= {**fields, "updated_at": context.view.now}
    subject = subject_of(key_text(record))
    context.log("update", kind, subject, before=before, after=shown, account=record["account"])


def _delete(context: WriteContext, resource: str, key: str) -> Fields:
    """Remove a rule or destination and return it."""
    number = find(context, resource, key)
    context.note_deletion(resource, UUID(key), one_record(context.view, RESOURCES[resource], key))
    return context.writes_to(resource).created.pop(number)


def delete_destination(context: WriteContext, key: str) -> WriteAnswer:
    """Delete a push destination."""
    record = _delete(context, DESTINATIONS, key)
    kind, subject = "notification_configuration", subject_of(key, record["name"])
    context.log("delete", kind, subject, before=subject, after={}, account=record["account"])
    return WriteAnswer(204)


def _criteria(_context: WriteContext, name: str, value: Any) -> Fields:
    """Read `filter_criteria`: alert types by name, and external ids."""
    if not isinstance(value, dict) or not set(value) <= {"alert_type__in", "external_id__in"}:
        raise wrong(name, value)
    types, external = value.get("alert_type__in", []), value.get("external_id__in", [])
    if not _is_texts(types) or not set(types) <= set(CONTRACT_ALERT_TYPES):
        raise validation(name, "alert_type__in names an unknown alert type")
    if not isinstance(external, list) or any(isinstance(one, dict | list) for one in external):
        raise wrong(name, value)
    return {**value, "alert_type__in": types}


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _destinations(context: WriteContext, name: str, value: Any) -> list[str]:
    """Read `http_destinations`: ids of push destinations the caller can see, each once."""
    if not _is_texts(value):
        raise wrong(name, value)
    records = context.writes_to(DESTINATIONS).created.values()
    known = {key_text(r) for r in records if sees_account(context.view, r["account"])}
    if not set(value) <= known:
        raise validation(name, "names an unknown push destination")
    return list(dict.fromkeys(value))


def _schedule(_context: WriteContext, name: str, value: Any) -> str | None:
    """Read None, Hourly or Daily in any case, or null."""
    if value is None or (isinstance(value, str) and value.lower() in SCHEDULES):
        return value
    raise wrong(name, value)


_RULE_FIELDS: Final = {
    "schedule": _schedule,
    "filter_criteria": _criteria,
    "http_destinations": _destinations,
    "email_destinations": ids_of("users"),
    "associated_accounts": ids_of("accounts"),
    "associated_groups": ids_of("groups"),
    "settings": optional_object,
}


_LISTS: Final = ("email_destinations", "associated_accounts", "associated_groups")


def _check_pooled(rule: Fields) -> None:
    """Refuse a pooled-usage type without its settings, or with a carrier the account lacks."""
    for kind in POOLED_TYPES:
        if kind not in rule["filter_criteria"]["alert_type__in"]:
            continue
        wanted = (rule["settings"] or {}).get(kind)
        if not isinstance(wanted, dict):
            raise validation("settings", f"{kind} is missing")
        if wanted.get("carrier") not in CARRIERS:
            raise validation("settings", f"{kind}: the account has no data plan for the carrier")
        limits = wanted.get("thresholds")
        if not isinstance(limits, list) or not all(type(limit) is int for limit in limits):
            raise validation("settings", f"{kind}: thresholds is a list of percentages")


def create_rule(context: WriteContext, body: Fields) -> WriteAnswer:
    """Create an alert rule; it takes effect at once in its associated accounts and groups."""
    required = ("schedule", "filter_criteria", "http_destinations")
    fields = read_fields(context, body, _RULE_FIELDS, required)
    blank = {"settings": None, "last_summary_ts": None}
    lists: Fields = {name: [] for name in _LISTS}
    record = _new_record(context, {**lists, **blank, **fields})
    _check_pooled(record)
    record |= {"valid_from": context.view.now, "valid_to": NEVER}
    context.writes_to(RULES).created[context.view.ledger.next_serial()] = record
    return WriteAnswer(201, _created(context, RULES, "notifier", record))


def change_rule(context: WriteContext, key: str, body: Fields) -> WriteAnswer:
    """Change a rule from now on; the contract specifies status 201 and an empty body."""
    record = context.writes_to(RULES).created[find(context, RULES, key)]
    fields = read_fields(context, body, _RULE_FIELDS, ())
    _check_pooled({**record, **fields})
    retire(context.view.ledger, record, context.view.now)
    record["valid_from"] = context.view.now
    _changed(context, "notifier", record, fields)
    return WriteAnswer(201)


def delete_rule(context: WriteContext, key: str) -> WriteAnswer:
    """Delete a rule; alerts that it has covered so far remain."""
    record = _delete(context, RULES, key)
    retire(context.view.ledger, record, context.view.now)
    subject = subject_of(key)
    context.log("delete", "notifier", subject, before=subject, after={}, account=record["account"])
    return WriteAnswer(204)
