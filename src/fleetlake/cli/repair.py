"""`fleetlake repair`: forget what damaged files held, and read it again from the service."""

from typing import TYPE_CHECKING, Annotated

import typer

from fleetlake.cli.formats import FormatOption, OutputFormat, print_records
from fleetlake.cli.screen import console, copy_progress, patience, print_rows, run_with_progress
from fleetlake.text.wording import counted

if TYPE_CHECKING:
    from fleetlake.care.integrity.losses import Loss
    from fleetlake.loading.repair import RepairPlan
    from fleetlake.settings import Settings

FIELDS = ("table", "file", "rows", "start_at", "end_at", "devices", "prospect")
"""Keys of the JSON output and columns of the CSV output."""


def repair(
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only report what was lost; change nothing.")
    ] = False,
    full: Annotated[
        bool,
        typer.Option(
            "--full/--quick",
            help="Look for damage in every byte, or only in sizes and footers of files.",
        ),
    ] = True,
    load: Annotated[
        bool,
        typer.Option(
            "--ingest/--no-ingest",
            help="Read what was lost from the service, or leave it to the next ingest.",
        ),
    ] = True,
    rebuild: Annotated[
        bool,
        typer.Option(
            "--rebuild-catalog",
            help="Rebuild the lost or damaged catalog of a lake in a folder from its files.",
        ),
    ] = False,
    output: FormatOption = OutputFormat.TABLE,
) -> None:
    """Repair a damaged lake: report what was lost, and read it again from the service.

    It deletes the rows of damaged files and their proven ranges in one transaction, so that a load
    reads them again. What the service no longer holds is recorded as a gap. The next build computes
    all marts, and exports start in full.

    If you have a fresh backup, restore from it instead. `meta.events` records each repair.
    """
    from fleetlake.settings import load_settings

    settings = load_settings()
    if rebuild:
        _rebuild(settings)
        return
    plan = _plan(settings, is_full=full)
    _print_losses(plan.losses, output)
    _repair(settings, plan, dry_run=dry_run, load=load)


def _plan(settings: "Settings", *, is_full: bool) -> "RepairPlan":
    from fleetlake.loading.repair import plan_repair

    with copy_progress(console(stderr=True), "checking") as on_checked:
        return plan_repair(settings.lake, is_full=is_full, on_checked=on_checked)


def _repair(settings: "Settings", plan: "RepairPlan", *, dry_run: bool, load: bool) -> None:
    from fleetlake.care.integrity.damage import in_words
    from fleetlake.loading.ingest import raise_worst
    from fleetlake.loading.repair import read_again
    from fleetlake.loading.repair import repair as repair_lake

    screen = console(stderr=True)
    if plan.is_nothing:
        screen.print("Nothing has to be repaired.")
        return
    screen.print(in_words(plan.report.damages))
    again = ", ".join(plan.to_read) or "nothing"
    if dry_run:
        screen.print(f"Nothing was changed. A repair reads again: {again}.")
        return
    repair_lake(settings.lake, plan, patience=patience(settings))
    screen.print(f"Rows deleted. To be read again: {again}.")
    if load and plan.to_read:
        outcomes = run_with_progress(
            screen, lambda watcher: read_again(settings, plan, watcher=watcher)
        )
        raise_worst(outcomes, named=plan.to_read, may_skip=False)
    screen.print("Run `fleetlake build`, then publish and export as usual.")


def _print_losses(losses: "tuple[Loss, ...]", output: OutputFormat) -> None:
    rows = [
        (
            loss.file.of_table,
            loss.file.name,
            loss.rows,
            loss.held and loss.held.start,
            loss.held and loss.held.end,
            loss.devices,
            loss.prospect,
        )
        for loss in losses
    ]
    if output is not OutputFormat.TABLE:
        print_records(output, FIELDS, rows)
    elif rows:
        print_rows(console(), FIELDS, rows)


def _rebuild(settings: "Settings") -> None:
    from fleetlake.care.integrity.rebuild import rebuild_catalog

    done = rebuild_catalog(
        settings.lake, days=settings.retention, trust=settings.clock, patience=patience(settings)
    )
    screen = console()
    total = counted(sum(done.rows.values()), "row")
    screen.print(f"The catalog was rebuilt: {total} from {counted(done.files, 'file')}.")
    for names, what in ((done.unreadable, "could not be read"), (done.unknown, "is in no table")):
        for name in names:
            screen.print(f"  {name} {what}.")
    screen.print(
        "Run `fleetlake ingest`, which reads everything that the service holds again, then "
        "`fleetlake build`. `fleetlake maintain` removes the old files after a day. Back up to a "
        "new place: `fleetlake backup` treats this as a new lake."
    )
