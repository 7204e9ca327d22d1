"""The metrics of a server, and those that its jobs have written.

What it is: `render_metrics`.
What it promises: as many series as jobs, phases and slices ask for, and no more than a fixed number
of each job's own. Nothing is asked of a lake or of Kafka.
What it must not know: HTTP.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from ashore.fleet.server.context import Context
from ashore.fleet.supervisor import ManagedJob
from ashore.jobs.metrics import fleet_families as families
from ashore.jobs.metrics.exposition import merge_files, write_families
from ashore.jobs.metrics.families import Family

_Samples = Mapping[tuple[str, ...], float]


def render_metrics(context: Context) -> str:
    """Return all metrics as Prometheus reads them. Reads files: not on the event loop."""
    views = context.supervisor.views
    texts = {}
    for name, view in views.items():
        if view.process is None:
            continue  # what it has written is of a run that has ended
        try:
            texts[name] = context.files.run_of(name).metrics.read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            continue
    of_jobs, left_out = merge_files(texts)
    own = _own(context, views, {(name,): count for name, count in left_out.items()})
    return write_families(own) + of_jobs


def _own(
    context: Context, views: Mapping[str, ManagedJob], left_out: _Samples
) -> Iterator[tuple[Family, _Samples]]:
    now_ms, jobs = context.clock.now_ms(), views.values()
    yield families.JOBS, _count(str(each.phase) for each in jobs)
    yield families.PHASE, {(each.name, str(each.phase)): 1 for each in jobs}
    tally = context.journal.tally()
    lasted = Counter(tally.phase_ms)
    for each in jobs:
        lasted[each.name, str(each.phase)] += max(0, now_ms - each.since_ms)
    yield families.PHASE_SECONDS, {key: value / 1000 for key, value in lasted.items()}
    yield families.STARTS, {key: float(value) for key, value in tally.starts.items()}
    yield families.FAILURES, {(each.name,): _failures(each) for each in jobs}
    memory = {(each.name,): each.memory_bytes for each in jobs}
    yield families.MEMORY, {key: value for key, value in memory.items() if value is not None}
    yield families.CHECKPOINT_AGE, dict(_checkpoint_ages(jobs_of(views), now_ms))
    yield families.OPERATIONS, _count(str(each.state) for each in context.operations.all())
    webhook = context.webhook
    yield families.DELIVERIES, {(): webhook.pending()} if webhook is not None else {}
    yield families.LOOK_AGE, {(): context.supervisor.look_age_s()}
    yield families.LEFT_OUT, left_out


def _count(values: Iterable[str]) -> _Samples:
    return {(value,): float(count) for value, count in Counter(values).items()}


def jobs_of(views: Mapping[str, ManagedJob]) -> list[ManagedJob]:
    """Return the jobs that have a process."""
    return [each for each in views.values() if each.process is not None]


def _failures(view: ManagedJob) -> float:
    is_failed = view.retry is not None and view.last is not None and view.last.code != 0
    return view.retry.failures if is_failed and view.retry is not None else 0


def _checkpoint_ages(
    jobs: list[ManagedJob], now_ms: int
) -> Iterator[tuple[tuple[str, ...], float]]:
    for view in jobs:
        for each in view.seen.slices if view.seen else ():
            if each.slice != "main" and each.last_commit_ms is not None:
                yield (view.name, each.slice), max(0, now_ms - each.last_commit_ms) / 1000
