"""The engine keeps every snapshot as it was, whatever is written and maintained later."""

import os

import hypothesis
import pytest
from hypothesis.stateful import run_state_machine_as_test

from tests.engine.lake_machine import LakeMachine

RUNS = int(os.environ.get("ENGINE_FUZZ_RUNS", "30"))


@pytest.mark.release
def test_every_snapshot_and_every_change_stays_as_it_was_written() -> None:
    settings = hypothesis.settings(
        max_examples=RUNS,
        stateful_step_count=20,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=[*hypothesis.HealthCheck],
    )

    run_state_machine_as_test(LakeMachine, settings=settings)
