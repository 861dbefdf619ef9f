"""`fleetlake endpoints`: the lists that are loaded, and files that describe more of them."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fleetlake.cli.command_group import ListGroup
from fleetlake.cli.formats import FormatOption, OutputFormat, print_records
from fleetlake.cli.output import machine_output, say
from fleetlake.cli.screen import console, table
from fleetlake.errors import OutputLost, SettingsError, UsageError
from fleetlake.text.wording import counted, did_you_mean

if TYPE_CHECKING:
    from fleetlake.endpoints.list_definitions import Defined

FIELDS = ("name", "api", "kind", "schedule", "source", "about")
"""Keys of the JSON output and columns of the CSV output."""

MAX_PAGES = 20

endpoints = typer.Typer(
    cls=ListGroup,
    name="endpoints",
    help="List the lists of the service, show, check or propose the files that describe them.",
)


class ProbedApi(StrEnum):
    """The APIs that a probe can read."""

    V2 = "v2"
    V3 = "v3"


def described_lists() -> dict[str, tuple[str, "Defined"]]:
    """Return all lists with their source: shipped, own file, or optional, which is not loaded."""
    from fleetlake.endpoints import optional_lists, own_lists, shipped_lists

    optional = {name: ("optional", one) for name, one in optional_lists().items()}
    shipped = {name: ("shipped", one) for name, one in shipped_lists().items()}
    return optional | shipped | {name: ("own file", one) for name, one in own_lists().items()}


def list_names(incomplete: str) -> list[str]:
    """Return the names of lists that start with what is typed."""
    return [name for name in described_lists() if name.startswith(incomplete)]


def described_as(path: str, api: str) -> str:
    """Return the list that describes a path already, with its source; empty if none does."""
    for name, (source, one) in described_lists().items():
        row = one.endpoint
        if (row.path.strip("/"), row.api) == (path, api) and row.service is None:
            return f"{name} ({source})"
    return ""


@endpoints.command("list")
def list_endpoints(output: FormatOption = OutputFormat.TABLE) -> None:
    """List what is loaded, and the optional lists, which are loaded once the project has a copy."""
    from fleetlake.endpoints.model import Mode
    from fleetlake.endpoints.relations import group_of

    rows = []
    for name, (source, one) in sorted(described_lists().items()):
        row = one.endpoint
        kind = "latest" if row.mode is Mode.UPSERT and row.is_snapshot else str(row.mode)
        schedule = str(group_of(row)) if row.is_requested else None
        api = row.service.name if row.service else str(row.api)
        rows.append((name, api, kind, schedule, source, row.about))
    if output is OutputFormat.TABLE:
        console().print(table("", FIELDS, rows))
    else:
        print_records(output, FIELDS, rows)


@endpoints.command()
def show(name: Annotated[str, typer.Argument(help="The list.", autocompletion=list_names)]) -> None:
    """Print the table of a list as in its file: a start for a file of your own.

    `fleetlake endpoints show NAME > endpoints/NAME.toml` has an optional list loaded.
    """
    from fleetlake.endpoints.list_definitions import text_of

    known = described_lists()
    if name not in known:
        raise UsageError(
            f"There is no list called {name!r}.",
            remedy=f"{did_you_mean(name, known)}`fleetlake endpoints list` lists them all.",
        )
    machine_output().write(text_of(known[name][1]))


@endpoints.command()
def check(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", help="Only these; all files of the project if omitted."),
    ] = None,
) -> None:
    """List all faults of endpoint files, with file and line.

    Ends with exit code 3 if there are any. Named files are checked together with the project's.
    """
    from fleetlake.endpoints import own_files, read_own

    mine = own_files()
    named = {file.resolve() for file in files or mine}
    others = [file for file in mine if file.resolve() not in named]
    lists, faults = read_own([*(files or mine), *others])
    wrong = [fault for fault in faults if fault.file.resolve() in named]
    for fault in wrong:
        console().print(str(fault), soft_wrap=True)
    if wrong:
        raise SettingsError(f"{counted(len(wrong), 'fault')} in endpoint files.")
    found = [one.endpoint.name for one in lists if one.file.resolve() in named]
    if not found:
        raise UsageError(
            "There are no endpoint files.",
            remedy="A project has them in its folder endpoints, beside fleetlake.toml.",
        )
    names = ", ".join(found)
    console().print(f"{counted(len(found), 'list')}, nothing wrong: {names}.", soft_wrap=True)


@endpoints.command()
def probe(
    path: Annotated[str, typer.Argument(help="The list's path below the API's root.")],
    *,
    api: Annotated[
        ProbedApi | None,
        typer.Option(show_default="v3 for beta/…, else v2", help="The API that has the list."),
    ] = None,
    pages: Annotated[
        int, typer.Option(min=1, max=MAX_PAGES, help="Maximum pages of records to read.")
    ] = 3,
    per: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=ID,ID", help="A filter that the list requires, with ids to ask for."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="New file to write; default: standard output.")
    ] = None,
    profile: Annotated[
        str | None, typer.Option(help="The account; the main one if omitted.")
    ] = None,
) -> None:
    """Ask the service for a few pages of a list, and propose the file that describes it.

    It tries cursors and filters, in about 20 calls. Comments mark what it cannot know. The file has
    no values of records. If the list requires a filter by the ids of a known list, such as routers,
    it finds that; otherwise name one with --per.
    """
    from fleetlake.endpoints import ENDPOINTS
    from fleetlake.endpoints.endpoint_files import SERVICES
    from fleetlake.endpoints.model import Api
    from fleetlake.reading.probe import probe_list
    from fleetlake.reading.proposal import proposed_file
    from fleetlake.settings import load_settings

    settings = load_settings()
    settings = settings.account(profile) if profile else settings
    path = path.strip("/")
    chosen = Api(api or ("v3" if path.startswith("beta/") else "v2"))
    if out is not None and out.exists():
        raise UsageError(f"{out} exists.", remedy="Choose another file, or move it away.")
    if known := described_as(path, chosen):
        say(f"Note: fleetlake has a description of this path: {known}.")
    learned = probe_list(settings, path, api=chosen, pages=pages, per=per)
    text = proposed_file(learned, taken={SERVICES, *ENDPOINTS})
    if out is None:
        machine_output().write(text)
        return
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise OutputLost(f"{out} was not written: {error.strerror}.") from None
    console().print(
        f"Written to {out}. Read its comments, then run `fleetlake endpoints check {out}`.",
        soft_wrap=True,
    )
