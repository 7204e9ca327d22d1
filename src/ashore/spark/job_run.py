"""All that a job does, side by side: the slice of its topics, and its queries.

What it promises: each fails alone; a stop reaches all. What stopped the first of them is raised
once all have ended.
What it must not know: what a query is.
"""

import threading
from collections.abc import Sequence

from ashore.errors import AshoreError
from ashore.landing.batch import BatchRunner
from ashore.landing.committer import Progress
from ashore.landing.job_loop import JobLoop
from ashore.spark.sql.query_loop import QueryLoop


class JobRun:
    """One run of a job. `run` once; `stop` by any thread, once or often."""

    def __init__(self, landing: JobLoop, queries: Sequence[QueryLoop], progress: Progress) -> None:
        self._landing = landing
        self._queries = queries
        self._progress = progress
        self._failures: list[BaseException] = []

    def run(self, probe: BatchRunner | None = None) -> None:
        """Run to the end. Raises what stopped the first part that broke."""
        threads = [
            threading.Thread(target=self._guard, args=(each,), name=str(each.query.name))
            for each in self._queries
        ]
        for thread in threads:
            thread.start()
        try:
            self._landing.run(probe)
        except BaseException as error:
            self._failures.append(error)
            raise
        finally:
            if not all(isinstance(error, AshoreError) for error in self._failures):
                self.stop()
            for thread in threads:
                thread.join()
        if self._failures:
            raise self._failures[0]

    def stop(self) -> None:
        """Ask for an orderly stop."""
        self._landing.stop()
        for each in self._queries:
            each.stop()

    def _guard(self, loop: QueryLoop) -> None:
        """Run a query and keep what it raises: it must not take the others along."""
        name = loop.query.name.slice
        try:
            loop.run()
        except AshoreError as error:
            self._failures.append(error)
            self._progress.trouble(name, f"stopped: {error.message}")
        except Exception as error:  # noqa: BLE001 - a thread's last line: it is raised by `run`
            self._failures.append(error)
            self._progress.trouble(name, f"broke: {error!r}")
