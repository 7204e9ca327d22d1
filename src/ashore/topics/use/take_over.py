"""What takes the slices of a job over: lost files given up, a topic that was created again.

What it is: the use cases behind `recover --reland`, `recover --accept-loss` and `rejoin`.
What it promises: it looks first: a job that runs, or for which there is nothing to do, is left
alone.
"""

from dataclasses import dataclass

from ashore.base.operator import operator
from ashore.errors import QueryRefused
from ashore.log.names import SliceName
from ashore.log.store.dead_job import find_gone, plan_help
from ashore.topics.loop.recovery import accept_loss, find_rejoin, open_and_find_lost, rejoin
from ashore.topics.open_job import OpenJob
from ashore.topics.use.requirements import require_landed_topic, require_stopped, require_whole_log


def find_losses(opened: OpenJob) -> dict[SliceName, int]:
    """Return how many files of which slices are lost. Looks only, beside whatever runs."""
    lost = {
        name: find_gone(opened.storage, plan_help(opened.storage, name)) for name in opened.slices
    }
    return {name: count for name, count in lost.items() if count}


def is_relandable(opened: OpenJob, *, takes_over: bool) -> bool:
    """Return whether a job process is to take the job over and read lost files again.

    False where no file is lost: nothing is to be done, and a job that runs is left alone. Raises
    LogGrows; QueryRefused where files of a query are lost: their rows were read from no topic.
    """
    losses = find_losses(opened)
    if not losses:
        return False
    require_stopped(opened, takes_over=takes_over)
    for name, count in losses.items():
        if name != opened.name:
            raise QueryRefused(
                f"{count} files of {name} are lost, and rows of a query cannot be read again: they "
                "come from its state",
                hint="restore them, give them up with --accept-loss, or write to another table",
            )
    if not any(item.is_landed for item in opened.job.tables):
        raise QueryRefused(
            f"{opened.job.path} lands no topic, so there is nothing to read again",
            hint="ashore recover without --reland finishes the moves of its queries",
        )
    return True


@dataclass(frozen=True, slots=True)
class GivenUp:
    """What `accept_losses` gave up for ever."""

    files: int
    rows: int


def accept_losses(opened: OpenJob, why: str, *, takes_over: bool) -> GivenUp:
    """Take slices over that have lost files and give these up: a `skip` says who and why.

    A slice that has lost none is left alone. Raises LogGrows where the job runs, unless it
    `takes_over`.
    """
    losses = find_losses(opened)
    if losses:
        require_stopped(opened, takes_over=takes_over)
    files = rows = 0
    for name in losses:
        committer = opened.committer(name)
        lost = open_and_find_lost(committer)
        if lost is not None:
            files += len(lost.files)
            rows += accept_loss(committer.log, lost, operator(), why)
    return GivenUp(files, rows)


def rejoin_topic(opened: OpenJob, topic: str, *, takes_over: bool) -> int:
    """Continue with a topic that was created again; return the number of partitions that joined.

    None where the log knows the topic as it is: a job that runs is left alone then. Raises
    LogLost, StreamMissing; LogGrows where the job runs, unless it `takes_over`.
    """
    require_landed_topic(
        opened.job,
        topic,
        "the state of the query belongs to the deleted topic",
        hint="write to another table from the new topic: a new table starts with new state",
    )
    require_whole_log(opened)
    if find_rejoin(opened.storage, opened.name, opened.source, topic) is None:
        return 0
    require_stopped(opened, takes_over=takes_over)
    return rejoin(opened.committer(opened.name), opened.source, topic)
