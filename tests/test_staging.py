"""Every raw table has a staging view, the one place where its columns are named."""

from pathlib import Path

import pytest

from fleetlake.endpoints import ENDPOINTS

STAGING = Path(__file__).parent.parent / "sql" / "models" / "staging"


@pytest.mark.parametrize("name", ENDPOINTS)
def test_every_raw_table_has_a_staging_view_that_states_its_grain(name: str) -> None:
    sql = (STAGING / f"stg_{name}.sql").read_text()

    assert sql.startswith("-- Grain: one row per ")
    assert "\n-- Kind: view.\n" in sql
    assert f"source('raw', '{name}')" in sql or f"ref('stg_{name}_history')" in sql
