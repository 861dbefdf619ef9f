"""`fleetlake verify`: the service and the lake, key by key."""

from datetime import datetime
from typing import Annotated

import typer

from fleetlake.cli.instants import FORMATS, in_utc

SHOWN_KEYS = 5


def verify(
    endpoint: Annotated[str, typer.Argument(help="What to compare.")],
    start: Annotated[
        datetime | None,
        typer.Option("--from", formats=FORMATS, help="Start, included (UTC); else the beginning."),
    ] = None,
    end: Annotated[
        datetime | None, typer.Option("--to", formats=FORMATS, help="End, not included; else now.")
    ] = None,
) -> None:
    """Walk a range again and compare its keys with the lake; nothing is written.

    Ends with exit code 9 when a record of the service is missing in the lake.
    """
    from fleetlake.cli.screen import console
    from fleetlake.errors import RecordsMissing
    from fleetlake.intervals import BEGINNING
    from fleetlake.settings import load_settings
    from fleetlake.verify import verify as compare

    verdict = compare(
        load_settings(),
        endpoint,
        start=in_utc(start) if start else BEGINNING,
        end=in_utc(end) if end else None,
    )
    console().print(
        f"{endpoint}: {verdict.served:,} records at the service, {len(verdict.missing):,} of them "
        f"missing in the lake, {len(verdict.surplus):,} in the lake only; {verdict.calls:,} calls."
    )
    if verdict.missing:
        some = ", ".join(str(key) for key in sorted(verdict.missing, key=str)[:SHOWN_KEYS])
        raise RecordsMissing(
            f"The lake misses {len(verdict.missing):,} records of {endpoint}, such as {some}.",
            remedy=f"Run `fleetlake backfill {endpoint} --from … --to …` over the range.",
        )
