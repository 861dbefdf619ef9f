"""CHANGELOG.md has the form of Keep a Changelog, and describes this release."""

import re
from importlib.metadata import version
from pathlib import Path

TEXT = (Path(__file__).parents[1] / "CHANGELOG.md").read_text()
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]


def test_the_newest_release_in_it_is_this_one():
    headings = re.findall(r"^## (.+)$", TEXT, re.MULTILINE)

    assert headings[0] == "[Unreleased]"
    assert re.fullmatch(rf"\[{re.escape(version('fleetlake'))}\] - \d{{4}}-\d\d-\d\d", headings[1])


def test_each_release_lists_kinds_of_changes_in_their_order():
    for release in re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]:
        kinds = re.findall(r"^### (.+)$", release, re.MULTILINE)

        assert kinds == [kind for kind in KINDS if kind in kinds], release.splitlines()[0]
        assert len(set(kinds)) == len(kinds)
