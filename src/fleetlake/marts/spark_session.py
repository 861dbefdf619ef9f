"""A session of Spark Connect that gives up on a server which has not answered for a minute.

By default, Spark's client waits ten minutes for each query. A build has a hundred models: without
its server it would go on for hours, and a wrong address would look like a slow cluster.
"""

import os
import time
from collections.abc import Callable
from typing import Any

PATIENCE_SECONDS = 60
UNANSWERED = "StatusCode.UNAVAILABLE"
"""In the text of an error: a server of Spark Connect does not answer."""

_LONGEST_PAUSE_MS = 5_000


def connect_spark() -> None:
    """Make the session of this process, for all its threads, if SPARK_REMOTE has an address.

    It sends nothing yet. Without PySpark it does nothing: dbt names the adapter that is missing.
    """
    remote = os.environ.get("SPARK_REMOTE")
    if not remote:
        return
    try:
        from pyspark.sql.connect.client.retries import DefaultPolicy  # noqa: PLC0415 - an extra
        from pyspark.sql.connect.session import SparkSession  # noqa: PLC0415 - an extra
    except ImportError:
        return
    policy = DefaultPolicy(max_backoff=_LONGEST_PAUSE_MS)
    policy.can_retry = patient(policy.can_retry)
    SparkSession.builder.remote(remote).getOrCreate().client.set_retry_policies([policy])


def patient(
    can_retry: Callable[[Any], bool], clock: Callable[[], float] = time.monotonic
) -> Callable[[Any], bool]:
    """Return a rule to retry queries that a server has not answered, for a minute in all.

    All queries have that minute together. Of any other error, `can_retry` decides as before.
    """
    began = last = float("-inf")

    def can_still_retry(error: Any) -> bool:
        nonlocal began, last
        if not can_retry(error) or UNANSWERED not in str(error):
            return can_retry(error)
        now = clock()
        # Pauses are short, so after a long time without an error there was an answer.
        began = now if now - last > PATIENCE_SECONDS else began
        last = now
        return now - began < PATIENCE_SECONDS

    return can_still_retry
