"""A dashboard over a small published snapshot."""

import pytest

from fleetlake.dashboard.web_app import create_dashboard
from tests.dashboard.world import World


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    made = World(tmp_path_factory.mktemp("dashboard"))
    made.publish()
    return made


@pytest.fixture(scope="session")
def app(world):
    return create_dashboard(world.published)
