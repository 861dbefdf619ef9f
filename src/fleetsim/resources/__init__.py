"""The v2 resources, each a row of facts."""

from fleetsim.resources.resource_table import RESOURCES

__all__ = ["RESOURCES"]
