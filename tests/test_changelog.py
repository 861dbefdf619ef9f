"""CHANGELOG.md has the form of Keep a Changelog, and describes this release."""

import re
from importlib.metadata import version
from pathlib import Path

TEXT = (Path(__file__).parents[1] / "CHANGELOG.md").read_text()
KINDS = {"Upgrade", "Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_the_newest_release_in_it_is_this_one():
    headings = re.findall(r"^## (.+)$", TEXT, re.MULTILINE)

    assert headings[0] == "[Unreleased]"
    assert re.fullmatch(rf"\[{re.escape(version('fleetlake'))}\] - \d{{4}}-\d\d-\d\d", headings[1])


def test_each_release_lists_each_kind_of_changes_once_and_first_what_an_upgrade_needs():
    for release in re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]:
        kinds = re.findall(r"^### (.+)$", release, re.MULTILINE)

        assert set(kinds) <= KINDS, release.splitlines()[0]
        assert len(set(kinds)) == len(kinds)
        assert "Upgrade" not in kinds[1:]
