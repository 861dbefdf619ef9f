"""The v2 resources, each a row of facts."""

from fleetsim.resources.registry import RESOURCES

__all__ = ["RESOURCES"]
