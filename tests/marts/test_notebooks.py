"""The notebooks run on any lake, and their files hold the outputs of a run."""

import pytest

from fleetlake.marts import build_marts
from tools.notebooks import NOTEBOOKS, read, run

pytestmark = pytest.mark.xdist_group("marts")  # they share what makes a run of dbt cheap

MOST_BYTES = 60_000


@pytest.fixture(scope="module")
def lake(make_lake, tmp_path_factory):
    """Return the lake of another fleet than that of the stored outputs."""
    lake = make_lake(tmp_path_factory.mktemp("notebooks"))
    build_marts(lake)
    return lake


def kinds(notebook):
    """Return what each code cell shows: text, or the media types of a value."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [[[*output.get("data", {"text": 0})] for output in c["outputs"]] for c in cells]


@pytest.mark.release
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_what_its_file_says(lake, path):
    executed = run(read(path), lake)

    assert kinds(executed) == kinds(read(path))
    assert any(kinds(executed))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_with_its_outputs_small_and_without_paths(path):
    notebook, text = read(path), path.read_text("utf-8")

    counts = [c["execution_count"] for c in notebook["cells"] if c["cell_type"] == "code"]
    assert counts == [*range(1, len(counts) + 1)]
    assert len(text) < MOST_BYTES
    assert not any(word in text for word in ("/tmp", "/home", "/root", "Traceback"))
