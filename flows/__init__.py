"""Prefect flows: thin calls into `fleetlake`, which never imports this package."""

from fleetlake.machine.umask import apply_umask

apply_umask()  # `fleetlake` commands do this themselves, `prefect worker start` does not
