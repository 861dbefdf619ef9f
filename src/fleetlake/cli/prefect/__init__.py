"""The Prefect commands: set-up, server, worker, and all of them together."""
