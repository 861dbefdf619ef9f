"""The commands around Prefect: set-up, server, worker, and all of them at once."""
