"""Earlier names of marts: after a rename, a view keeps the old name until a release drops it."""

from fleetlake.lake.connection import Lake
from fleetlake.lake.evolution import migrations

_VIEWS = """
SELECT view_name FROM duckdb_views() WHERE database_name = 'lake' AND schema_name = 'marts'
"""


def earlier_marts(lake: Lake) -> dict[str, str]:
    """Return the earlier names that a lake still has, each with the mart's name of today."""
    steps = [step for migration in migrations.MIGRATIONS for step in migration.steps]
    renamed = {step.old: step.new for step in steps if isinstance(step, migrations.RenameMart)}
    views = {name for (name,) in lake.rows(_VIEWS)}
    return {old: _newest(old, renamed) for old in sorted(views & renamed.keys())}


def _newest(name: str, renamed: dict[str, str]) -> str:
    """Return the name that a chain of renames ends with.

    >>> _newest("journeys", {"journeys": "trips", "trips": "drives"})
    'drives'
    """
    while name in renamed:
        name = renamed[name]
    return name
