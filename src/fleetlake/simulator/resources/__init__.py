"""The v2 resources, each a row of facts."""

from fleetlake.simulator.resources.table import RESOURCES

__all__ = ["RESOURCES"]
