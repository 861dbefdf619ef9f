"""The simulator's benchmark: it says which targets are met, and counts the pages it read."""

import os
import re

import pytest
from rich.table import Table

from fleetsim import benchmark
from fleetsim.benchmark import MeasuredServer, _row, walk

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


class Pages:
    """A client of a service with so many pages, each of which links to the next."""

    def __init__(self, count: int) -> None:
        self.asked: list[str] = []
        self._count = count

    def get(self, target: str) -> bytes:
        self.asked.append(target)
        number = len(self.asked)
        following = (
            f'"http://host/api/v2/alerts/?page={number}"' if number < self._count else "null"
        )
        return b'{"data":[],"meta":{"next":%s}}' % following.encode()


def test_each_measurement_says_whether_it_meets_its_target_if_it_has_one():
    table = Table("measured", "value", "target", "met")

    _row(table, "fast", "4.0", "< 5", ok=True)
    _row(table, "slow", "6.0", "< 5", ok=False)
    _row(table, "free", "9.0", "", ok=True)

    assert [list(column.cells) for column in table.columns] == [
        ["fast", "slow", "free"],
        ["4.0", "6.0", "9.0"],
        ["< 5", "< 5", ""],
        ["yes", "NO", ""],
    ]


def test_a_walk_follows_each_next_link_once_and_counts_its_pages():
    three, endless = Pages(3), Pages(99)

    assert walk(three, "/api/v2/alerts/", 9) == 3
    assert three.asked == ["/api/v2/alerts/", *(f"/api/v2/alerts/?page={n}" for n in (1, 2))]
    assert walk(endless, "/api/v2/alerts/", 5) == 5 == len(endless.asked)


def test_work_shorter_than_a_tick_counts_as_one_tick(monkeypatch):
    server = MeasuredServer(process=None, port=0, seconds_to_start=0.0)
    monkeypatch.setattr(MeasuredServer, "cpu_seconds", lambda _: 7.25)

    assert server.cpu_seconds_since(7.25) == 1 / os.sysconf("SC_CLK_TCK")
    assert server.cpu_seconds_since(5.0) == 2.25


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
