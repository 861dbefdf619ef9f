"""`fleetlake check`: is every file of the lake whole, and does the catalog agree with it?"""

from typing import TYPE_CHECKING, Annotated

import typer

from fleetlake.cli.formats import FormatOption, OutputFormat, print_records
from fleetlake.cli.screen import console, copy_progress, print_rows
from fleetlake.text.wording import counted, size_in_words

if TYPE_CHECKING:
    from fleetlake.care.integrity.damage import CheckReport

FIELDS = ("table", "file", "damage", "found")
"""Keys of the JSON output and columns of the CSV output."""


def check(
    *,
    full: Annotated[
        bool,
        typer.Option(
            "--full/--quick", help="Read every byte of every file, instead of sizes and footers."
        ),
    ] = False,
    output: FormatOption = OutputFormat.TABLE,
) -> None:
    """Check the lake's catalog and files for damage, while loads go on.

    The quick check compares the size and the footer of each file with the catalog, the catalog
    with itself, and watermarks, proven ranges and counts of loads with the rows. It takes seconds.
    The full check also compares the checksum of each file, and so finds any flipped byte. Both read
    the journal of pushed messages as a whole.

    Ends with exit code 7 if something is damaged; `fleetlake repair --dry-run` then says what was
    lost. Findings are also recorded in `meta.events`.
    """
    from fleetlake.care.integrity.check import check_lake, damage_error, note_damage
    from fleetlake.monitoring.push_status import require_whole_journal
    from fleetlake.settings import load_settings

    settings = load_settings()
    with copy_progress(console(stderr=True), "checking") as on_checked:
        report = check_lake(settings.lake, is_full=full, on_checked=on_checked)
    rows = [(one.table, one.name, str(one.kind), one.found) for one in report.damages]
    if output is OutputFormat.TABLE:
        _print_report(report, rows)
    else:
        print_records(output, FIELDS, rows)
    note_damage(settings.lake, report)
    if report.damages:
        raise damage_error(settings.lake, report)
    require_whole_journal(settings)


def _print_report(report: "CheckReport", rows: list[tuple[str, str, str, str]]) -> None:
    screen = console()
    if rows:
        print_rows(screen, FIELDS, rows)
    for note in report.notes:
        screen.print(f"Note: {note}")
    how = "every byte read" if report.is_full else "sizes and footers compared"
    screen.print(
        f"{counted(report.files, 'file')} ({size_in_words(report.size)}): {how}, "
        f"{counted(len(rows), 'fault')} found."
    )
    if report.unproven:
        how = (
            "was decoded instead" if report.is_full else "gets one at the next load or maintenance"
        )
        screen.print(f"{counted(report.unproven, 'file')} without a checksum yet: each {how}.")
