"""Files that SQL reads as a table, listed anew while its query runs.

What it is: `Refresher`, for one run of a query.
What it promises: nothing waits for a listing, however long a NameNode takes. Where one fails, the
previous list is used and the job reports it.
"""

import threading
from collections.abc import Callable

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from ashore.base.clock import Clock
from ashore.queries.spark.internals import reads_files, refresh_files
from ashore.topics.run.spark.causes import outermost_cause


class Refresher:
    """Lists the files of a frame again, once an interval. `tick` is called by one thread.

    Arguments:
        frame: what the query was started with.
        interval_s: seconds from one listing to the next.
        clock: for the interval.
        say: takes a sentence, from another thread.

    """

    def __init__(
        self, frame: DataFrame, interval_s: float, clock: Clock, say: Callable[[str], None]
    ) -> None:
        self._frame = frame
        self._interval_s = interval_s
        self._clock = clock
        self._say = say
        self._is_needed = reads_files(frame)
        self._next_s = clock.monotonic_s() + interval_s
        self._listing = threading.Thread()

    def tick(self) -> None:
        """Begin a listing where it is time, unless the one before is still under way."""
        is_time = self._clock.monotonic_s() >= self._next_s
        if not self._is_needed or not is_time or self._listing.is_alive():
            return
        self._next_s = self._clock.monotonic_s() + self._interval_s
        self._listing = threading.Thread(target=self._list, name="ashore-refresh", daemon=True)
        self._listing.start()

    def _list(self) -> None:
        try:
            refresh_files(self._frame)
        except (PySparkException, Py4JError) as error:
            why = outermost_cause(error)
            self._say(f"files that SQL reads cannot be listed, so the previous list is used: {why}")
