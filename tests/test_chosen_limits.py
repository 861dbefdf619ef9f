"""Limits that no other test reaches, because it would have to wait or write that much.

Other tests set them lower, or never meet them, so a slip of the keyboard in one would show nowhere.
A change is deliberate if it is made here as well. Limits that a guide promises are in `test_docs`.
"""

from datetime import timedelta
from importlib import import_module

import pytest

SECONDS = {
    "alerting.kept_secrets._WAIT_SECONDS": 10,
    "cli.screen.SECONDS_BETWEEN_LINES": 5,
    "dashboard.open_snapshots.QUERY_SECONDS": 10,
    "dashboard.report.QUERY_SECONDS": 60,
    "dashboard.web_app.CHECK_SECONDS": 1,
    "dashboard.web_app.EXPORT_SECONDS": 60,
    "dashboard.web_app.PING_SECONDS": 15,
    "demo.MOVE_SECONDS": 60,
    "demo.pushes.ARRIVAL_SECONDS": 15,
    "demo.pushes.LOOK_SECONDS": 0.05,
    "lake.backups.backup.MAINTENANCE_SECONDS": 1800,
    "lake.locks.COMMIT_LOCK_SECONDS": 120,
    "lake.locks.DRAIN_LOCK_SECONDS": 30,
    "lake.locks.OPEN_LOCK_POLL_SECONDS": 0.005,
    "lake.locks.OPEN_LOCK_SECONDS": 5,
    "lake.locks.UPGRADE_LOCK_SECONDS": 600,
    "machine.file_locks.POLL_SECONDS": 0.05,
    "machine.secret_block.TIMEOUT_SECONDS": 5,
    "machine.source_commit._TIMEOUT_SECONDS": 10,
    "marts.build._OTHER_BUILD_SECONDS": 600,
    "marts.dbt_process._STOP_SECONDS": 10,
    "receiving.child_process.FIRST_WAIT_SECONDS": 1,
    "receiving.child_process.LONGEST_WAIT_SECONDS": 60,
    "receiving.child_process.METRICS_SECONDS": 60,
    "receiving.child_process.STEADY_SECONDS": 60,
    "receiving.child_process.STOP_SECONDS": 30,
    "receiving.drain.COMMIT_SECONDS": 2,
    "receiving.drain.LONGEST_WAIT_SECONDS": 60,
    "receiving.drain.LOOK_SECONDS": 0.1,
    "receiving.push_body.DISCARD_SECONDS": 2,
    "receiving.push_secrets.BLOCK_PAUSE_SECONDS": 5,
    "receiving.push_secrets.BLOCK_SECONDS": 60,
    "receiving.push_server.HANDSHAKE_SECONDS": 10,
    "receiving.push_server.KEEP_ALIVE_SECONDS": 30,
    "receiving.push_server.STOP_SECONDS": 10,
    "service.gate.SLOW_SECONDS": 0.5,
    "service.rate_limit.CLOCK_STEP_SECONDS": 1,
}

SIZES = {
    "analysis.frames.ROWS_AT_ONCE": 100_000,
    "cli.query.MAX_ROWS": 1_000,
    "cli.query.ROWS_AT_A_TIME": 10_000,
    "cli.screen.PLAIN_WIDTH": 120,
    "cli.screen.WIDEST": 100_000,
    "cli.shell.MAX_ROWS": 500,
    "dashboard.map_tiles.LONGEST_PART": 16_000_000,
    "dashboard.open_snapshots.BATCH_ROWS": 10_000,
    "dashboard.parameters.LONGEST_TEXT": 200,
    "dashboard.web_app.KEPT_ANSWERS": 64,
    "dashboard.web_app.LARGEST_KEPT": 500_000,
    "dashboard.web_app.LONGEST_LOGIN": 2_000,
    "dashboard.web_server.MOST_CONNECTIONS": 300,
    "dashboard.web_server.SHORTEST_TOKEN": 16,
    "exporters.changes.BATCH_ROWS": 50_000,
    "lake.attach.BUSY_MILLISECONDS": 30_000,
    "lake.backups.backup_target._PIECE": 2**20,
    "lake.connection.FEW_ROWS": 100,
    "lake.erasure.MOST_PATTERNS": 300,
    "lake.evolution.drift.LONGEST_EXAMPLE": 500,
    "lake.evolution.member_values.TEXTS_AT_ONCE": 50_000,
    "lake.maintenance.MERGED_BYTES": 512 * 2**20,
    "lake.new_alerts.MOST_ALERTS": 10_000,
    "loading.load.MAX_CAUSE_CHARACTERS": 300,
    "machine.prefect_auth._MAX_BYTES": 4_096,
    "machine.prefect_auth._RANDOM_BYTES": 32,
    "marts.dbt_process.MOST_COMMANDS": 100,
    "marts.dbt_process.MOST_MEMORY_BYTES": 1_000_000_000,
    "marts.named_places._WIDEST_M": 100_000,
    "monitoring.doctor.LOW_DISK_BYTES": 2 * 2**30,
    "monitoring.push_status.MOST_COUNTED": 100_000,
    "monitoring.push_status._PART_BYTES": 8_000_000,
    "reading.pages.MAX_EMPTY_PAGES": 100,
    "receiving.access_log.WAITING_LINES": 10_000,
    "receiving.drain.MOST_BYTES": 64_000_000,
    "receiving.drain.MOST_MESSAGES": 5_000,
    "receiving.push_body.DISCARDED_BYTES": 8 * 2**20,
    "receiving.push_body.HELD_BYTES": 64 * 2**20,
    "receiving.push_server.BACKLOG": 512,
    "receiving.push_server.CERTIFICATE_TICKS": 600,
    "receiving.recent_messages.REMEMBERED": 16_384,
    "receiving.segment_writer.PROBE_BYTES": 4_096,
    "receiving.segment_writer.SEGMENT_BYTES": 16 * 2**20,
    "service.bodies.MAX_MEMBERS": 100,
    "service.bodies.REFUSAL_BYTES": 64 * 2**10,
    "service.client.LONGEST_ECHO": 4_096,
    "service.client.MAX_SEARCHED": 65_536,
    "service.odd_response._LARGEST_HEAD": 100 * 2**10,
    "service.plain_head.LARGEST_PLAIN_HEAD": 16 * 2**10,
    "service.rate_limit.MAX_CALLS_PER_MINUTE": 60_000,
    "startup.GARBAGE_THRESHOLDS": (50_000, 20, 20),
}

COUNTS = {
    "alerting.account_settings.ATTEMPTS": 3,
    "dashboard.open_snapshots.THREADS": 2,
    "dashboard.web_app.AT_ONCE": 3,
    "dashboard.web_app.EXPORTS_AT_ONCE": 1,
    "lake.backups.backup_target._AT_ONCE": 8,
    "lake.integrity.check._MOST_NAMED": 50,
    "lake.integrity.forget._MOST_NAMED": 50,
    "lake.integrity.listing._AT_ONCE": 8,
    "marts.named_places._MOST_SHOWN": 10,
    "service.client.CLOCK_PROBES": 3,
    "service.client.FIRST_CONTACT_ATTEMPTS": 3,
    "service.writes.ATTEMPTS": 4,
}

TIMES = {
    "cli.status.STALE_AFTER": timedelta(days=2),
    "exporters.day_track.BREAK": timedelta(minutes=30),
    "lake.alert_tail.OVERLAP": timedelta(minutes=10),
    "lake.integrity.file_checks.OLDEST_UNKNOWN": timedelta(days=1),
    "lake.lateness.REMEMBERED": timedelta(days=14),
    "lake.maintenance.KEEP_SNAPSHOTS": timedelta(days=7),
    "lake.maintenance.OLDEST_STRAY": timedelta(days=1),
    "lake.new_alerts.OLDEST": timedelta(days=1),
    "lake.retention_rules.FARTHEST_AHEAD": timedelta(days=7),
    "monitoring.push_status.CONFIRMED_WITHIN": timedelta(hours=1),
    "monitoring.push_status.WAITS_LONG": timedelta(minutes=10),
    "monitoring.status.RECENT": timedelta(days=1),
    "planning.coverage.LIST_LIFE": timedelta(hours=1),
    "planning.coverage.SETTLE": timedelta(seconds=60),
    "planning.coverage.SWEEP": timedelta(hours=24),
    "planning.coverage.SWEEP_LOOKBACK": timedelta(hours=6),
    "planning.poll_pace.PUSHED_WITHIN": timedelta(minutes=5),
    "planning.poll_pace.PUSHES_STOP": timedelta(minutes=15),
    "planning.poll_pace.SLOW_WAIT": timedelta(minutes=45),
    "planning.push_destinations.FAILED_LATELY": timedelta(days=1),
    "planning.retention.WARN_BEFORE": timedelta(hours=24),
    "reading.windows.TOGETHER": timedelta(hours=1),
    "service.client.EXPIRES_SOON": timedelta(hours=48),
    "service.clock.QUIET": timedelta(days=7),
    "service.retry.LONGEST_WAIT": timedelta(seconds=60),
    "service.writes.WITHIN": timedelta(minutes=2),
}


@pytest.mark.parametrize("chosen", [SECONDS, SIZES, COUNTS, TIMES])
def test_a_limit_that_no_test_reaches_is_as_chosen(chosen):
    def value(name: str) -> object:
        module, _, constant = name.rpartition(".")
        return getattr(import_module(f"fleetlake.{module}"), constant)

    assert {name: value(name) for name in chosen} == chosen
