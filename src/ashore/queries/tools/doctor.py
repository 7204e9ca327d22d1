"""What is wrong with a checkpoint, and a copy that is not: behind `ashore checkpoint doctor`.

What it is: `examine`, which looks; `repair`, which makes a copy or an attempt of a job; `undo`.
What it promises: the checkpoint that was there is only read. A job continues with the copy from its
next start on, and with the old one again after `undo`. A checkpoint of a job never goes back here:
its table would be ahead of it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING

from ashore.base.clock import Clock, SystemClock
from ashore.errors import AshoreError, CheckpointUnfit, JobFileInvalid, SourceError, fail
from ashore.log import names
from ashore.log.positions import StreamShard
from ashore.queries.state.checkpoint import Checkpoint, copy_checkpoint, open_directory, reach
from ashore.queries.state.diagnosis.diagnose import diagnose
from ashore.queries.state.diagnosis.findings import CheckpointFinding, Code
from ashore.queries.state.diagnosis.lineage import topic_ends
from ashore.queries.state.diagnosis.observation import Observed, TopicEnds
from ashore.queries.state.diagnosis.observe import observe
from ashore.queries.state.diagnosis.repair import RepairPlan, plan_repair, write_repair
from ashore.queries.state.diagnosis.source_logs import ListFiles
from ashore.queries.state.savepoints.restore import require_empty
from ashore.queries.state.savepoints.transfer import Advance
from ashore.queries.tools.addresses import find_checkpoint, is_job_file, require_newest

if TYPE_CHECKING:
    from ashore.queries.tools.stopped_query import StoppedQuery
    from ashore.queries.tools.trial import Trial
    from ashore.topics.open_job import OpenJob
    from ashore.topics.read.source import Source

_TOPICS = "topics: name the brokers with --brokers"


@dataclass(frozen=True, slots=True)
class DoctorOptions:
    """What a person has typed.

    Arguments:
        where: a job file, or the directory of a checkpoint.
        query: of the job file; None where it has one.
        to: where the copy goes; None: it becomes the job's.
        sources: how many sources the query reads now; None: not said.
        brokers: of Kafka, for the directory of a checkpoint; None: it is not read.
        takes_over: even if the job runs.
        is_deep: whether tables are read whole, and logs of file sources compared with the files.
        tries: whether Spark loads a copy before it is called a repair.

    """

    where: str
    query: str | None = None
    to: str | None = None
    sources: int | None = None
    brokers: str | None = None
    takes_over: bool = False
    is_deep: bool = False
    tries: bool = True


@dataclass(frozen=True, slots=True)
class Examined:
    """What was found.

    Arguments:
        place: of the checkpoint.
        seen: all that was looked at.
        findings: what is wrong.
        not_looked: what was not looked at, in words.
        plan: of the copy; None where there is nothing to repair, or it cannot be repaired.

    """

    place: str
    seen: Observed
    findings: Sequence[CheckpointFinding]
    not_looked: Sequence[str]
    plan: RepairPlan | None

    def to_dict(self) -> dict[str, object]:
        """Return it as `--json` prints it."""
        return {
            "path": self.place,
            "findings": [
                {
                    "code": each.code.value,
                    "file": each.file,
                    "sentence": each.sentence,
                    "repair": each.repair,
                    "repairable": each.is_repairable,
                }
                for each in self.findings
            ],
            "batch": self.seen.good.batch if self.seen.good else None,
            "looked_at": asdict(self.seen.looked),
            "not_looked_at": list(self.not_looked),
            "unproven": list(self.seen.unproven),
        }


@dataclass(frozen=True, slots=True)
class Repaired:
    """A copy that was made."""

    examined: Examined
    plan: RepairPlan
    place: str
    trial: "Trial"


def examine(request: DoctorOptions, clock: Clock) -> Examined:
    """Look a checkpoint through. Nothing is written.

    Raises as `find_checkpoint` and `observe`; SourceError where brokers were named that do not
    answer.
    """
    if is_job_file(request.where):
        with _opened(request) as (opened, query):
            return _examine_job(opened, query, request)
    return _examine(find_checkpoint(request.where, request.query, clock), request)


def repair(request: DoctorOptions, clock: Clock, advance: Advance) -> Examined | Repaired:
    """Make a copy without what was found; where nothing was found, none.

    Arguments:
        request: which, and where it goes.
        clock: of storages.
        advance: called as files are done.

    Raises as `examine`; CheckpointUnfit where something cannot be repaired; LogGrows where the job
    runs. Then nothing was changed.
    If interrupted: at `to` Spark starts no query; a job continues from the checkpoint that it has.

    """
    request = replace(request, is_deep=True)  # a copy reads all of it anyway
    if is_job_file(request.where) and request.to is None:
        with _opened(request) as (opened, query):
            return _repair_job(opened, query, request, advance)
    if request.to is None:
        raise JobFileInvalid(
            f"{request.where} is a directory: it is repaired into another one",
            hint="name that one with --to; then start the query with it as its checkpointLocation",
        )
    target = open_directory(request.to, clock)
    require_empty(target)
    examined = examine(request, clock)
    if not examined.findings:
        return examined
    plan = _require_plan(examined)
    source = find_checkpoint(request.where, request.query, clock)
    judge = _judge_of(target, examined, request, reach(target.uri).options)
    trial = write_repair(source, target, plan, advance, judge)
    return Repaired(_of_copy(examined, plan), plan, target.place, trial)


def undo(request: DoctorOptions) -> int:
    """Let the next start continue with the checkpoint from before the repair; return its batch.

    If interrupted: the next start continues with one of the two.

    Raises CheckpointUnfit where there is none, or batches have run since; LogGrows where the job
    runs, unless it `takes_over`; JobFileInvalid, StorageError.
    """
    from ashore.queries.tools.stopped_query import take_over  # noqa: PLC0415 - loads much

    if not is_job_file(request.where):
        raise JobFileInvalid(
            f"{request.where} is not a job file: there is nothing to undo",
            hint="start the query with the original checkpoint: it was only read",
        )
    with _opened(request) as (opened, query):
        before, batch = _before_repair(query)
        epoch = take_over(opened, query, takes_over=request.takes_over)
        with query.attempts.remake(epoch, before) as target:
            copy_checkpoint(before, target)
        return batch


def _before_repair(query: "StoppedQuery") -> tuple[Checkpoint, int]:
    newest = require_newest(query.attempts, str(query.name))
    before = query.attempts.before(newest)
    now = newest.list_finished()
    if before is None or not now:
        raise _no_undo(newest, "there is no previous checkpoint")
    then = before.list_finished()
    if not then or then[-1] != now[-1] or before.read_query_id() != newest.read_query_id():
        raise _no_undo(newest, "batches have run since, or the previous one was cleaned")
    if len({each.read_offsets(now[-1]).partitions for each in (before, newest)}) > 1:
        raise _no_undo(newest, "the last change was a rescale, which `rescale --undo` undoes")
    return before, now[-1]


def _no_undo(newest: Checkpoint, text: str) -> CheckpointUnfit:
    return CheckpointUnfit(
        f"{newest.place}: no repair can be undone: {text}; nothing was changed",
        hint="run the job: it continues from the checkpoint that it has",
        why="no_repair",
    )


# ---- of a job


@contextmanager
def _opened(request: DoctorOptions) -> Iterator[tuple["OpenJob", "StoppedQuery"]]:
    # What opens jobs takes longer to import than a checkpoint to be looked at.
    from ashore.queries.tools.stopped_query import open_query_of_table  # noqa: PLC0415 - as said above

    with open_query_of_table(request.where, request.query) as found:
        yield found


def _examine_job(opened: "OpenJob", query: "StoppedQuery", request: DoctorOptions) -> Examined:
    newest = require_newest(query.attempts, str(query.name))
    observed = observe(newest, request.sources, _lister(request))
    not_looked = [*observed.unproven, *observed.not_looked]
    try:
        observed = replace(observed, topics=_ask_kafka(opened.source, _topics_of(observed)))
    except SourceError as error:
        not_looked.append(f"topics: {error.message}")
    findings = [_for_job(each) for each in diagnose(observed)]
    return Examined(newest.place, observed, findings, not_looked, plan_repair(observed, findings))


def _for_job(finding: CheckpointFinding) -> CheckpointFinding:
    """Return what a job can do: its log has the offsets as well, and must not be contradicted."""
    if finding.code is not Code.TOPIC_RECREATED:
        return finding
    text = "run the job: its log says how it treats the topic"
    return replace(finding, repair=text, is_repairable=False)


def _repair_job(
    opened: "OpenJob", query: "StoppedQuery", request: DoctorOptions, advance: Advance
) -> Examined | Repaired:
    from ashore.queries.tools.stopped_query import take_over  # noqa: PLC0415 - loads much
    from ashore.topics.loop.job import lake_of  # noqa: PLC0415 - loads much

    examined = _examine_job(opened, query, request)
    if not examined.findings:
        return examined
    _require_job_plan(examined, query, request.where)  # refused before anything is taken over
    epoch = take_over(opened, query, takes_over=request.takes_over)
    newest = require_newest(query.attempts, str(query.name))
    examined = _examine_job(opened, query, request)
    plan = _require_job_plan(examined, query, request.where)
    with query.attempts.remake(epoch, newest) as target:
        judge = _judge_of(target, examined, request, lake_of(opened.job).options)
        trial = write_repair(newest, target, plan, advance, judge)
    return Repaired(_of_copy(examined, plan), plan, target.place, trial)


def _of_copy(examined: Examined, plan: RepairPlan) -> Examined:
    """Return what was found, where only files that the copy has can be doubtful."""
    doubted = {of: what for of, what in examined.seen.doubted.items() if of.path in plan.paths}
    return replace(examined, seen=replace(examined.seen, doubted=doubted))


def _require_job_plan(examined: Examined, query: "StoppedQuery", where: str) -> RepairPlan:
    plan = _require_plan(examined)
    if plan.is_back:
        raise CheckpointUnfit(
            f"{examined.place}: the last complete batch is {plan.batch}, and the table has newer "
            "ones; nothing was changed",
            hint=f"roll both back: `ashore roll-back {where} {query.fills} --to-batch "
            f"{plan.batch}`",
            why="goes_back",
        )
    return plan


# ---- of a directory


def _examine(checkpoint: Checkpoint, request: DoctorOptions) -> Examined:
    observed = observe(checkpoint, request.sources, _lister(request))
    not_looked = [*observed.unproven, *observed.not_looked]
    topics = _topics_of(observed)
    if topics and request.brokers is None:
        not_looked.append(_TOPICS)
    elif topics and request.brokers is not None:
        from ashore.topics.read.kafka import KafkaSource  # noqa: PLC0415 - only where it is used

        observed = replace(observed, topics=_ask_kafka(KafkaSource(request.brokers, {}), topics))
    findings = diagnose(observed)
    place = checkpoint.place
    return Examined(place, observed, findings, not_looked, plan_repair(observed, findings))


def _lister(request: DoctorOptions) -> ListFiles | None:
    """Return what lists the directories of sources of files, each once; None: nothing may."""
    clock = SystemClock()

    @cache
    def list_files(directory: str) -> Mapping[str, int] | None:
        try:
            found = open_directory(directory, clock).list_entries()
        except AshoreError:
            return None  # another kind of storage, or one that cannot be reached
        return {names.leaf(each.path): each.modified_ms for each in found}

    return list_files if request.is_deep else None


def _require_plan(examined: Examined) -> RepairPlan:
    if examined.plan is not None:
        return examined.plan
    finding = next(each for each in examined.findings if not each.is_repairable)
    raise CheckpointUnfit(
        f"{examined.place}: {finding.sentence}; nothing was changed",
        hint=finding.repair,
        why=finding.code.value,
        file=finding.file,
    )


def _judge_of(
    target: Checkpoint,
    examined: Examined,
    request: DoctorOptions,
    options: tuple[tuple[str, str], ...],
) -> Callable[[], "Trial"]:
    from ashore.queries.tools.trial import try_copy  # noqa: PLC0415 - starts a process

    good = examined.seen.good
    if good is None:
        fail("a copy is made of a batch that was found")
    return partial(try_copy, target, good, options, is_enabled=request.tries)


# ---- Kafka


def _topics_of(observed: Observed) -> list[str]:
    return sorted(topic_ends(observed.good.offsets)) if observed.good else []


def _ask_kafka(source: "Source", topics: Sequence[str]) -> dict[str, TopicEnds]:
    if not topics:
        return {}
    there = source.describe_streams(topics)
    shards = [StreamShard(name, shard) for name, info in there.items() for shard in info.shards]
    found = source.read_offsets(shards) if shards else {}
    return {
        name: TopicEnds(
            {each.shard: found[each].earliest for each in shards if each.stream == name},
            {each.shard: found[each].end for each in shards if each.stream == name},
        )
        for name in there
    }
