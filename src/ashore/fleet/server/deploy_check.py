"""Who may deploy which job file, where roles are given by labels.

What it is: `check_deploy`.
What it promises: no one without a role on all jobs takes a job out of a team or into one, reads
what an earlier job of that name has left, or writes a file that another team's job names.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from ashore.base.labels import label_texts
from ashore.errors import NotAllowed, ServerRefused
from ashore.fleet.access.requests import JobAccess, refusal
from ashore.fleet.access.tokens import Caller, UserRole
from ashore.fleet.records.job_files import digest_of
from ashore.fleet.supervise.supervisor import ManagedJob
from ashore.jobs.file import Job

Views = Mapping[str, ManagedJob]


@dataclass(frozen=True, slots=True)
class NewFile:
    """A job file that is deployed.

    Arguments:
        job: what it says.
        beside: the names of the files that are sent with it.
        directory: of job files.
        was_there: whether something is kept of a job of that name.

    """

    job: Job
    beside: Collection[str]
    directory: Path
    was_there: bool


def check_labels(caller: Caller, name: str, labels: Mapping[str, str]) -> None:
    """Check that a caller may operate a job with the labels of a new file. Raises NotAllowed."""
    grant = caller.grant_on(labels)
    if grant is None or grant.role is not UserRole.OPERATE:
        shown = ", ".join(sorted(label_texts(labels)))
        where = f"on job {name} with the labels of the new file ({shown[:300] or 'none'})"
        raise refusal(caller, UserRole.OPERATE, where)


def check_deploy(
    access: JobAccess,
    caller: Caller,
    new: NewFile,
    views: Views,
) -> None:
    """Check that a caller may deploy a job file. Raises NotAllowed, ServerRefused.

    Arguments:
        access: who may operate which job.
        caller: who deploys.
        new: what is deployed.
        views: its jobs as they are.

    """
    job = new.job
    if access.may_operate(caller, ""):
        return
    check_labels(caller, job.job, job.labels)
    view = views.get(job.job)
    if view is not None and view.file is not None:
        _check_seen(view)
        access.require(caller, job.job, UserRole.OPERATE)
    elif view is not None or new.was_there:
        raise NotAllowed(
            f"there was a job {job.job} before, whose labels are not known",
            hint="use another name, or ask who has the role `operate` on all jobs: "
            "the new job would have its log and its history",
        )
    for each in {*new.beside, *_named(job)}:
        if Path(each).name != each:
            raise NotAllowed(
                f"{each[:200]!r} is not a file beside the job file",
                hint="name a plain file: other places are for who has a role on all jobs",
            )
        _check_beside(access, caller, new.directory / each, views)


def _check_seen(view: ManagedJob) -> None:
    """Check that the labels that are known are those of the file that is there."""
    file = view.file
    if file is None or not file.is_checked or digest_of(file.path, file.job) != file.digest:
        raise ServerRefused(
            f"the file of job {view.name} changed a moment ago",
            hint="deploy again in a few seconds",
        )


def _check_beside(access: JobAccess, caller: Caller, path: Path, views: Views) -> None:
    """Check that a file beside job files is new, or of jobs that a caller may operate alone."""
    users = [view for view in views.values() if view.file and path.name in _named(view.file.job)]
    is_theirs = bool(users) and all(access.may_operate(caller, each.name) for each in users)
    if path.exists() and not is_theirs:
        raise NotAllowed(
            f"{path.name[:200]!r} is there, and is not of a job that `{caller.name}` may operate",
            hint="choose another name for the file",
        )


def _named(job: Job | None) -> set[str]:
    if job is None or job.sql is None:
        return set()
    return {each for each in (job.sql.file, job.sql.functions) if each is not None}
