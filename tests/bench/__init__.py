"""How fast fleetlake is, beside its peers: `make bench`."""
