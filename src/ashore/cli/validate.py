"""The command `ashore validate`.

What it promises: nothing is read or written; where there is no SQL, no Spark is started.
"""

from collections.abc import Iterable

import typer
from rich.markup import escape

from ashore.base.units import format_count
from ashore.cli.options import AsJson, Debug, JobFile
from ashore.cli.output import print_answer, reported_errors, say, waiting
from ashore.errors import SourceUnreachable
from ashore.jobs.file import Job
from ashore.topics.open_job import OpenJob, open_job
from ashore.topics.use.preflight import find_unmatched, require_topics
from ashore.topics.use.table_changes import find_pending


def _found(job: Job, topics: int) -> str:
    tables = format_count(len(job.tables), "item")
    return (
        f"{job.path} is valid: job {job.job} lands {format_count(topics, 'topic')} by "
        f"{tables} of `tables`, on {job.lake}; it has no SQL to plan"
    )


def _shown(changes: Iterable[str]) -> list[str]:
    return [f"the next start reports: {each}" for each in changes]


def _check_topics(opened: OpenJob) -> tuple[list[str], list[str]]:
    """Return the topics of the source, and what is to be known of those of the job, in words.

    Raises StreamMissing, SourceError; a source that does not answer is a note.
    """
    try:
        existing = opened.source.list_streams()
    except SourceUnreachable as error:
        return [], [f"topics were not checked: {error.message}"]
    require_topics(opened.job, existing, opened.source)
    unmatched = find_unmatched(opened.job, existing)
    return existing, [f"no topic matches {each}" for each in unmatched]


def validate(job_file: JobFile, as_json: AsJson = False, debug: Debug = False) -> None:
    """Plan the SQL of a job and show sources, state and columns. Nothing is read or written."""
    with reported_errors(as_json=as_json, debug=debug):
        with (
            # Problems of the file itself are reported at once.
            open_job(job_file) as opened,
            waiting("reading topics from Kafka, and tables of the lake", quiet=as_json),
        ):
            job = opened.job
            existing, notes = _check_topics(opened)
            topics = opened.known_topics(existing)
            changes = find_pending(opened, topics)
        if job.sql is None:
            lines = [_found(job, len(topics)), *notes, *_shown(changes)]
            document = {"queries": [], "changes": changes, "topics": notes}
            print_answer(lines, document, as_json=as_json)
            return
        for line in (*notes, *_shown(changes)):
            say(escape(line))
        from ashore.cli import validate_view  # noqa: PLC0415 - with what a launch needs
        from ashore.jobs.launch import JobLaunch, LaunchOptions  # noqa: PLC0415 - as above

        launch = JobLaunch("validate", job_file, LaunchOptions(debug=debug, name=job.job))
        raise typer.Exit(validate_view.show_validate(launch, as_json=as_json))
