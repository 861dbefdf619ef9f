"""What people do about findings is kept, shown with them, and ends with what it was about."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from shutil import copytree

import pytest
from typer.testing import CliRunner

from fleetlake.care.integrity.rebuild import rebuild_catalog
from fleetlake.cli import app
from fleetlake.endpoints.relations import Thing
from fleetlake.errors import LakeError, UsageError
from fleetlake.lake import open_lake
from fleetlake.lake.attach import CATALOG
from fleetlake.lake.erasure import commit_tombstones, erase_rows
from fleetlake.lake.erasure_plan import ErasurePlan
from fleetlake.marts.finding_states import FindingStep, NewStep
from fleetlake.marts.findings import read_findings, read_steps, take_step
from fleetlake.publishing.publish import publish
from fleetlake.publishing.snapshot_folders import description_of

pytestmark = pytest.mark.xdist_group("findings")  # they copy a lake

NOON = datetime(2026, 6, 15, 12, tzinfo=UTC)
OFFLINE, WORN, CAP = "offline 7", "battery_to_change b1", "data_cap 71"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A lake whose mart holds three findings, as of noon."""
    path = tmp_path_factory.mktemp("findings") / "lake"
    with open_lake(path) as lake:
        lake.execute(
            "create table marts.attention (attention_id varchar, reason varchar, severity varchar,"
            " severity_rank bigint, parent_id varchar, devices bigint, router_id bigint,"
            " net_device_id bigint, router_name varchar, group_name varchar,"
            " account_name varchar,"
            " message varchar, since_at timestamptz, due_at timestamptz, as_of_at timestamptz)"
        )
        rows = [
            (OFFLINE, "offline", "soon", 2, 7, None, "V7", "Offline.", NOON - timedelta(hours=1)),
            (WORN, "battery_to_change", "watch", 3, 8, None, "V8", "Not far from worn out.", None),
            (CAP, "data_cap", "urgent", 1, 7, 71, "V7", "Over its cap.", NOON - timedelta(days=1)),
        ]
        for row in rows:
            lake.execute(
                "insert into marts.attention values"
                " (?, ?, ?, ?, null, null, ?, ?, ?, null, null, ?, ?, null, ?)",
                [*row, NOON],
            )
    return path


@pytest.fixture
def path(made, tmp_path):
    return copytree(made, tmp_path / "lake")


def take(path, step, *ids, **more):
    with open_lake(path) as lake:
        wanted = NewStep(finding_ids=frozenset(ids), step=step, actor="ann@desk", **more)
        return take_step(lake, wanted)


def states(path):
    with open_lake(path, read_only=True) as lake:
        return {one["attention_id"]: one["state"] for one in read_findings(lake)}


def lose_catalog(path):
    for file in path.glob(f"{CATALOG}*"):
        file.unlink()
    rebuild_catalog(path)


def change(path, sql):
    with open_lake(path) as lake:
        lake.execute(f"update marts.attention set {sql}")


def test_a_finding_is_open_until_it_is_acknowledged_and_again_after_it_is_opened(path):
    before = states(path)
    take(path, FindingStep.ACKNOWLEDGE, OFFLINE, CAP)
    acknowledged = states(path)
    take(path, FindingStep.REOPEN, OFFLINE)

    assert set(before.values()) == {"open"}
    assert acknowledged == {OFFLINE: "acknowledged", CAP: "acknowledged", WORN: "open"}
    assert states(path) == {OFFLINE: "open", CAP: "acknowledged", WORN: "open"}


def test_what_began_after_it_was_acknowledged_is_another_finding(path):
    take(path, FindingStep.ACKNOWLEDGE, OFFLINE, comment="rebooting it")
    change(path, "since_at = as_of_at + interval 5 minute, as_of_at = as_of_at + interval 1 hour")

    assert states(path)[OFFLINE] == "open"
    with open_lake(path, read_only=True) as lake:
        assert {one["comment"] for one in read_findings(lake)} == {None}


@pytest.mark.parametrize("step", [FindingStep.ACKNOWLEDGE, FindingStep.SNOOZE])
def test_what_became_more_urgent_is_open_again(path, step):
    take(path, step, WORN, OFFLINE, until=timedelta(hours=24))
    change(path, f"severity = 'urgent', severity_rank = 1 where attention_id = '{WORN}'")

    assert states(path)[WORN] == "open"
    assert states(path)[OFFLINE] != "open"


def test_a_step_about_an_outage_is_one_about_its_devices(path):
    change(path, f"parent_id = '{CAP}' where attention_id in ('{OFFLINE}', '{WORN}')")
    take(path, FindingStep.SNOOZE, CAP, until=timedelta(hours=4))
    take(path, FindingStep.ACKNOWLEDGE, WORN)
    dealt_with = states(path)
    change(path, f"parent_id = null where attention_id <> '{CAP}'")
    shrunken = states(path)
    change(path, f"parent_id = '{CAP}' where attention_id <> '{CAP}'")
    take(path, FindingStep.REOPEN, CAP)

    assert dealt_with == {CAP: "snoozed", OFFLINE: "snoozed", WORN: "acknowledged"}
    assert shrunken == dealt_with
    assert set(states(path).values()) == {"open"}


def test_an_outage_of_another_name_is_dealt_with_if_its_devices_are(path):
    change(path, f"parent_id = '{CAP}' where attention_id in ('{OFFLINE}', '{WORN}')")
    take(path, FindingStep.ACKNOWLEDGE, CAP)
    other = "outage account 10 1781566200"
    change(path, f"attention_id = '{other}' where attention_id = '{CAP}'")
    change(path, f"parent_id = '{other}' where parent_id is not null")

    assert states(path) == dict.fromkeys((other, OFFLINE, WORN), "acknowledged")


def test_a_device_that_joins_an_outage_is_as_dealt_with_as_it_is(path):
    change(path, f"parent_id = '{CAP}' where attention_id = '{OFFLINE}'")
    take(path, FindingStep.ACKNOWLEDGE, CAP)
    change(path, f"parent_id = '{CAP}' where attention_id = '{WORN}'")

    assert states(path) == dict.fromkeys((CAP, OFFLINE, WORN), "acknowledged")


def test_a_snooze_ends_by_the_time_of_the_data(path):
    take(path, FindingStep.SNOOZE, OFFLINE, until=timedelta(hours=4))
    take(path, FindingStep.SNOOZE, CAP, until=NOON + timedelta(hours=2))
    seen = []
    for hours in (0, 2, 4):
        change(path, f"as_of_at = '{NOON + timedelta(hours=hours)}'::timestamptz")
        seen.append((states(path)[OFFLINE], states(path)[CAP]))

    assert seen == [("snoozed", "snoozed"), ("snoozed", "open"), ("open", "open")]


def test_the_last_step_counts_and_the_steps_before_it_stay(path):
    take(path, FindingStep.ASSIGN, CAP, assignee="Bo")
    take(path, FindingStep.ASSIGN, CAP, assignee="Cy", comment="Bo is away")
    take(path, FindingStep.COMMENT, CAP, comment="called the carrier")
    with open_lake(path, read_only=True) as lake:
        [cap] = [one for one in read_findings(lake) if one["attention_id"] == CAP]
        steps = [row[1] for row in read_steps(lake, CAP)]
    take(path, FindingStep.ASSIGN, CAP, assignee="")
    with open_lake(path, read_only=True) as lake:
        nobody = {one["assigned_to"] for one in read_findings(lake)}

    assert (cap["assigned_to"], cap["comment"], cap["comments"]) == (
        "Cy",
        "called the carrier",
        2,
    )
    assert steps == ["assign", "assign", "comment"]
    assert nobody == {None}


def test_steps_of_many_at_once_are_all_kept_and_have_an_order(path):
    def comment(number):
        return take(path, FindingStep.COMMENT, OFFLINE, comment=f"number {number}")

    with ThreadPoolExecutor(8) as pool:
        made = [row for rows in pool.map(comment, range(8)) for row in rows]

    with open_lake(path, read_only=True) as lake:
        steps = read_steps(lake)
    assert sorted(made, key=lambda row: row[2]) == steps
    assert len({row[2] for row in steps}) == 8


def test_of_several_findings_all_or_none_are_acknowledged(path):
    with pytest.raises(UsageError, match="no finding 'offline 9'"):
        take(path, FindingStep.ACKNOWLEDGE, OFFLINE, "offline 9")

    assert set(states(path).values()) == {"open"}


@pytest.mark.parametrize(
    ("step", "more", "said"),
    [
        (FindingStep.COMMENT, {"comment": " "}, "comment is missing"),
        (FindingStep.COMMENT, {"comment": "x" * 2_001}, "at most 2,000"),
        (FindingStep.ASSIGN, {}, "person is missing"),
        (FindingStep.ASSIGN, {"assignee": "x" * 121}, "at most 120"),
        (FindingStep.SNOOZE, {}, "end of the snooze is missing"),
        (FindingStep.SNOOZE, {"until": NOON}, "before the newest data"),
        (FindingStep.COMMENT, {"comment": "a\0b"}, "comment holds a character"),
        (FindingStep.ASSIGN, {"assignee": "\udcff"}, "name of the person holds a character"),
    ],
)
def test_a_step_says_what_it_lacks(path, step, more, said):
    with pytest.raises(UsageError, match=said):
        take(path, step, OFFLINE, **more)


@pytest.mark.parametrize("id_", ["offline\0 7", "offline \udcff"])
def test_an_id_that_no_catalog_can_hold_is_refused(path, id_):
    with pytest.raises(UsageError, match="ID holds a character"):
        take(path, FindingStep.ACKNOWLEDGE, id_)


def test_an_erased_router_takes_its_steps_along_and_its_name_out_of_comments(path):
    take(path, FindingStep.COMMENT, OFFLINE, comment="ask the driver")
    take(path, FindingStep.COMMENT, WORN, comment="swap it with V7-Denver-00012 today")
    things = {thing: frozenset[int]() for thing in Thing} | {Thing.ROUTER: frozenset({7})}
    plan = ErasurePlan(things=things, values=frozenset({"v7 denver 00012"}))
    with open_lake(path) as lake:
        done = erase_rows(lake, plan, commit_tombstones(lake, plan))
        left = read_steps(lake)

    assert [row[0] for row in left] == [WORN]
    assert "Denver" not in left[0][-1]
    assert left[0][-1].startswith("swap it with ")
    assert done.deleted["meta.findings"] == done.redacted["meta.findings"] == 1


def test_steps_survive_the_loss_of_the_catalog(path):
    take(path, FindingStep.ACKNOWLEDGE, OFFLINE, comment="known")
    with open_lake(path, read_only=True) as lake:
        before = read_steps(lake)
    lose_catalog(path)

    with open_lake(path, read_only=True) as lake:
        assert read_steps(lake) == before


def test_a_comment_that_an_erasure_redacted_is_there_once_after_the_loss_of_the_catalog(path):
    take(path, FindingStep.COMMENT, WORN, comment="swap it with V7-Denver-00012 today")
    nothing = {thing: frozenset[int]() for thing in Thing}
    plan = ErasurePlan(things=nothing, values=frozenset({"v7 denver 00012"}))
    with open_lake(path) as lake:
        erase_rows(lake, plan, commit_tombstones(lake, plan))
        before = read_steps(lake)
    lose_catalog(path)

    with open_lake(path, read_only=True) as lake:
        assert read_steps(lake) == before


def test_a_snapshot_carries_the_steps_of_present_findings_and_a_coarse_one_none(path, tmp_path):
    take(path, FindingStep.ACKNOWLEDGE, OFFLINE, CAP, comment="known")
    with open_lake(path) as lake:
        lake.execute(f"delete from marts.attention where attention_id = '{CAP}'")
    publish(path, tmp_path / "published")
    publish(path, tmp_path / "coarse", is_coarse=True)

    [step] = description_of(tmp_path / "published")["findings"]
    assert (step["finding_id"], step["comment"]) == (OFFLINE, "known")
    assert description_of(tmp_path / "coarse")["findings"] == []


def test_a_lake_without_marts_says_what_to_do(tmp_path):
    with open_lake(tmp_path / "lake") as lake, pytest.raises(LakeError) as raised:
        read_findings(lake)

    assert "fleetlake build" in raised.value.remedy


def command(path, monkeypatch, *words):
    monkeypatch.setenv("FLEETLAKE_LAKE", str(path))
    return CliRunner().invoke(app, ["findings", *words])


def test_the_command_acknowledges_all_of_a_reason_and_lists_the_others(path, monkeypatch):
    done = command(path, monkeypatch, "acknowledge", "--reason", "offline", "-m", "known")
    listed = command(path, monkeypatch, "--format", "csv").output
    every = command(path, monkeypatch, "list", "--all").output
    history = command(path, monkeypatch, "history").output

    assert done.output == "1 finding acknowledged.\n"
    assert [line.split(",")[0] for line in listed.splitlines()[1:]] == [CAP, WORN]
    assert "acknowledged by" in " ".join(every.split())
    assert "known" in history


def test_to_acknowledge_again_adds_nothing_without_a_comment(path, monkeypatch):
    long = "offline " + "7" * 60
    change(path, f"attention_id = '{long}' where attention_id = '{OFFLINE}'")
    first = command(path, monkeypatch, "acknowledge", long)
    again = command(path, monkeypatch, "ack", long)
    both = command(path, monkeypatch, "acknowledge", long, CAP)
    said = command(path, monkeypatch, "acknowledge", long, "-m", "mine, too")
    listed = command(path, monkeypatch, "list", "--all").output

    with open_lake(path, read_only=True) as lake:
        steps = [(step[0], step[-1]) for step in read_steps(lake)]
    assert steps == [(long, None), (CAP, None), (long, "mine, too")]
    assert first.output == said.output == "1 finding acknowledged.\n"
    assert again.output.startswith("1 finding already acknowledged by ")
    assert both.output.startswith("1 finding acknowledged.\n1 finding already acknowledged by ")
    assert long in listed  # it can be copied


def test_the_command_opens_all_of_a_reason_again(path, monkeypatch):
    command(path, monkeypatch, "acknowledge", "--reason", "offline")
    done = command(path, monkeypatch, "reopen", "--reason", "offline")

    assert done.output == "1 finding open again.\n"
    assert set(states(path).values()) == {"open"}


def test_the_command_refuses_a_choice_that_matches_nothing(path, monkeypatch):
    done = command(path, monkeypatch, "snooze", "--reason", "flapping", "--hours", "2")

    assert isinstance(done.exception, UsageError)
    assert "No open finding matches" in str(done.exception)


def test_a_step_creates_no_lake_where_there_is_none(tmp_path, monkeypatch):
    done = command(tmp_path / "none", monkeypatch, "acknowledge", OFFLINE)

    assert "There is no lake" in str(done.exception)
    assert not (tmp_path / "none").exists()
