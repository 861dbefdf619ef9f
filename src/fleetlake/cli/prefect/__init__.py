"""The commands of `fleetlake prefect`: set-up, server, worker, and all of them together."""
