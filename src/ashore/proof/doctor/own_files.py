"""Continuing where the job's own log was lost: which of its files come into a new one.

What it promises: pure. Every record below the offset where landing continues is in one file that is
kept, or the source no longer has it, or never had it. A file with records that another file has, or
that are landed again, is moved aside.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from ashore.log.entries import Joined
from ashore.log.fold import Fold
from ashore.log.positions import OffsetRange, ShardKey, StreamShard
from ashore.proof.doctor.observation import Observations, OwnFile, OwnSeen, StagedDataFile, ends_of
from ashore.proof.doctor.steps import AdoptFiles, DoctorRefusal, refuse_repair
from ashore.proof.evidence.runs import Runs, intersect, subtract, unite


@dataclass(frozen=True, slots=True)
class OwnPlan:
    """What comes of the files."""

    step: AdoptFiles | None = None
    aside: tuple[tuple[str, str], ...] = ()  # paths, and why
    refusals: tuple[DoctorRefusal, ...] = ()
    notes: tuple[str, ...] = ()


def plan_own_files(seen: Observations) -> OwnPlan:
    """Return what is adopted, what is moved aside, or why nothing can be done."""
    own, fold = seen.own, seen.log.fold
    if own is None:
        return OwnPlan()
    if fold is None:
        return OwnPlan(
            refusals=(refuse_repair("the job's log cannot be read", "repair the log first"),)
        )
    queries = tuple(refuse_repair(error.message, _OF_QUERY) for error in own.lost_queries)
    if not own.files and own.end.epoch <= fold.epoch and own.end.next_batch <= fold.next_batch:
        return OwnPlan(refusals=queries, notes=("the log has every file of the job's topics",))
    refusals = tuple(_refuse_source(seen, own, fold)) or tuple(_refuse_missing(seen, own))
    if refusals:
        return OwnPlan(refusals=(*refusals, *queries))
    bases = _bases(own, seen, fold)
    kept, aside = choose_files(own, fold, bases)
    lost = _find_unreadable(own, kept, bases)
    if lost:
        text = f"{lost} has records that Kafka no longer has, and cannot be adopted"
        hint = "restore the log or the file, or move the file aside by hand to give them up"
        return OwnPlan(refusals=(refuse_repair(text, hint),))
    stranded = _find_stranded(own, fold, kept)
    if stranded:
        text = (
            f"{stranded} was never moved into its table, and has records that Kafka no longer has"
        )
        hint = "restore the log, which says where it belongs, or move it aside by hand to give its"
        return OwnPlan(refusals=(refuse_repair(text, f"{hint} records up"),))
    step = _step(seen, own, fold, kept, bases)
    notes = (_NOTE, *_notes_of_missing(own))
    return OwnPlan(step, tuple(sorted(aside.items())), queries, notes)


_NOTE = (
    "watermarks start again, and sealed partitions are sealed again; what was filtered, dropped, "
    "skipped, retired or given up is no longer known: counts are those of the files"
)


_OF_QUERY = (
    "restore the log from a backup, or write to another table: the state of a query is in its "
    "checkpoint, and goes with its log"
)


def _refuse_source(seen: Observations, own: OwnSeen, fold: Fold) -> Iterator[DoctorRefusal]:
    if seen.source.error:
        hint = "only Kafka distinguishes a lost file from offsets without a record"
        yield refuse_repair(f"Kafka does not answer: {seen.source.error}", hint)
        return
    for shard, end in sorted(ends_of(own.files).items()):
        there, topic = seen.source.offsets.get(shard), seen.topics.get(shard.stream)
        place = f"{shard.stream}/{shard.shard}"
        if topic is None or topic.is_made_by_spark:
            why = "has `select`" if topic else "is not a topic of the job"
            yield refuse_repair(f"{shard.stream} {why}", "restore the log from a backup")
        elif there is None or there.end < end:
            hint = "was the topic created again? If so, its offsets belong to other records"
            yield refuse_repair(f"files hold {place} up to {end}, which Kafka does not have", hint)
        else:
            yield from _refuse_generation(seen, own, fold, shard)
            tables = {topic.table, *topic.side_tables}
            if any(f.table not in tables and f.of(shard) for f in own.files):
                yield refuse_repair(f"{place} is in tables of other topics", "correct `tables`")


def _refuse_generation(
    seen: Observations, own: OwnSeen, fold: Fold, shard: StreamShard
) -> Iterator[DoctorRefusal]:
    """Refuse files of another generation of a topic than the one that the log reads."""
    known = fold.generation(seen.source.name, shard.stream)
    if known is not None and known[1] != seen.source.streams[shard.stream].stream_id:
        text = f"topic {shard.stream} was created again"
        yield refuse_repair(text, "ashore rejoin first")
    current = known[0] if known else 1
    if any(each.is_of_other(current) for file in own.files for each in file.of(shard)):
        text = f"files of {shard.stream}/{shard.shard} have another generation than {current}"
        hint = "the topic was created again: restore the log from a backup"
        yield refuse_repair(text, hint)


def _refuse_missing(seen: Observations, own: OwnSeen) -> Iterator[DoctorRefusal]:
    """Refuse to land again what may have been retired, unless the operator accepts that.

    A `retire` comes after the batches whose rows it drops: where those entries are lost, it is lost
    too, and nothing else distinguishes rows that were dropped on purpose from lost rows.
    """
    for shard, first in sorted(own.missing.items()):
        topic = seen.topics[shard.stream]
        tables = {topic.table, *topic.side_tables}
        if seen.lands_missing or not (topic.retention or tables & own.retired):
            continue
        why = (
            f"has `retention: {topic.retention}`" if topic.retention else "was retired from before"
        )
        text = (
            f"Kafka has records of {shard.stream}/{shard.shard} from offset {first} on that are in "
            f"no file; {topic.table} {why}: only the lost log said which of them were dropped on "
            "purpose"
        )
        hint = (
            "--land-missing lands them all, and everything after them; then drop again what "
            f"should stay dropped, before it is read: ashore retire JOB.yaml {topic.table} "
            "PARTITION..., or --older-than"
        )
        yield refuse_repair(text, hint)


def _notes_of_missing(own: OwnSeen) -> Iterator[str]:
    for shard, first in sorted(own.missing.items()):
        yield (
            f"{shard.stream}/{shard.shard} is landed again from offset {first} on, which is in "
            "Kafka and in no file. This includes what `ashore retire` dropped, which is no longer "
            "known: retire again what should stay dropped"
        )


def _bases(own: OwnSeen, seen: Observations, fold: Fold) -> dict[StreamShard, int]:
    """Return where the log is in each shard; of one that it does not know, where files begin."""
    current = {
        StreamShard(key.stream, key.shard): state.next
        for key, state in fold.current().items()
        if key.source == seen.source.name
    }
    firsts: dict[StreamShard, int] = {}
    for file in own.files:
        for each in file.shards or ():
            shard, first = each.partition, each.offsets.start
            firsts[shard] = min(firsts.get(shard, first), first)
    # Where landing began is not known any more; if at the beginning, what is missing is seen there.
    begun = {shard: min(first, own.missing.get(shard, first)) for shard, first in firsts.items()}
    return begun | current


def choose_files(
    own: OwnSeen, fold: Fold, bases: Mapping[StreamShard, int]
) -> tuple[list[OwnFile], dict[str, str]]:
    """Return the files that are kept, batch after batch, and the others with the reasons."""
    aside: dict[str, str] = {}
    kept: list[OwnFile] = []
    again: list[OwnFile] = []
    reach = dict(bases)  # how far the batches before have come
    cuts = dict(own.missing)
    ordered = sorted(own.files, key=lambda each: (each.name.batch, each.name.epoch, each.path))
    epoch = fold.epoch
    for (batch, of_epoch), group in groupby(ordered, lambda f: (f.name.batch, f.name.epoch)):
        taken: list[OwnFile] = []
        is_late = batch < fold.next_batch or of_epoch < epoch
        is_late = is_late or any(each.name.batch == batch for each in kept)
        for file in group:
            why = _reason(file, reach, taken, is_late=is_late)
            if why:
                aside[file.path] = why
                again.append(file)
            else:
                taken.append(file)
        if taken:
            epoch = of_epoch
        for shard, end in ends_of(taken).items():
            reach[shard] = max(reach.get(shard, 0), end)
        kept += taken
    for file in again:
        _cut(cuts, file, bases, kept)
    while beyond := [each for each in kept if _is_beyond(each, cuts)]:
        for file in beyond:
            aside[file.path] = (
                "it has records that are landed again, since records before them are missing"
            )
            kept.remove(file)
            _cut(cuts, file, bases, ())
    return kept, aside


def _reason(
    file: OwnFile, reach: Mapping[StreamShard, int], taken: list[OwnFile], *, is_late: bool
) -> str:
    if file.shards is None:
        return "it cannot be read back, or its rows carry no offsets"
    if is_late:
        return "the log has its batch, or a later one"
    for each in file.shards:
        shard = each.partition
        if each.rows != each.offsets.size:
            return "it holds records twice"
        if each.offsets.start < reach.get(shard, 0):
            return "other files hold some of its records"
        if any(other.overlaps(each) for other in taken):
            return "another file holds some of its records"
    return ""


def _cut(
    cuts: dict[StreamShard, int],
    file: OwnFile,
    bases: Mapping[StreamShard, int],
    kept: Iterable[OwnFile],
) -> None:
    """Have the records of a file landed again, but for those that the log or `kept` files have."""
    for shard, rest in _left(file, bases, kept):
        first = rest.start
        cuts[shard] = min(cuts.get(shard, first), first)


def _left(
    file: OwnFile | StagedDataFile, bases: Mapping[StreamShard, int], kept: Iterable[OwnFile]
) -> Iterator[tuple[StreamShard, Runs]]:
    for each in file.shards or ():
        shard, end = each.partition, each.offsets.end
        taken = [own.offsets for other in kept for own in other.of(shard)]
        free = subtract(OffsetRange(min(end, bases.get(shard, 0)), end), unite(taken)[0])
        rest = intersect(each.offsets, free)
        if rest.size:
            yield shard, rest


def _is_beyond(file: OwnFile, cuts: Mapping[StreamShard, int]) -> bool:
    return any(
        each.offsets.end > cuts[shard]
        for each in file.shards or ()
        if (shard := each.partition) in cuts
    )


def _find_unreadable(
    own: OwnSeen, kept: Sequence[OwnFile], bases: Mapping[StreamShard, int]
) -> str | None:
    for file in own.files:
        for shard, rest in _left(file, bases, kept) if file not in kept else ():
            if rest.start < own.earliest.get(shard, 0):
                return file.path
    return None


def _find_stranded(own: OwnSeen, fold: Fold, kept: Sequence[OwnFile]) -> str | None:
    """Return a staged file with records that no log, no kept file and no source has any more."""
    nexts = {
        StreamShard(key.stream, key.shard): state.next for key, state in fold.current().items()
    }
    for file in own.staged:
        for shard, rest in _left(file, nexts, kept):
            if rest.start < own.earliest.get(shard, 0):
                return file.path
    return None


def _step(
    seen: Observations,
    own: OwnSeen,
    fold: Fold,
    kept: list[OwnFile],
    bases: Mapping[StreamShard, int],
) -> AdoptFiles:
    joined = []
    for shard in sorted({e.partition for f in kept for e in f.shards or ()}):
        known = fold.generation(seen.source.name, shard.stream)
        info = seen.source.streams[shard.stream]
        key = ShardKey(seen.source.name, shard.stream, known[0] if known else 1, shard.shard)
        if key not in fold.shards:
            joined.append(Joined(key, info.stream_id, bases[shard], "adopted"))
    topics = seen.topics.values()
    tables = {table for topic in topics for table in (topic.table, *topic.side_tables)}
    return AdoptFiles(
        name=seen.name,
        tables=tuple(sorted(tables)),
        joined=tuple(joined),
        files=tuple(kept),
        epoch=max(own.end.epoch, fold.epoch) + 1,
        next_batch=max(own.end.next_batch, fold.next_batch),
    )
