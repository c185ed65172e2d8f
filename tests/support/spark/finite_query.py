"""A streaming query that runs to its end, also on a busy machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kohort.spark.pipeline.running.run import WORKER_TOO_SLOW

STARTS_MOST = 10


def run_to_end(start: Callable[[], Any]) -> Any:
    """Start a query and wait for its end. Raises the error of the query.

    Spark allows the process of a Python source ten seconds to start, and has no option for more time: a query that
    fails for this reason is restarted, from its checkpoint.
    """
    for _ in range(STARTS_MOST - 1):
        query = start()
        try:
            query.awaitTermination()
        except Exception as error:
            if WORKER_TOO_SLOW not in str(error):
                raise
        else:
            return query
    last = start()
    last.awaitTermination()
    return last
