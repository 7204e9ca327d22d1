"""The seam between a scenario and where it is played.

What it is: what a scenario asks for: records, lives of the job with a fault in them, and the lake
to look at afterwards.
What it promises: the same scenario can be played in memory within seconds, which is also how its
checkers are seen to fail, and on real servers.
"""

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from ashore.errors import check
from ashore.log.names import SliceName
from ashore.log.store.archive import archive_log
from ashore.storage.base import Storage
from ashore.topics.open_job import OpenJob
from ashore.topics.use.clean import clean_job, plan_clean_job
from ashore_lab.drills.faults import JobFault
from ashore_lab.drills.faults.late_delete import DeleteCalls
from ashore_lab.drills.verdict import Flight
from ashore_lab.drills.workloads.numbers import SCHEMA, Numbered, Produced

JOB = "drill"
TOPIC = "clicks"
TABLE = "ods.clicks"
NAME = SliceName(JOB, "main")
KILLED = -9
# A day is sealed once all of its records have been read, and for no other reason.
SEALED = {
    "event_time": {"column": "ts"},
    "partition_by": ["date", "country"],
    "late": {"policy": "keep"},
    "seal": {
        "delay": "1m",
        "idle_after": "9999d",
        "remember": "9999d",
        "actions": ["success_file"],
    },
}


@dataclass(frozen=True, slots=True)
class SiteOptions:
    """What differs from drill to drill. Keys of the job file go over what is usual."""

    partitions: int = 3
    poison_every: int = 0
    batch_records: int = 1_000
    interval: str = "1s"
    has_spark: bool = True  # of a real site: see `Length`
    lake: str = "disk"  # of a real site: disk | hdfs | hdfs alone: one with a single NameNode
    brokers: int = 1  # of a real site: one, or the three of a cluster
    has_metastore: bool = False  # in which the table's partitions are registered
    countries_every: int = 0  # after this many records new partitions of the table come
    spacing_ms: int = 0  # from one event time to the next; then partitions of time are sealed
    padding_bytes: int = 0  # of each record, more than usual
    twin_of: "Site | None" = None  # its topic is read; else there is a topic for this site
    table: Mapping[str, object] = field(default_factory=dict)
    sections: Mapping[str, object] = field(default_factory=dict)
    other_tables: tuple[Mapping[str, object], ...] = ()  # which queries fill


@dataclass(frozen=True, slots=True)
class End:
    """How a process of the job ended: its exit code, and what it said."""

    code: int  # 0: drained; KILLED; else that of an error
    message: str = ""


def produced_of(topic: str, seed: int, options: SiteOptions) -> Produced:
    """Return the records of a new topic, none of which is produced yet."""
    workload = Numbered(
        topic,
        seed,
        options.partitions,
        options.poison_every,
        options.countries_every,
        spacing_ms=options.spacing_ms,
        padding_bytes=options.padding_bytes,
    )
    return Produced(workload)


def keep_house(opened: OpenJob) -> None:
    """Pack the log and delete stale files, as a job process does now and then."""
    archive_log(opened.storage, NAME)
    clean_job(opened, plan_clean_job(opened))


class Site(Protocol):
    """One topic, one lake, one job."""

    produced: Produced
    table: str

    def produce(self, records: int) -> None:
        """Produce the next records of the workload, and wait until they are there."""
        ...

    def expect(self, lives: int, at_once: int = 1) -> None:
        """Prepare for `lives` processes of `live`, one after the other, if that takes time.

        Each is started while one before is at work, and does nothing until it is its turn. That
        many are started `at_once` at first: two, where the work of each is short.
        """
        ...

    def live(self, *faults: JobFault) -> End:
        """Run one process of the job until it is killed, or until everything has landed.

        A fault whose moment does not come has not struck.
        """
        ...

    def live_while(self, records_per_s: int, *faults: JobFault) -> End:
        """Run one process of the job while records come, in its own rhythm, until a fault ends it.

        It is not stopped when all has landed.
        """
        ...

    def flight(self, *, must_be_half_done: bool) -> Flight:
        """Return what is in flight now, and whether a fault that strikes now proves anything.

        `must_be_half_done`: a backlog is not enough.
        """
        ...

    def skip_gaps(self) -> None:
        """Write `gap: skip` into the job file, as an operator does after the report of one."""
        ...

    def expire(self, partition: int, below: int) -> None:
        """Let the broker forget what lies below an offset, as retention does."""
        ...

    def create_again(self) -> None:
        """Delete the topic with all its records, and create it again, empty."""
        ...

    def late_deletes(self, storage: Storage) -> DeleteCalls:
        """Return the deletes that clients of the lake make: they come again, late.

        `storage`: the lake as those clients see it.
        """
        ...

    def mend(self) -> None:
        """End every outage now, and wait until everything can be used."""
        ...

    def keep_house(self) -> None:
        """Do what housekeeping does once its time has come: pack the log, delete what is stale."""
        ...

    def opened(self) -> AbstractContextManager[OpenJob]:
        """Open what checkers look at: the lake without any fault."""
        ...

    def landed(self) -> int:
        """Return how many records the log has, dead letters too."""
        ...

    def registered(self) -> Mapping[str, str] | None:
        """Return where, below the lake, the metastore says that each partition of the table is.

        None where the site has no metastore.
        """
        ...

    def close(self) -> None:
        """Wait until everything is as it was before, and close connections. Called once."""
        ...


def skip_gaps(text: str) -> str:
    """Return a job file that says `gap: skip`, and is otherwise the same."""
    document = json.loads(text)
    document["source"]["gap"] = "skip"
    return json.dumps(document, indent=1)


def job_text(lake: str, servers: str, topic: str, options: SiteOptions) -> str:
    """Return the job file of a drill."""
    table = {
        "topic": topic,
        "table": TABLE,
        "schema": SCHEMA,
        **(SEALED if options.spacing_ms else {"partition_by": ["country"]}),
        **options.table,
    }
    batch = {"interval": options.interval, "max_records": options.batch_records}
    check("tables" not in options.sections, "a drill lands one table")
    document = {
        "job": JOB,
        "lake": lake,
        "source": {
            "kafka": {"bootstrap_servers": servers},
            "first_start": {"default": "earliest"},
        },
        "batch": batch,
        **options.sections,
        "tables": [table, *options.other_tables],
    }
    return json.dumps(document, indent=1)
