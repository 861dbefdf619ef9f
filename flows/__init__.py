"""Prefect deployments: schedules and calls. What is done is in `fleetlake`; nothing imports us."""
