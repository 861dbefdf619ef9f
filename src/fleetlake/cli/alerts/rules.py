"""`fleetlake alerts rules`: which alerts the service raises, and who is notified."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleetlake.alerting.alert_rule import Schedule
from fleetlake.cli.alerts.connecting import (
    DryRunOption,
    ProfileOption,
    changes_of,
    on_account,
    picked,
    picked_destination,
)
from fleetlake.cli.command_group import ListGroup, destination_ids, rule_ids, type_names
from fleetlake.cli.formats import FormatOption, OutputFormat, YesOption, is_agreed, print_records
from fleetlake.cli.screen import console, print_rows, table_or_none
from fleetlake.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fleetlake.alerting.account_settings import AccountSettings
    from fleetlake.alerting.alert_rule import AlertRule

FIELDS = (
    *("rule_id", "account_id", "schedule", "destination_ids", "account_ids", "group_ids"),
    *("user_ids", "types", "settings", "updated_at"),
)
"""Keys of the JSON output and columns of the CSV output; lists are arrays, or have spaces."""

RuleArgument = Annotated[
    str,
    typer.Argument(metavar="ID", help="Its id, or the beginning of it.", autocompletion=rule_ids),
]
DestinationsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--destination",
        metavar="ID",
        help="Push destination: id, name or URL. Repeatable.",
        autocompletion=destination_ids,
    ),
]
TypesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--type",
        metavar="TYPE",
        help="Alert type, or a group of types: failover, wan, battery, availability, location, "
        "security or pushes. Repeatable.",
        autocompletion=type_names,
    ),
]
AccountsOption = Annotated[
    list[int] | None,
    typer.Option("--account", metavar="ID", help="Account whose alerts it covers. Repeatable."),
]
GroupsOption = Annotated[
    list[int] | None,
    typer.Option("--group", metavar="ID", help="Group whose alerts it covers. Repeatable."),
]
EmailsOption = Annotated[
    list[int] | None,
    typer.Option("--email", metavar="USER", help="Id of a user to notify by mail. Repeatable."),
]
ScheduleOption = Annotated[
    Schedule | None, typer.Option(help="Notify at once (none), or with a summary.")
]
SettingsOption = Annotated[
    str | None,
    typer.Option("--settings", metavar="JSON", help="Settings of pooled-usage alert types."),
]

rules = typer.Typer(
    cls=ListGroup, name="rules", help="List, create, change and remove alert rules at the service."
)


@rules.command("list")
def list_rules(output: FormatOption = OutputFormat.TABLE, *, profile: ProfileOption = None) -> None:
    """List the alert rules of the account. Without a rule, the service raises no alerts."""
    found = on_account(profile, _read)
    if output is not OutputFormat.TABLE:
        _print(found, output)
        return
    heads = ("id", "schedule", "types", "destinations", "account ids", "group ids")
    rows = [
        (
            *(rule.rule_id, rule.schedule, _shortened(rule.types)),
            *map(_spaced, (rule.destination_ids, rule.account_ids, rule.group_ids)),
        )
        for rule in found
    ]
    console().print(table_or_none("alert rules", heads, rows))


@rules.command("show")
def show_rule(
    rule: RuleArgument, output: FormatOption = OutputFormat.TABLE, *, profile: ProfileOption = None
) -> None:
    """Show one alert rule with all its types, destinations, accounts and groups."""
    _print([_picked(on_account(profile, _read), rule)], output)


@rules.command("add")
def add_rule(
    destination: DestinationsOption = None,
    types: TypesOption = None,
    account: AccountsOption = None,
    group: GroupsOption = None,
    email: EmailsOption = None,
    schedule: ScheduleOption = Schedule.NONE,
    settings: SettingsOption = None,
    *,
    profile: ProfileOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Create an alert rule.

    It raises the named types of alerts in the named accounts and groups from now on, and pushes
    them to the named destinations. Without an account or a group it would have no effect, so one
    is required.
    """
    if not (destination and types and (account or group)):
        raise UsageError(
            "A rule needs a destination, an alert type, and an account or a group.",
            remedy="Name --destination, --type, and --account or --group.",
        )
    fields = _fields(types, account, group, email, schedule, settings)

    async def act(service: "AccountSettings") -> str:
        fields["http_destinations"] = await _ids_of(service, destination)
        return "" if dry_run else (await service.add_rule(fields)).rule_id

    key = on_account(profile, act)
    console().print(
        f"Would create a rule: {json.dumps(fields)}" if dry_run else f"Rule {key} created."
    )


@rules.command("change")
def change_rule(
    rule: RuleArgument,
    destination: DestinationsOption = None,
    types: TypesOption = None,
    account: AccountsOption = None,
    group: GroupsOption = None,
    email: EmailsOption = None,
    schedule: ScheduleOption = None,
    settings: SettingsOption = None,
    *,
    profile: ProfileOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Change an alert rule. Each option that is given replaces what the rule had.

    Alerts that the rule has raised so far stay.
    """
    wanted = _fields(types, account, group, email, schedule, settings)
    changes_of(destination=destination or None, **dict.fromkeys(wanted, True))

    async def act(service: "AccountSettings") -> str:
        found = _picked(await service.rules(), rule)
        if destination:
            wanted["http_destinations"] = await _ids_of(service, destination)
        if "filter_criteria" in wanted:
            wanted["filter_criteria"] = {**found.criteria, **wanted["filter_criteria"]}
        if not dry_run:
            await service.change_rule(found.rule_id, wanted)
        return found.rule_id

    key = on_account(profile, act)
    said = f"Would change rule {key}: {json.dumps(wanted)}" if dry_run else f"Rule {key} changed."
    console().print(said)


@rules.command("remove")
def remove_rule(
    rule: RuleArgument,
    *,
    yes: YesOption = False,
    profile: ProfileOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Delete an alert rule. From then on, the service no longer raises its alerts."""
    found = _picked(on_account(profile, _read), rule)
    if dry_run:
        console().print(f"Would delete rule {found.rule_id} ({_shortened(found.types)}).")
    elif is_agreed(f"Delete rule {found.rule_id} ({_shortened(found.types)})?", yes=yes):
        on_account(profile, lambda service: service.remove_rule(found.rule_id))
        console().print(f"Rule {found.rule_id} deleted.")


async def _read(service: "AccountSettings") -> list["AlertRule"]:
    return await service.rules()


def _picked(found: list["AlertRule"], word: str) -> "AlertRule":
    return picked(found, word, lambda rule: (rule.rule_id,), what="rule")


async def _ids_of(service: "AccountSettings", words: list[str]) -> list[str]:
    """Return the ids of destinations that are given by id, name or URL."""
    known = await service.destinations()
    return [picked_destination(known, word).destination_id for word in words]


def _fields(
    types: list[str] | None,
    account: list[int] | None,
    group: list[int] | None,
    email: list[int] | None,
    schedule: Schedule | None,
    settings: str | None,
) -> dict[str, Any]:
    """Return the fields that were given, in the service's names. Raises: UsageError."""
    from fleetlake.alerting.chosen_types import chosen_types

    fields: dict[str, Any] = {}
    if types:
        fields["filter_criteria"] = {"alert_type__in": list(chosen_types(types))}
    if schedule:
        fields["schedule"] = None if schedule is Schedule.NONE else schedule.value
    lists = {
        "associated_accounts": account,
        "associated_groups": group,
        "email_destinations": email,
    }
    fields |= {name: ids for name, ids in lists.items() if ids}
    if settings:
        fields["settings"] = _object(settings)
    return fields


def _object(text: str) -> dict[str, Any]:
    """Return a JSON object. Raises: UsageError."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise UsageError("--settings is not a JSON object.", remedy="Write e.g. '{\"a\": 1}'.")
    return found


def _print(found: "Iterable[AlertRule]", output: OutputFormat) -> None:
    """Print all fields: as records for people, or as rows for programs."""
    is_json = output is OutputFormat.JSON
    rows = [[_cell(getattr(rule, name), is_json=is_json) for name in FIELDS] for rule in found]
    if output is OutputFormat.TABLE:
        print_rows(console(), FIELDS, rows)
    else:
        print_records(output, FIELDS, rows)


def _cell(value: object, *, is_json: bool) -> object:
    """Return a value for output; outside JSON, lists are separated by spaces."""
    if is_json or not isinstance(value, tuple | dict):
        return value
    return _spaced(value) if isinstance(value, tuple) else json.dumps(value)


def _spaced(values: "Sequence[object]") -> str:
    return " ".join(map(str, values))


def _shortened(types: "Sequence[str]") -> str:
    """Return a few alert types, and how many more there are."""
    few = 3
    more = f" and {len(types) - few} more" if len(types) > few else ""
    return f"{', '.join(types[:few])}{more}"
