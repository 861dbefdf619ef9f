"""`fleetlake findings`: what needs a person, and what was done about it."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from fleetlake.cli.command_group import ListGroup
from fleetlake.cli.formats import TIME, FormatOption, OutputFormat, print_listed, print_records
from fleetlake.cli.screen import console, table_or_none
from fleetlake.errors import UsageError
from fleetlake.marts.finding_states import STEP_COLUMNS, FindingState, FindingStep
from fleetlake.text.wording import counted

if TYPE_CHECKING:
    from fleetlake.lake import Lake

FIELDS = (
    *("attention_id", "reason", "severity", "parent_id", "devices", "router_id", "router_name"),
    *("message", "since_at", "due_at", "state", "handled_by", "handled_at", "snoozed_until_at"),
    *("assigned_to", "comments", "comment", "as_of_at"),
)
WINDOW_FIELDS = (
    *("window", "is_now", "until_at", "next_at", "findings", "group_names", "place_names"),
    *("hours", "days", "time_zone"),
)
"""Keys of the JSON output and columns of the CSV output."""

Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="[ID]...", help='As in the list, in quotes: "offline 1000104".'),
]
Reason = Annotated[
    str | None, typer.Option(metavar="REASON", help="All findings with this reason.")
]
Router = Annotated[int | None, typer.Option(metavar="ID", help="All findings of this router.")]
Comment = Annotated[
    str | None, typer.Option("--comment", "-m", metavar="TEXT", help="Why, for the others.")
]

findings = typer.Typer(
    cls=ListGroup,
    name="findings",
    help="List what needs a person; acknowledge, snooze, assign or comment it.",
)


@findings.command("list")
def list_findings(
    *,
    every: Annotated[
        bool, typer.Option("--all", help="Acknowledged and snoozed ones, too.")
    ] = False,
    output: FormatOption = OutputFormat.TABLE,
) -> None:
    """List the findings of the last build that are open, most urgent first."""
    from fleetlake.lake import open_lake
    from fleetlake.marts.findings import read_findings
    from fleetlake.settings import load_settings

    with open_lake(load_settings().lake, read_only=True) as lake:
        found = read_findings(lake)
    shown = [one for one in found if every or one["state"] == FindingState.OPEN]
    if output is not OutputFormat.TABLE:
        print_records(output, FIELDS, [[one[field] for field in FIELDS] for one in shown])
        return
    listed = {one["attention_id"] for one in shown}
    rows = [
        (
            one["attention_id"],
            one["severity"],
            one["router_name"] or one["group_name"] or one["account_name"],
            one["message"],
            f"{one['since_at']:%Y-%m-%d %H:%M}" if one["since_at"] else None,
            _dealt_with(one),
        )
        for one in shown
        if one["parent_id"] not in listed
    ]
    columns = ("id", "severity", "who", "what", "since", "dealt with")
    console().print(table_or_none("findings", columns, rows))
    if within := len(shown) - len(rows):
        console().print(f"{counted(within, 'other')} within outages: --format json has them, too.")
    if hidden := len(found) - len(shown):
        console().print(f"{counted(hidden, 'other')} acknowledged or snoozed: --all shows them.")


@findings.command("ack", hidden=True)  # short, for scripts
@findings.command()
def acknowledge(
    ids: Ids = None, reason: Reason = None, router: Router = None, comment: Comment = None
) -> None:
    """Mark findings as known. They are open again if they get more urgent, or end and come back."""
    _take(ids, reason, router, FindingStep.ACKNOWLEDGE, "acknowledged", comment=comment)


@findings.command()
def snooze(
    ids: Ids = None,
    reason: Reason = None,
    router: Router = None,
    hours: Annotated[float, typer.Option(min=0.25, max=24 * 366, help="For how long.")] = 24,
    until: Annotated[datetime | None, typer.Option(**TIME, help="Until when, instead.")] = None,
    comment: Comment = None,
) -> None:
    """Hide findings for a time, counted from the newest data."""
    end = until or timedelta(hours=hours)
    _take(ids, reason, router, FindingStep.SNOOZE, "snoozed", comment=comment, until=end)


@findings.command()
def assign(
    to: Annotated[str, typer.Argument(metavar="PERSON", help="A name; '' takes it back.")],
    ids: Ids = None,
    reason: Reason = None,
    router: Router = None,
    comment: Comment = None,
) -> None:
    """Say which person takes care of findings; the list then shows the name."""
    _take(ids, reason, router, FindingStep.ASSIGN, "assigned", comment=comment, assignee=to)


@findings.command()
def comment(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What the others should know.")],
    ids: Ids = None,
    reason: Reason = None,
    router: Router = None,
) -> None:
    """Add a comment to findings, for the people who look at them next."""
    _take(ids, reason, router, FindingStep.COMMENT, "commented", comment=text)


@findings.command()
def reopen(
    ids: Ids = None, reason: Reason = None, router: Router = None, comment: Comment = None
) -> None:
    """Open acknowledged or snoozed findings again; --reason and --router choose among these."""
    _take(ids, reason, router, FindingStep.REOPEN, "open again", comment=comment)


@findings.command()
def history(
    finding_id: Annotated[str | None, typer.Argument(metavar="[ID]", help="Only this one.")] = None,
    output: FormatOption = OutputFormat.TABLE,
) -> None:
    """List what was done about findings, when and by whom; ended ones, too."""
    from fleetlake.lake import open_lake
    from fleetlake.marts.findings import read_steps
    from fleetlake.settings import load_settings

    with open_lake(load_settings().lake, read_only=True) as lake:
        rows = read_steps(lake, finding_id)
    print_listed(
        output,
        STEP_COLUMNS,
        [dict(zip(STEP_COLUMNS, row, strict=True)) for row in rows],
        things="steps",
        heads=("id", "step", "at", "by", "until, or to", "comment"),
        row=lambda one: (
            *(one["finding_id"], one["step"], f"{one['made_at']:%Y-%m-%d %H:%M}", one["actor"]),
            f"{one['until_at']:%Y-%m-%d %H:%M}" if one["until_at"] else one["assignee"],
            one["comment"],
        ),
    )


@findings.command()
def windows(output: FormatOption = OutputFormat.TABLE) -> None:
    """List the maintenance windows: when each is next, and the findings that it covers now."""
    from fleetlake.lake import open_lake
    from fleetlake.marts.findings import read_findings
    from fleetlake.notifying.notify import covered
    from fleetlake.settings import load_settings

    settings = load_settings()
    rows = []
    with open_lake(settings.lake, read_only=True) as lake:
        found = read_findings(lake)
        now = found[0]["as_of_at"] if found else datetime.now(UTC)
        for name, one in settings.maintenance.items():
            times = (one.end_of(now), one.next_after(now))
            until_at, next_at = (at.astimezone(UTC) if at else None for at in times)
            of = (", ".join(names) for names in (one.groups, one.places))
            when = (one.hours, ", ".join(one.days), one.time_zone)
            count = len(covered(lake, one, found))
            rows.append((name, until_at is not None, until_at, next_at, count, *of, *when))
    if output is not OutputFormat.TABLE:
        print_records(output, WINDOW_FIELDS, rows)
        return
    shown = [
        (
            *(name, f"until {until_at:%m-%d %H:%M}" if until_at else "no"),
            *(f"{next_at:%Y-%m-%d %H:%M}" if next_at else "never", count),
            *(groups or "all", places or "all", f"{hours} {days or 'daily'} {zone}"),
        )
        for name, _, until_at, next_at, count, groups, places, hours, days, zone in rows
    ]
    columns = ("window", "now", "next", "findings", "of groups", "at places", "hours")
    console().print(table_or_none("maintenance windows", columns, shown))


def _take(
    ids: Collection[str] | None,
    reason: str | None,
    router: int | None,
    step: FindingStep,
    done: str,
    *,
    comment: str | None = None,
    assignee: str | None = None,
    until: datetime | timedelta | None = None,
) -> None:
    """Take one step about the chosen findings, and say so."""
    from fleetlake.lake import open_lake
    from fleetlake.lake.audit_trail import this_user
    from fleetlake.marts.finding_states import NewStep
    from fleetlake.marts.findings import acknowledged, take_step
    from fleetlake.settings import load_settings

    with open_lake(load_settings().lake, must_exist=True) as lake:
        wanted = NewStep(
            finding_ids=frozenset(
                {
                    *(ids or ()),
                    *_matching(lake, reason, router, is_open=step is not FindingStep.REOPEN),
                }
            ),
            step=step,
            actor=this_user(),
            comment=comment,
            assignee=assignee,
            until=until,
        )
        before = acknowledged(lake, wanted.finding_ids)
        made = take_step(lake, wanted)
    if made or not before:
        console().print(f"{counted(len(made), 'finding')} {done}.")
    if before and step is FindingStep.ACKNOWLEDGE and not comment:
        by = ", ".join(sorted({*before.values()}))
        console().print(f"{counted(len(before), 'finding')} already acknowledged by {by}.")


def _matching(lake: "Lake", reason: str | None, router: int | None, *, is_open: bool) -> list[str]:
    """Return the findings with a reason, or of a router, or both. Raises: UsageError."""
    from fleetlake.marts.findings import read_findings

    if reason is None and router is None:
        return []
    found = [one for one in read_findings(lake) if (one["state"] == FindingState.OPEN) is is_open]
    matching = [
        str(one["attention_id"])
        for one in found
        if reason in {None, one["reason"]} and router in {None, one["router_id"]}
    ]
    if not matching:
        what = "open finding" if is_open else "acknowledged or snoozed finding"
        reasons = ", ".join(sorted({one["reason"] for one in found})) or "none"
        raise UsageError(f"No {what} matches.", remedy=f"Their reasons are: {reasons}.")
    return matching


def _dealt_with(one: dict[str, object]) -> str:
    """Return what was done about a finding, in a few words."""
    until = one["snoozed_until_at"]
    parts = [
        f"snoozed until {until:%Y-%m-%d %H:%M}" if isinstance(until, datetime) else "",
        f"acknowledged by {one['handled_by']}" if one["state"] == "acknowledged" else "",
        f"assigned to {one['assigned_to']}" if one["assigned_to"] else "",
        str(one["comment"] or ""),
    ]
    return "; ".join(part for part in parts if part)
