"""How fast fleetlake is, compared with its peers: `make bench`."""
