"""`fleetlake verify`: the service and the lake, key by key."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from fleetlake.cli.instants import FORMATS, in_utc

if TYPE_CHECKING:
    from fleetlake.loading.verify import Verdict

SHOWN_KEYS = 5
INSTANT = "%Y-%m-%dT%H:%M:%S"


def verify(
    endpoint: Annotated[str, typer.Argument(help="What to compare.")],
    start: Annotated[
        datetime | None,
        typer.Option("--from", formats=FORMATS, help="Start, included (UTC); else the beginning."),
    ] = None,
    end: Annotated[
        datetime | None,
        typer.Option(
            "--to", formats=FORMATS, help="End, not included; else where records may still come."
        ),
    ] = None,
    *,
    profile: Annotated[
        str | None, typer.Option(help="Only this account; all that are set when left out.")
    ] = None,
) -> None:
    """Walk a range again and compare its keys with the lake; nothing is written.

    Ends with exit code 9 when a record of the service is missing in the lake.
    """
    from fleetlake.cli.screen import console
    from fleetlake.errors import RecordsMissing
    from fleetlake.loading.verify import verify as compare
    from fleetlake.planning.intervals import BEGINNING
    from fleetlake.settings import load_settings

    settings = load_settings()
    settings = settings.account(profile) if profile else settings
    missing: list[tuple[object, ...]] = []
    remedy = ""
    for account in settings.accounts():
        verdict = compare(
            account,
            endpoint,
            start=in_utc(start) if start else BEGINNING,
            end=in_utc(end) if end else None,
        )
        missing += sorted(verdict.missing, key=str)
        remedy = remedy or (_remedy(verdict) if verdict.missing else "")
        whose = f" ({account.profile})" if len(settings.accounts()) > 1 else ""
        console().print(
            f"{endpoint}{whose}{_range(verdict)}: {verdict.served:,} records at the service, "
            f"{len(verdict.missing):,} of them missing in the lake, "
            f"{len(verdict.surplus):,} in the lake only; {verdict.calls:,} calls."
        )
    if missing:
        some = ", ".join(" ".join(map(str, key)) for key in missing[:SHOWN_KEYS])
        raise RecordsMissing(
            f"{len(missing):,} {endpoint} records are missing from the lake, e.g. {some}.",
            remedy=remedy,
        )


def _range(verdict: "Verdict") -> str:
    """Return what was compared; it ends where records may still show up."""
    from fleetlake.planning.intervals import BEGINNING

    if verdict.interval is None:
        return ""
    start, end = verdict.interval.start, verdict.interval.end
    since = "" if start == BEGINNING else f" from {start:{INSTANT}}"
    return f"{since} until {end:{INSTANT}} UTC"


def _remedy(verdict: "Verdict") -> str:
    """Return the command that reads again what was compared."""
    if verdict.interval is None:
        return f"Run `fleetlake ingest {verdict.endpoint}`, which reads all of it."
    start, end = verdict.interval.start, verdict.interval.end + timedelta(seconds=1)
    which = f"{verdict.endpoint} --from {start:{INSTANT}} --to {end:{INSTANT}}"
    return f"Run `fleetlake backfill {which}`, which reads that range again."
