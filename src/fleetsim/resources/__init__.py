"""The v2 resources, one definition each."""

from fleetsim.resources.resource_table import RESOURCES

__all__ = ["RESOURCES"]
