"""The device-management service, simulated: a whole fleet as a function of seed and time."""

from fleetlake.simulator.app import create_app
from fleetlake.simulator.options import SimulatorOptions
from fleetlake.simulator.server import serve

__all__ = ["SimulatorOptions", "create_app", "serve"]
