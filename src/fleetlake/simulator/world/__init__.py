"""What happens in the fleet: causes first, from which every record is derived."""

from fleetlake.simulator.world.world import World

__all__ = ["World"]
