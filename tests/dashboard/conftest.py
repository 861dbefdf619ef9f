"""A dashboard over a small published snapshot."""

import pytest

from fleetlake.dashboard.web_app import create_dashboard
from tests.dashboard.world import World


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Keep the tests of this folder in one worker: they share a snapshot."""
    for item in items:
        if "dashboard" in item.path.parts and not any(item.iter_markers("xdist_group")):
            item.add_marker(pytest.mark.xdist_group("dashboard"))


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    made = World(tmp_path_factory.mktemp("dashboard"))
    made.publish()
    return made


@pytest.fixture(scope="session")
def app(world):
    return create_dashboard(world.published)
