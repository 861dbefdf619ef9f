"""Exports after an erasure: each table that a known target holds is written anew, without history.

Known are the addresses in the settings, and the default folders. A target that keeps earlier
versions of rows has them removed as far as it allows.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from pydantic import SecretStr

from fleetlake.errors import FleetlakeError
from fleetlake.exporters import TARGETS, Target
from fleetlake.exporters.export import address_of, renew
from fleetlake.lake import open_lake
from fleetlake.privacy.receipt import OutletReceipt
from fleetlake.settings import Settings
from fleetlake.text.wording import counted

_KEPT_BY_TARGET = {
    "snowflake": "Snowflake keeps deleted rows for Time Travel and Fail-safe: set "
    "DATA_RETENTION_TIME_IN_DAYS to 0, and wait 7 days for Fail-safe.",
    "bigquery": "BigQuery keeps deleted rows for time travel and fail-safe, 14 days by default.",
    "postgres": "Its write-ahead log, replicas and backups are not changed: let them expire.",
}


def renew_exports(settings: Settings, on_step: Callable[[str], None]) -> Iterator[OutletReceipt]:
    """Write the exported tables of every known target anew; yield what was done about each."""
    for target, address in _known_targets(settings):
        on_step(f"exporting to {target.name}")
        outlet = f"export to {target.name}"
        try:
            with open_lake(settings.lake) as lake:
                tables = renew(lake, target, address)
        except FleetlakeError as error:
            yield OutletReceipt(outlet=outlet, done=f"failed: {error.what}")
            continue
        left = _KEPT_BY_TARGET.get(target.name, "") if tables else ""
        if "://" in address.get_secret_value() and target.module == "files":
            left = "If the bucket keeps versions of objects, delete the older ones."
        yield OutletReceipt(
            outlet=outlet, done=f"{counted(len(tables), 'table')} written anew", left_to_do=left
        )
    yield OutletReceipt(
        outlet="exports to other addresses",
        done="not known",
        left_to_do="Run each `fleetlake export TARGET --to ADDRESS --full` again.",
    )


def _known_targets(settings: Settings) -> Iterator[tuple[Target, SecretStr]]:
    for target in TARGETS.values():
        if target.name not in settings.exports and target.address is None:
            continue
        address = address_of(target, settings.exports)
        text = address.get_secret_value()
        if target.address is not None and "://" not in text and not Path(text).exists():
            continue
        if target.name == "csv" and settings.csv_guard:
            yield replace(target, option="csv guarded"), address
        else:
            yield target, address
