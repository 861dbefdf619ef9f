"""A build on Spark gives up when its server has not answered for a minute, once for all queries."""

from fleetlake.marts.build_failures import build_failed
from fleetlake.marts.dbt import DbtRun, NodeResult
from fleetlake.marts.spark_session import PATIENCE_SECONDS, UNANSWERED, patient

LOST = f"<RPC that terminated with: status = {UNANSWERED}, details = connection refused>"


class Clock:
    """A clock that a test sets."""

    now = 1000.0

    def __call__(self):
        return self.now


def rule(*, retried=True):
    clock = Clock()
    return clock, patient(lambda _: retried, clock)


def give_up(clock, can_retry):
    """Ask a server that does not answer every five seconds, until it is given up."""
    while can_retry(LOST):
        clock.now += 5


def test_a_server_that_does_not_answer_is_asked_again_for_a_minute():
    clock, can_retry = rule()
    for _ in range(PATIENCE_SECONDS // 5):
        assert can_retry(LOST)
        clock.now += 5

    assert not can_retry(LOST)


def test_later_queries_do_not_wait_for_a_server_that_was_given_up():
    clock, can_retry = rule()
    give_up(clock, can_retry)
    clock.now += 1

    assert not can_retry(LOST)


def test_a_server_that_answered_since_is_waited_for_again():
    clock, can_retry = rule()
    give_up(clock, can_retry)
    clock.now += PATIENCE_SECONDS + 1

    assert can_retry(LOST)


def test_sparks_own_rule_decides_on_other_errors():
    clock, can_retry = rule()
    give_up(clock, can_retry)

    assert can_retry("INVALID_CURSOR.DISCONNECTED")
    assert not rule(retried=False)[1]("a column is missing")
    assert not rule(retried=False)[1](LOST)


def test_a_lost_server_is_one_line_however_many_models_waited_for_it():
    nodes = [
        NodeResult(
            name=f"model_{number}",
            schema="marts",
            kind="table",
            status="error",
            seconds=1,
            message=LOST,
            sql="",
        )
        for number in range(3)
    ]
    failed = build_failed(DbtRun(nodes=tuple(nodes), tests=()))

    assert failed.what.endswith("model_0 and 2 more: the cluster no longer answered.")
    assert failed.what.count(UNANSWERED) == 0
    assert "driver" in failed.remedy
