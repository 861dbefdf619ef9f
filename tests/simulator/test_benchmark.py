"""The simulator's benchmark: it says which targets are met, and counts the pages it read."""

import re

import pytest

from tools.bench import simulator as benchmark

PAGE = "ms on one core for a page of 500 {} of one device"
MEASURED = [
    "pages of 500 alerts per second on one core, 10,000 routers (new pages)",
    "the same in wall time",
    PAGE.format("net_device_usage_samples"),
    "the same in wall time (median)",
    PAGE.format("net_device_signal_samples"),
    "the same in wall time (median)",
    "seconds until 100,000 routers with 35 days answer",
    "peak megabytes after pages of routers, interfaces, alerts, failovers, locations",
]


@pytest.mark.proof
def test_the_benchmark_measures_every_target(monkeypatch, capsys):
    asked, running = [], benchmark.running

    def small(routers, days):
        asked.append((routers, days))
        return running(20, 2)

    monkeypatch.setattr(benchmark, "running", small)
    benchmark.main()

    printed = capsys.readouterr().out
    rows = [[c.strip() for c in line.split("│")[1:-1]] for line in printed.splitlines()]
    rows = [row for row in rows if row]
    assert asked == [(10_000, 14), (100_000, 35)]
    assert [re.sub(r"\d+ new pages", "new pages", what) for what, *_ in rows] == MEASURED
    assert [target for _, _, target, _ in rows] == [
        *(">= 300", "", "< 5", "", "< 5", "", "< 5", "< 1024")
    ]
    values = [float(value) for _, value, _, _ in rows]
    assert all(0 <= value < 100_000 for value in values)
    assert 20 < values[-1] < 500  # megabytes
    assert re.search(r"client CPU: [0-9.]+ s", printed)
