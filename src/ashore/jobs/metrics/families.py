"""The metrics of a job and of a server: each with its name, kind, labels and meaning.

What it promises: names and labels follow Prometheus: base units, `_total` for counters. Each has
the label `ashore_job`, so that files of several jobs can be in one directory.
"""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What a metric is to Prometheus."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Family:
    """One metric."""

    name: str
    kind: Kind
    labels: tuple[str, ...]  # beside `ashore_job`
    meaning: str


JOB = "ashore_job"  # the label of every metric
STEP_BUCKETS_S = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
OUTCOMES = ("moved", "already_moved", "lost", "conflict", "pending")  # of moves


def _counter(name: str, labels: tuple[str, ...], meaning: str) -> Family:
    return Family(f"{name}_total", Kind.COUNTER, labels, meaning)


def _gauge(name: str, labels: tuple[str, ...], meaning: str) -> Family:
    return Family(name, Kind.GAUGE, labels, meaning)


# ---- the process

INFO = _gauge("ashore_info", ("version",), "1; the release that `ashore run` is of")
UP = _gauge("ashore_up", (), "1 while the job process runs, otherwise 0")
STARTED = _gauge(
    "ashore_start_time_seconds",
    (),
    "when `ashore run` was started, as Unix time; each restart by a supervisor changes it",
)
SILENT = _gauge(
    "ashore_silent_seconds",
    (),
    "since the last heartbeat of the job process, which sends one each second; it is killed after "
    "`patience`",
)
EXIT_CODE = _gauge(
    "ashore_exit_code",
    (),
    "exit code of the job process, once it has ended; the text file keeps it",
)
WARNINGS = _counter(
    "ashore_warnings", ("slice",), "failures after which the job continues; they are in its output"
)
CALLS = _counter(
    "ashore_storage_calls",
    ("call", "result"),
    "calls of the job process to the lake, tries included; those of tasks are not counted. "
    "Results: `ok`, `missing`, `exists`, `unknown` (no answer by the deadline), `not_applied` (no "
    "server took it), `failed`",
)
HANGING = _gauge(
    "ashore_hanging_calls", (), "calls to the lake that timed out and have not returned"
)

# ---- a slice

STATE = _gauge(
    "ashore_slice_state",
    ("slice", "state"),
    "1 for the state of a slice, which is that of the topics (`main`) or of a query, 0 for the "
    "others: `running`, `retrying` (it failed, and tries again), `stopped` (it needs a decision)",
)
EPOCH = _gauge(
    "ashore_epoch", ("slice",), "epoch of the writer; it grows with each start and take-over"
)
RESTARTS = _counter(
    "ashore_restarts",
    ("slice",),
    "how often a slice was opened again after a failure, since `ashore run` was started",
)
BATCHES = _counter("ashore_batches", ("slice",), "batches that became readable")
STEPS = Family(
    "ashore_step_seconds",
    Kind.HISTOGRAM,
    ("slice", "step"),
    "how long steps took, `idle` left out; a step that failed lasts until the next try",
)
STEP_AGE = _gauge(
    "ashore_step_age_seconds", ("slice", "step"), "for how long a slice has been at its step"
)
LAG = _gauge(
    "ashore_lag_records",
    ("slice",),
    "offsets that wait to be landed, as of the last request to Kafka; for a query, as of its last "
    "batch",
)
LAG_SECONDS = _gauge(
    "ashore_lag_seconds",
    ("slice",),
    "since the last time at which everything in Kafka was known to be readable. For a query, 0 "
    "while nothing waits. Until first known, it counts from the start of `ashore run`",
)
NEWEST_AGE = _gauge(
    "ashore_newest_record_age_seconds",
    ("slice",),
    "age of the newest landed record, by its event time; none before the first, nor of queries",
)
DEFERRED = _gauge(
    "ashore_deferred_actions",
    ("slice", "action"),
    "deferred actions that are not complete: `register`, `success_file`, `catalog`, `http`",
)

# ---- records and files

RECORDS = _counter(
    "ashore_records",
    ("table", "outcome"),
    "records of batches that count, by the table that they are for. Outcomes: `landed`, `late` "
    "(in its late table), `dead` (in its dead-letter table), `filtered`, `dropped`, and `sent` "
    "into a topic, whose name `table` is then",
)
BYTES = _counter("ashore_bytes", ("table", "outcome"), "bytes of their files")
FILES = _counter("ashore_files", ("table", "outcome"), "their files")
SNAPSHOT_TIME = _gauge(
    "ashore_snapshot_time_seconds",
    ("table",),
    "when the log ordered the last snapshot of an Iceberg table, or version of a Delta table, as "
    "Unix time",
)
FETCHED = _counter("ashore_fetched_bytes", ("slice",), "bytes of keys and values as they were read")
COUNTED = _counter(
    "ashore_counted_records",
    ("slice", "counter"),
    "what the landing log counts of batches, by [counter](counters.md); late rows are `late`",
)
PREPARED = _counter(
    "ashore_prepared_files", ("slice",), "files whose moves have ended: the sum of `ashore_moves`"
)
MOVES = _counter(
    "ashore_moves",
    ("slice", "outcome"),
    "how moves ended: `moved`, `already_moved`, `lost`, `conflict`, `pending` (no answer; they are "
    "prepared and counted again after the next `open`)",
)

# ---- queries

STATE_ROWS = _gauge(
    "ashore_state_rows",
    ("slice",),
    "rows of the state of a query, where `spark.conf` has Spark count them",
)
STATE_BYTES = _gauge(
    "ashore_state_bytes",
    ("slice",),
    "bytes of the state of a query, in memory and in complete files",
)
WATERMARK = _gauge(
    "ashore_watermark_timestamp_seconds", ("slice",), "watermark of a query, as Unix time"
)
DROPPED = _counter(
    "ashore_query_dropped_rows",
    ("slice",),
    "rows that stateful operators dropped as too late; an aggregate counts one for each group of a "
    "task",
)

CLEANED_FILES = _counter(
    "ashore_checkpoint_cleaned_files",
    ("slice",),
    "files of the checkpoint of a query that were deleted as no kept batch refers to them",
)
CLEANED_BYTES = _counter("ashore_checkpoint_cleaned_bytes", ("slice",), "bytes of these files")

COMPACTED_FILES = _counter(
    "ashore_compacted_files",
    ("slice", "table"),
    "small files that the running job has replaced by larger ones",
)
COMPACTED_BYTES = _counter(
    "ashore_compacted_bytes", ("slice", "table"), "bytes of the files that were replaced"
)

FAMILIES = tuple(each for each in vars().values() if isinstance(each, Family))

# ---- a server

JOBS = _gauge(
    "ashore_server_jobs", ("phase",), "jobs of the server by [phase](../operate/serve.md)"
)
PHASE = _gauge(
    "ashore_server_job_phase",
    ("ashore_job", "phase"),
    "1 for the phase that a job is in; other phases have no sample",
)
PHASE_SECONDS = _counter(
    "ashore_server_phase_seconds",
    ("ashore_job", "phase"),
    "how long a job has been in each phase since the server was started",
)
STARTS = _counter(
    "ashore_server_starts",
    ("ashore_job", "reason"),
    "starts by the server: `first`, `restart`, `exit-CODE` after a run ended so, `killed`",
)
FAILURES = _gauge("ashore_server_failures", ("ashore_job",), "failures of a job in a row")
MEMORY = _gauge(
    "ashore_server_job_memory_bytes", ("ashore_job",), "memory of the processes of a job"
)
CHECKPOINT_AGE = _gauge(
    "ashore_server_checkpoint_age_seconds",
    ("ashore_job", "slice"),
    "since the last batch of a query was committed: its checkpoint is as old",
)
OPERATIONS = _gauge("ashore_server_operations", ("state",), "operations that are kept, by state")
DELIVERIES = _gauge("ashore_server_webhook_pending", (), "events that a webhook has not taken yet")
LOOK_AGE = _gauge(
    "ashore_server_look_age_seconds", (), "since the supervisor last looked at its jobs"
)
LEFT_OUT = _gauge(
    "ashore_server_series_left_out",
    ("ashore_job",),
    "samples of a job that are not shown, as it has more than the server allows per job",
)

_ALL = tuple(each for each in vars().values() if isinstance(each, Family))
FLEET_FAMILIES = _ALL[len(FAMILIES) :]
