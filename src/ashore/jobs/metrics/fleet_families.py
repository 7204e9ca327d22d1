"""The metrics of a server of jobs, beside those of its jobs.

What it is: `FLEET_FAMILIES`, which the reference page and the alert rules are compared with.
"""

from ashore.jobs.metrics.families import Family, Kind


def _counter(name: str, labels: tuple[str, ...], meaning: str) -> Family:
    return Family(f"{name}_total", Kind.COUNTER, labels, meaning)


def _gauge(name: str, labels: tuple[str, ...], meaning: str) -> Family:
    return Family(name, Kind.GAUGE, labels, meaning)


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

FLEET_FAMILIES: tuple[Family, ...] = (
    *(JOBS, PHASE, PHASE_SECONDS, STARTS, FAILURES, MEMORY, CHECKPOINT_AGE),
    *(OPERATIONS, DELIVERIES, LOOK_AGE, LEFT_OUT),
)
