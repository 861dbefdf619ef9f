"""Other ways to load the same pages, each a separate program that shares nothing with fleetlake.

    python -m tools.bench.peers.<name> URL RESOURCE FOLDER

Each walks the list page by page, without windows, and prints its result as JSON:
its rows, or the bytes of the bodies if it decodes none. A peer that stores rows in FOLDER requests
only newer records on its next run. `dlt_hour` and the project in `dbt` belong to `make bench-hour`.
"""

KEYS = ("X-PORTAL-API-ID", "X-PORTAL-API-KEY", "X-MGR-API-ID", "X-MGR-API-KEY")
