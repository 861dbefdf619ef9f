"""Prefect deployments: schedules and calls. What is done is in `fleetlake`; nothing imports us."""

from fleetlake.machine.umask import apply_umask

apply_umask()  # a worker that `prefect worker start` started does not do it
