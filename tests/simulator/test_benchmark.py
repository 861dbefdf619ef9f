"""The simulator's benchmark: it says which targets are met, and counts the pages it read."""

from rich.table import Table

from fleetsim.benchmark import _row, walk


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
