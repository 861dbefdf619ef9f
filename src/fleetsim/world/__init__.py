"""What happens in the fleet: causes first, from which every record is derived."""

from fleetsim.world.world import World

__all__ = ["World"]
