"""One look, or one in every interval until a stop.

What it promises: an interval begins on time, or at once where the one before took longer.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ashore.proof.audit.auditor import Auditor
from ashore.proof.audit.result import ONE_PASS, AuditReport, Pace
from ashore.proof.evidence.result import quiet
from ashore.proof.verify import Progress
from ashore.tables.catalog import Catalog
from ashore.topics.open_job import OpenJob

NAP_S = 0.1  # a stop is noticed within this time


def audit_once(opened: OpenJob, progress: Progress = quiet) -> AuditReport:
    """Look at everything once. Raises StorageError, NotInstalled."""
    with _asked_catalog(opened) as catalog:
        return Auditor(opened, ONE_PASS, progress, catalog).tick()


def follow(opened: OpenJob, pace: Pace, is_stopping: Callable[[], bool]) -> Iterator[AuditReport]:
    """Yield a report of each interval. Raises CallsHang: this process can look no more."""
    clock = opened.clock
    with _asked_catalog(opened) as catalog:
        auditor = Auditor(opened, pace, catalog=catalog)
        while not is_stopping():
            next_s = clock.monotonic_s() + pace.interval_s
            yield auditor.tick()
            while not is_stopping() and (left_s := next_s - clock.monotonic_s()) > 0:
                clock.sleep(min(NAP_S, left_s))


@contextmanager
def _asked_catalog(opened: OpenJob) -> Iterator[Catalog | None]:
    with opened.catalog() as catalog:
        yield catalog if opened.job.catalog.hive else None
