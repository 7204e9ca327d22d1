"""Classes of Spark kept for later starts: what `ashore warm-up` does.

What it is: a small job with SQL and state that is played without Kafka, in a JVM that writes its
classes down when it ends.
What it promises: nothing but the archive stays. It is made only on request: a JVM that
writes one takes three times the work of one that does not (decision 0033).
"""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from ashore.errors import ServiceError
from ashore.jobs.class_archive import NewArchive
from ashore.jobs.events import CaseEnded
from ashore.jobs.failure import Failed
from ashore.jobs.jars import SHORT_LIVED
from ashore.jobs.launch import JobLaunch, LaunchOptions
from ashore.jobs.requests import CasesRequest, write_request

JOB = {
    "job": "warm-up",
    "source": {"kafka": {"bootstrap_servers": "127.0.0.1:1"}},
    "tables": [
        {
            "topic": "clicks",
            "table": "ods.clicks",
            "schema": "id BIGINT, at TIMESTAMP, country STRING",
            "event_time": {"column": "at"},
            "late": {"after": "10s"},
            "land": False,
            "on_invalid": "drop",
        },
        {"table": "ods.per_minute", "partition_by": ["date"], "event_time": {"column": "minute"}},
    ],
    "sql": "INSERT INTO ods.per_minute SELECT window.start AS minute, country, count(*) AS clicks "
    "FROM clicks GROUP BY window(at, '1 minute'), country",
}
CASES = {
    "cases": [
        {
            "name": "a window is counted",
            "given": [
                {"topic": "clicks", "records": [{"at": at, "value": {"id": 1, "country": "DE"}}]}
                for at in ("2026-11-21T08:00:10Z", "2026-11-21T08:02:00Z")
            ],
            "expect": [
                {
                    "table": "ods.per_minute",
                    "rows": [{"minute": "2026-11-21T08:00:00Z", "country": "DE", "clicks": 1}],
                }
            ],
        }
    ]
}


def warm_up() -> Path:
    """Keep the classes of Spark's JVM for later starts on this machine; return the archive.

    Raises JavaMissing, JarMismatch; ServiceError where Spark does not start, or nothing is kept.

    If interrupted: see NewArchive.
    """
    try:
        new = NewArchive()
    except OSError as error:
        raise _not_kept(f"{error.filename} cannot be written: {error.strerror}") from error
    with new, TemporaryDirectory(prefix="ashore-warm-up-") as scratch:
        if not new.options:
            raise _not_kept("the path has characters that a JVM's options cannot have")
        job_file, cases = Path(scratch) / "job.yaml", Path(scratch) / "job.cases.yaml"
        job_file.write_text(json.dumps({**JOB, "lake": f"file://{scratch}/lake"}), "utf-8")
        cases.write_text(json.dumps(CASES), "utf-8")
        request = write_request(CasesRequest((str(cases),)))
        java_options = " ".join((new.options, *SHORT_LIVED))
        options = LaunchOptions(name="warm-up", request=request, java_options=java_options)
        _play(JobLaunch("test", job_file, options))
        path = new.keep()
    if path is None:
        raise _not_kept("the JVM has not written all of them: is there space?")
    return path


def _play(launch: JobLaunch) -> None:
    """Run a process to its end. Raises ServiceError where it has not done what it was to do."""
    problems = ["no case was played"]
    with launch:
        for event in launch.events():
            match event:
                case CaseEnded():
                    problems = list(event.problems)
                case Failed():
                    problems = [event.message]
        code = launch.wait()
    if code or problems:
        reason = "; ".join(problems) or f"its process ended with {code}"
        raise ServiceError(f"Spark could not be tried: {reason}", hint=f"see {launch.log_path}")


def _not_kept(why: str) -> ServiceError:
    return ServiceError(
        f"the classes of Spark are not kept: {why}",
        hint="jobs start without them; $ASHORE_CACHE names another directory",
    )
