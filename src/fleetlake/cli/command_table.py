"""The commands by the heading and in the order of the help; none of them is imported here."""

from collections.abc import Mapping, Sequence

from fleetlake.cli.command_group import CommandOnDemand

_GROUPS = {
    "records": {
        "fleetlake.cli.lake_records:gaps": (
            "List or acknowledge time ranges that the service deleted before they were read."
        ),
        "fleetlake.cli.lake_records:quarantine": (
            "List, show, retry or acknowledge records that could not be stored in their table."
        ),
        "fleetlake.cli.lake_records:columns": (
            "List members that the service added, promote one to a column, demote it, or retype "
            "a column."
        ),
        "fleetlake.cli.lake_records:verify": (
            "Read a range again and compare its keys with the lake, without writing anything."
        ),
        "fleetlake.cli.lake_records:events": (
            "List the lake's audit trail: what was found, repaired or removed on purpose, when "
            "and by whom."
        ),
    },
    "prefect": {
        "prefect.server": "Run Prefect's server on SQLite until stopped (Ctrl-C or SIGTERM).",
        "prefect.setup": "Register work pool, deployments and automations with a Prefect server.",
        "prefect.worker": (
            "Run flows from the work pool until stopped (Ctrl-C, SIGTERM or a closed terminal)."
        ),
        "prefect.up": (
            "Run Prefect's server, a worker and all schedules over a simulated service until "
            "stopped."
        ),
    },
}
_LISTED = {
    "Try": {
        "demo": (
            "Simulate a service, have alerts pushed, load everything, build the marts and "
            "publish them."
        ),
        "fleetsim.command:simulate": (
            "Serve a simulated fleet over HTTP, as the real service would, until stopped."
        ),
    },
    "Load": {
        "init": "Create a project: settings, schedules, and a folder for marts of your own.",
        "ingest": "Copy everything new from the service into the lake.",
        "endpoints": (
            "List the lists of the service, show, check or propose the files that describe them."
        ),
        "backfill": "Read a past range again and store the records that were missing.",
        "receive": "Receive pushed alerts at POST /push until stopped.",
    },
    "Look": {
        "status": "Report what is missing and what to do about it, then each stream.",
        "findings": "List what needs a person; acknowledge, snooze, assign or comment it.",
        "metric": "Print metrics, such as availability or failovers, by carrier, group or time.",
        "query": "Run read-only SQL on the lake, also while an ingest is running.",
        "shell": "Query the lake interactively and read-only, also while an ingest is running.",
        "mcp": "Answer assistants by the Model Context Protocol, read-only, each with its proof.",
        "track": "Print where a vehicle was on one day, as GPX or GeoJSON.",
        "dashboard": (
            "Serve pages about the fleet, over the newest published snapshot, until stopped."
        ),
        "report": (
            "Write the dashboard's pages as one HTML file that opens without a server or internet."
        ),
    },
    "Marts": {
        "build": "Build staging views and marts with dbt, and run their data tests.",
        "publish": (
            "Publish the marts as Parquet, with a DuckDB file of views that needs no extension."
        ),
        "docs": "Write one HTML page that describes all models, their columns, tests and lineage.",
    },
    "Outlets": {
        "export": "Copy tables of the lake to a database, to files or to another table format.",
        "fleetlake.cli.data_contract:contract": (
            "Write the data contract of the published snapshot, in the Open Data Contract Standard."
        ),
        "notify": "Tell people about new findings, by mail or chat, each once.",
        "metrics": "Print the lake's figures as Prometheus metrics.",
    },
    "Alerts": {
        "fleetlake.cli.alerts:alerts": (
            "Have alerts pushed within seconds, manage alert rules and push destinations at the "
            "service, and watch alerts arrive."
        ),
    },
    "Keep": {
        "maintain": (
            "Merge small files, expire old snapshots, remove unused files and rows past their "
            "retention."
        ),
        "backup": "Copy the lake to a folder or an object store while loads go on.",
        "restore": "Make a lake from a backup, in a new or empty folder.",
        "erase": (
            "Remove a device, a person or an account from the lake, its marts and its known copies."
        ),
        "records": (
            "List lost ranges, quarantined records, unknown members and the audit trail, and "
            "compare records with the service."
        ),
    },
    "Repair": {
        "doctor": "Check packages, settings, lake, disk, keys and service, and say what to fix.",
        "check": "Check the lake's catalog and files for damage, while loads go on.",
        "repair": (
            "Repair a damaged lake: report what was lost, and read it again from the service."
        ),
    },
    "Prefect": {
        "prefect": (
            "Run flows on a schedule: a Prefect server, its set-up, a worker, or all of them."
        ),
    },
}


def _commands(summaries: Mapping[str, str]) -> tuple[CommandOnDemand, ...]:
    """Return commands by target; without a colon it is a group, or a module in `cli`."""
    return tuple(
        CommandOnDemand(_target(place), summary, _commands(_GROUPS.get(place, {})))
        for place, summary in summaries.items()
    )


def _target(place: str) -> str:
    if place in _GROUPS or ":" in place:
        return place
    return f"fleetlake.cli.{place}:{place.rpartition('.')[2]}"


HEADINGS = {heading: _commands(summaries) for heading, summaries in _LISTED.items()}
"""The summary is the first paragraph of a command's own help."""

MOVED: Mapping[str, tuple[str, str]] = {
    **{name: ("records", name) for name in ("gaps", "quarantine", "columns", "verify", "events")},
    **{name: ("prefect", name) for name in ("worker", "up")},
    **{f"prefect-{name}": ("prefect", name) for name in ("server", "setup")},
}
"""Deprecated commands and their replacements (docs/how-to/releases.md says for how long)."""

RENAMED: Mapping[tuple[str, str], str] = {("receive", "--host"): "--listen"}
"""Likewise: commands with their deprecated options, and the replacements of these."""


def with_new_words(args: Sequence[str]) -> list[str]:
    """Return a command line without deprecated words.

    >>> with_new_words(["--debug", "worker", "--name", "a"])
    ['--debug', 'prefect', 'worker', '--name', 'a']
    >>> with_new_words(["receive", "--host=::"])
    ['receive', '--listen=::']
    """
    at = next((place for place, word in enumerate(args) if not word.startswith("-")), None)
    if at is None:
        return [*args]
    command, options = args[at], (word.split("=", 1) for word in args[at + 1 :])
    rest = ["=".join([RENAMED.get((command, name), name), *value]) for name, *value in options]
    return [*args[:at], *MOVED.get(command, (command,)), *rest]
