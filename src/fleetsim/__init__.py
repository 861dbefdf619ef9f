"""The device-management service, simulated: a whole fleet as a function of seed and time."""

from fleetsim.app import create_app
from fleetsim.options import SimulatorOptions
from fleetsim.server import serve

__all__ = ["SimulatorOptions", "create_app", "serve"]
