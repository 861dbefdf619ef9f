"""What happens in the fleet: the causes from which all records are derived."""

from fleetsim.world.world import World

__all__ = ["World"]
