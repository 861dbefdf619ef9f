"""What other projects wrote is vendored as they published it, with versions and licences."""

import re

from tools.vendor import FOLDER, MANIFEST, digest, packages

LARGEST_BYTES = 4_000_000


def test_the_vendored_files_are_the_published_ones():
    listed = {file["to"]: file["sha256"] for package in packages() for file in package["file"]}

    assert {path.name: digest(path.read_bytes()) for path in others()} == listed


def others():
    return [path for path in FOLDER.iterdir() if path != MANIFEST]


def test_each_package_has_a_version_a_licence_and_its_text():
    for package in packages():
        assert re.fullmatch(r"\d+\.\d+\.\d+", package["version"])
        assert package["licence"]
        assert [file for file in package["file"] if "LICENSE" in file["to"]]
        assert package["integrity"].startswith("sha512-")


def test_the_vendored_files_stay_small():
    assert sum(path.stat().st_size for path in others()) < LARGEST_BYTES


def test_our_own_scripts_never_parse_html_and_name_no_other_host():
    for path in [*FOLDER.parent.glob("*.js"), *FOLDER.parent.glob("*.css")]:
        text = path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert word not in text, path
        assert not re.search(r"https?://", text), path
