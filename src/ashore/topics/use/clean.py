"""`clean`: files in progress that nothing refers to any more.

What it promises: plans are values: what `--explain` shows is what is applied.
"""

from ashore.log.plan_clean import DeleteFile
from ashore.log.store.cleaner import apply_cleaning, plan_cleaning
from ashore.log.store.reader import read_log
from ashore.topics.loop.job import tables_of
from ashore.topics.loop.sinks import sink_slice
from ashore.topics.open_job import OpenJob


def plan_clean_job(opened: OpenJob) -> tuple[DeleteFile, ...]:
    """Return the files that may be deleted now, of topics' tables and of those that SQL writes."""
    job, storage = opened.job, opened.storage
    sinks = [item for item in job.tables if item.topic is None]
    slices = {opened.name: tables_of(opened.known_topics().values())}
    slices |= {sink_slice(job.job, item): list(item.sink_tables) for item in sinks}
    now_and_ttl = (opened.clock.now_ms(), job.clean.ttl_ms)
    return tuple(
        step
        for name, tables in slices.items()
        for step in plan_cleaning(storage, name, read_log(storage, name), tables, now_and_ttl)
    )


def clean_job(opened: OpenJob, steps: tuple[DeleteFile, ...]) -> int:
    """Delete planned files and return the bytes."""
    return apply_cleaning(opened.storage, steps)
