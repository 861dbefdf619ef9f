"""The commands by the heading and in the order of the help; none of them is imported here."""

from collections.abc import Mapping, Sequence

from fleetlake.cli.command_group import CommandOnDemand

_RECORDS = (
    CommandOnDemand(
        "fleetlake.cli.gaps:gaps",
        "List or acknowledge time ranges that the service deleted before they were read.",
    ),
    CommandOnDemand(
        "fleetlake.cli.quarantine:quarantine",
        "List, show, retry or acknowledge records that could not be stored in their table.",
    ),
    CommandOnDemand(
        "fleetlake.cli.columns:columns",
        "List members that the service added, promote one to a column, demote it, or retype a "
        "column.",
    ),
    CommandOnDemand(
        "fleetlake.cli.verify:verify",
        "Read a range again and compare its keys with the lake, without writing anything.",
    ),
    CommandOnDemand(
        "fleetlake.cli.audit_trail:events",
        "List the lake's audit trail: what was found, repaired or removed on purpose, when and "
        "by whom.",
    ),
)

_PREFECT = (
    CommandOnDemand(
        "fleetlake.cli.prefect.server:server",
        "Run Prefect's server on SQLite until stopped (Ctrl-C or SIGTERM).",
    ),
    CommandOnDemand(
        "fleetlake.cli.prefect.setup:setup",
        "Register work pool, deployments and automations with a Prefect server.",
    ),
    CommandOnDemand(
        "fleetlake.cli.prefect.worker:worker",
        "Run flows from the work pool until stopped (Ctrl-C, SIGTERM or a closed terminal).",
    ),
    CommandOnDemand(
        "fleetlake.cli.prefect.up:up",
        "Run Prefect's server, a worker and all schedules over a simulated service until stopped.",
    ),
)

HEADINGS: Mapping[str, tuple[CommandOnDemand, ...]] = {
    "Try": (
        CommandOnDemand(
            "fleetlake.cli.demo:demo",
            "Simulate a service, have alerts pushed, load everything, build the marts and publish "
            "them.",
        ),
        CommandOnDemand(
            "fleetsim.command:simulate",
            "Serve a simulated fleet over HTTP, as the real service would, until stopped.",
        ),
    ),
    "Load": (
        CommandOnDemand(
            "fleetlake.cli.init:init",
            "Create a project: settings, schedules, and a folder for marts of your own.",
        ),
        CommandOnDemand(
            "fleetlake.cli.ingest:ingest",
            "Copy everything new from the service into the lake.",
        ),
        CommandOnDemand(
            "fleetlake.cli.backfill:backfill",
            "Read a past range again and store the records that were missing.",
        ),
        CommandOnDemand(
            "fleetlake.cli.receive:receive",
            "Receive pushed alerts at POST /push until stopped.",
        ),
    ),
    "Look": (
        CommandOnDemand(
            "fleetlake.cli.status:status",
            "Report what is missing and what to do about it, then each stream.",
        ),
        CommandOnDemand(
            "fleetlake.cli.findings:findings",
            "List what needs a person; acknowledge, snooze, assign or comment it.",
        ),
        CommandOnDemand(
            "fleetlake.cli.metric:metric",
            "Print metrics, such as availability or failovers, by carrier, group or time.",
        ),
        CommandOnDemand(
            "fleetlake.cli.query:query",
            "Run read-only SQL on the lake, also while an ingest is running.",
        ),
        CommandOnDemand(
            "fleetlake.cli.shell:shell",
            "Query the lake interactively and read-only, also while an ingest is running.",
        ),
        CommandOnDemand(
            "fleetlake.cli.track:track",
            "Print where a vehicle was on one day, as GPX or GeoJSON.",
        ),
        CommandOnDemand(
            "fleetlake.cli.dashboard:dashboard",
            "Serve pages about the fleet, over the newest published snapshot, until stopped.",
        ),
        CommandOnDemand(
            "fleetlake.cli.report:report",
            "Write the dashboard's pages as one HTML file that opens without a server or internet.",
        ),
    ),
    "Marts": (
        CommandOnDemand(
            "fleetlake.cli.build:build",
            "Build staging views and marts with dbt, and run their data tests.",
        ),
        CommandOnDemand(
            "fleetlake.cli.publish:publish",
            "Publish the marts as Parquet, with a DuckDB file of views that needs no extension.",
        ),
        CommandOnDemand(
            "fleetlake.cli.docs:docs",
            "Write one HTML page that describes all models, their columns, tests and lineage.",
        ),
    ),
    "Outlets": (
        CommandOnDemand(
            "fleetlake.cli.export:export",
            "Copy tables of the lake to a database, to files or to another table format.",
        ),
        CommandOnDemand(
            "fleetlake.cli.notify:notify",
            "Tell people about new findings, by mail or chat, each once.",
        ),
        CommandOnDemand(
            "fleetlake.cli.metrics:metrics",
            "Print the lake's figures as Prometheus metrics.",
        ),
    ),
    "Alerts": (
        CommandOnDemand(
            "fleetlake.cli.alerts:alerts",
            "Have alerts pushed within seconds, manage alert rules and push destinations at the "
            "service, and watch alerts arrive.",
        ),
    ),
    "Keep": (
        CommandOnDemand(
            "fleetlake.cli.maintain:maintain",
            "Merge small files, expire old snapshots, remove unused files and rows past their "
            "retention.",
        ),
        CommandOnDemand(
            "fleetlake.cli.backup:backup",
            "Copy the lake to a folder or an object store while loads go on.",
        ),
        CommandOnDemand(
            "fleetlake.cli.restore:restore",
            "Make a lake from a backup, in a new or empty folder.",
        ),
        CommandOnDemand(
            "fleetlake.cli.erase:erase",
            "Remove a device, a person or an account from the lake, its marts and its known "
            "copies.",
        ),
        CommandOnDemand(
            "records",
            "List lost ranges, quarantined records, unknown members and the audit trail, and "
            "compare records with the service.",
            _RECORDS,
        ),
    ),
    "Repair": (
        CommandOnDemand(
            "fleetlake.cli.doctor:doctor",
            "Check packages, settings, lake, disk, keys and service, and say what to fix.",
        ),
        CommandOnDemand(
            "fleetlake.cli.check:check",
            "Check the lake's catalog and files for damage, while loads go on.",
        ),
        CommandOnDemand(
            "fleetlake.cli.repair:repair",
            "Repair a damaged lake: report what was lost, and read it again from the service.",
        ),
    ),
    "Prefect": (
        CommandOnDemand(
            "prefect",
            "Run flows on a schedule: a Prefect server, its set-up, a worker, or all of them.",
            _PREFECT,
        ),
    ),
}
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
