"""Exports of the lake's tables to other databases and file formats.

To add a target, write a module with `open_target(address)`, which returns an `Exporter`
(contract.py), and add a row to targets.csv. Make its driver an optional extra of the package. A
package of its own names its `Target` as an entry point instead.
"""

from dataclasses import dataclass
from importlib.metadata import entry_points

from fleetlake.errors import SettingsError
from fleetlake.text.tables_beside import rows_beside

ENTRY_POINTS = "fleetlake.exporters"
"""The group of the entry points that name targets of other packages."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """An export target. `address` is the default one; databases have none, but an `example`.

    `module` has the target's `open_target`; a leading dot stands for this package. `option` is a
    second argument for it. With `has_geometry`, rows with a place have a column `geometry`, and
    only tables with places are sent by default.
    """

    name: str
    about: str
    module: str
    extra: str | None = None
    address: str | None = None
    example: str | None = None
    option: str | None = None
    has_geometry: bool = False


def _target(row: dict[str, str]) -> Target:
    given = {name: text for name, text in row.items() if text}
    return Target(has_geometry=bool(given.pop("has_geometry", "")), **given)


TARGETS = {row["name"]: _target(row) for row in rows_beside(__file__, "targets.csv")}
"""The targets by name, as `targets.csv` describes them."""


def plugin_names() -> list[str]:
    """Return the names of the targets that other installed packages add; ours take precedence."""
    return sorted(entry_points(group=ENTRY_POINTS).names - TARGETS.keys())


def plugged_in(name: str) -> Target:
    """Return a target of another package.

    Raises: SettingsError if it cannot be imported or is not a `Target`, or if two packages add it.
    """
    first, *others = entry_points(group=ENTRY_POINTS, name=name)
    if others:
        raise _unusable(name, f"is in two packages: {first.value} and {others[0].value}")
    try:
        target = first.load()
    except Exception as error:
        raise _unusable(name, f"cannot be imported: {error}") from error
    if not isinstance(target, Target) or target.name != name:
        raise _unusable(name, f"names {first.value}, which is not a Target of that name")
    return target


def _unusable(name: str, why: str) -> SettingsError:
    return SettingsError(
        f"The exporter plug-in {name} {why}.", remedy="Correct it, or uninstall its package."
    )
