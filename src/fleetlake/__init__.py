"""Copies a fleet-management service into Parquet tables you own, exactly once.

In Python and in notebooks, `fleetlake.open()` opens the lake for reading.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from fleetlake.analysis.reader import LakeReader

__all__ = ["open"]


def open(  # noqa: A001 - `fleetlake.open()` is what a user types
    path: "str | Path | None" = None, *, published: bool = False
) -> "LakeReader":
    """Open the lake of the settings, or in a folder, for reading; loads never wait for it.

    `published` opens the published snapshot instead, which needs no lake on this machine.

        lake = fleetlake.open()
        lake.marts.failover_episodes.pl()  # a Polars frame; also .arrow() and .df()
        lake.sql("select count(*) from raw.alerts").pl()
        lake.as_of("2026-11-01").marts.trips.pl()

    Raises: LakeError if there is none; SettingsError for wrong settings.
    """
    # Here, so that `import fleetlake` stays light.
    from fleetlake.analysis.reader import open_for_reading  # noqa: PLC0415

    return open_for_reading(path, published=published)
