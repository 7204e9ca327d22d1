"""Executable specification of the landing protocol: an explicit-state model checker, standard library only.

Explores every interleaving of writers, archivers, a recovery helper and a janitor over one landing log, with calls
whose answer is lost or that take effect late, a source that drops offsets, files that somebody deletes and people who
decide what then, and checks the invariants in every state. Then does the same for mutations of the protocol, each of
which must yield a counterexample. Exit status 0: it holds, and all are caught.

It knows nothing of the package, and the package nothing of it: that they say the same is checked by people, and by
tests/unit/log/test_log_mutations.py, which plays the same mutations in the code.
"""

# ruff: noqa: ANN001, ANN003, ANN201, ANN202, C901, D101, D102, D103, E501, INP001, RUF005, RUF021, T201, UP045

import sys
import time
from typing import NamedTuple, Optional

from model.search import search


class File(NamedTuple):
    """A data file of one batch (a batch is one offset). Its name is used once: owner and copy make it unique."""

    offset: int
    epoch: int
    owner: str
    copy: int = 1


class Entry(NamedTuple):
    kind: str  # open | join | prepare | commit | skip | reland
    epoch: int
    owner: str  # process and life: with the number, the entry's id
    file: Optional[File]  # prepare, reland: that is to be final; skip: that is given up
    before: Optional[tuple]  # the predecessor's checksum
    to: Optional[int] = None  # join: where reading begins; skip: where it goes on, after a gap

    @property
    def checksum(self):
        return self[:4] + self[5:]


class Point(NamedTuple):
    """A place in the log up to which every entry is closed: what a snapshot holds."""

    end: int  # last number
    epoch: int
    next: Optional[int]  # next offset; None: nothing has joined
    last: Optional[tuple]  # checksum of the last entry


class Fold(NamedTuple):
    end: int
    epoch: int
    next: int
    last: Optional[tuple]
    unclosed: Optional[File]
    closed: Point  # the newest point that a snapshot may be made of
    base: int  # number of the snapshot that the fold began with


class Process(NamedTuple):
    name: str  # W*, O*: writers, O of an earlier release; R: recovery helper, J: janitor, A: accepts a loss, L: lands again
    step: str = "off"
    life: int = 1
    fold: Optional[Fold] = None
    job: object = None  # what the step works on

    def at(self, step, **changes):
        return self._replace(step=step, **changes)

    @property
    def owner(self):
        return f"{self.name}.{self.life}"


class State(NamedTuple):
    log: tuple  # what lies at each number now, or None
    history: tuple  # ghost: what was created first at each number: the true log
    snapshot: Point  # the newest
    archived: int  # the highest number that an archive holds; archives stay, and tell it
    files: frozenset  # (file, "source" | "target")
    lost: frozenset  # ghost: pending files that somebody else has deleted
    begun: Optional[int]  # ghost: the lowest offset that anybody has read
    source: tuple  # first offset that it still has, and the end of what has come
    late: frozenset  # calls whose answer never came and that may still take effect
    faults: int  # how many more calls may go unanswered
    drops: int  # how many more offsets the source may drop
    losses: int  # how many more pending files may be lost
    processes: tuple


class Setting(NamedTuple):
    """Bounds of one exploration. `first` owns the slice at the start."""

    name: str
    others: tuple
    batches: int
    numbers: int
    faults: int = 0
    lives: int = 1
    archive: bool = False
    latest: bool = False  # records come one by one, and reading begins behind those that are there
    drops: int = 0
    losses: int = 0
    first: str = "W0"


WRITERS = "WO"
EMPTY = Point(-1, 0, 0, None)
NOT_JOINED = EMPTY._replace(next=None)
WORDING = (
    "look only at the end",
    "look only at the end, keep the snapshot's entry",
    "look only at the end, go past stops",
)


# ---- folding


def begin(point):
    return Fold(*point, None, point, point.end)


def extend(fold, entry):
    """The fold with one more entry; None is what the protocol calls damage."""
    end, last = fold.end + 1, entry.checksum
    if entry.before != fold.last or (
        entry.epoch <= fold.epoch if entry.kind == "open" else entry.epoch != fold.epoch
    ):
        return None
    here = Point(end, entry.epoch, fold.next, last)
    if entry.kind == "open":
        return fold._replace(
            end=end, epoch=entry.epoch, last=last, closed=fold.closed if fold.unclosed else here
        )
    if entry.kind == "commit":
        return fold._replace(end=end, last=last, unclosed=None, closed=here)
    if entry.kind in ("join", "skip"):
        return extend_by_offsets(fold, entry, here)
    if entry.kind == "reland":  # the files of the entry that it closes, again: it adds no offset
        if fold.unclosed is None or fold.unclosed.offset != entry.file.offset:
            return None
        return fold._replace(end=end, last=last, unclosed=entry.file)
    if fold.next not in (None, entry.file.offset):
        return None
    closed = Point(fold.end, fold.epoch, fold.next, fold.last)  # this entry closes all before it
    return fold._replace(
        end=end, last=last, next=entry.file.offset + 1, unclosed=entry.file, closed=closed
    )


def extend_by_offsets(fold, entry, here):
    """After a `join`, or a `skip` of a gap or of a lost file."""
    if entry.file is not None:  # given up: it must be of the entry that this one closes
        if entry.file != fold.unclosed:
            return None
        return fold._replace(end=here.end, last=here.last, unclosed=None, closed=here)
    is_first = fold.next is None
    if is_first != (entry.kind == "join") or not is_first and entry.to <= fold.next:
        return None
    here = here._replace(next=entry.to)
    return fold._replace(end=here.end, last=here.last, next=entry.to, unclosed=None, closed=here)


def read_number(state, fold, mutation=None):
    """One more number read: the longer fold, "end" or "damage"."""
    entry = state.log[fold.end + 1] if fold.end + 1 < len(state.log) else None
    if (
        entry is None
        and mutation == "read at or below the snapshot"
        and fold.end < state.snapshot.end
    ):
        return begin(state.snapshot)  # files first, the snapshot only for the holes
    return (extend(fold, entry) or "damage") if entry else "end"


# ---- storage


def put(state, number, entry):
    """Exclusive creation takes effect. The first creation at a number is the true one."""
    history = state.history + (entry,) if number == len(state.history) else state.history
    return state._replace(
        log=state.log[:number] + (entry,) + state.log[number + 1 :], history=history
    )


def can_link(state, file):
    return (file, "source") in state.files and (file, "target") not in state.files


def unanswered(state, call):
    return state._replace(late=state.late | {call}, faults=state.faults - 1)


def late_effects(state):
    for call in state.late:
        rest = state._replace(late=state.late - {call})
        if call[0] == "append" and state.log[call[1]] is None:
            yield f"late: {show(call[2])} takes effect as {call[1]}", put(rest, *call[1:])
        if call[0] == "link" and can_link(state, call[1]):
            yield (
                f"late: the link of {show(call[1])} takes effect",
                rest._replace(files=state.files | {(call[1], "target")}),
            )


def outside(state, setting):
    """What happens to the lake and to the source without any process of the job."""
    first, end = state.source
    if end < setting.batches:
        yield f"the source gets offset {end}", state._replace(source=(first, end + 1))
    if state.drops and first < end:
        yield (
            f"the source drops offset {first}",
            state._replace(source=(first + 1, end), drops=state.drops - 1),
        )
    for file in pending(state) if state.losses else ():
        yield (
            f"{show(file)} is deleted",
            state._replace(
                files=state.files - {(file, "source")},
                lost=state.lost | {file},
                losses=state.losses - 1,
            ),
        )


def pending(state):
    """The file that the newest entry wants final, if it lies at its source only."""
    named = [entry.file for entry in state.history if entry.kind != "open"][-1:]
    return [file for file in named if file and can_link(state, file)]


def archiving(state, mutation):
    """Archivers, current or frozen long ago: any number that an archive holds, in any order, at any time."""
    if state.snapshot.end > state.archived:
        yield (
            f"archiver: packs up to {state.snapshot.end}",
            state._replace(archived=state.snapshot.end),
        )
    for number in range(state.archived + (mutation != WORDING[1])):
        if state.log[number] and may_go(state, number, mutation):
            yield (
                f"archiver: removes {number}, {show(state.log[number])}",
                state._replace(log=state.log[:number] + (None,) + state.log[number + 1 :]),
            )


def may_go(state, number, mutation):
    """An `open` is the number that the writer before it tries next: that one must look what it has done."""
    if state.history[number].kind != "open" or mutation == "remove what an earlier release may try":
        return True
    opens = [entry for entry in state.history[:number] if entry.kind == "open"]
    return bool(opens) and opens[-1].owner[0] != "O"


# ---- processes: each function yields (what happened, the state after, the process after)


def reading_steps(state, process, mutation):
    """Folding, for writers, helper and janitor: one number a step, then the look at the end or at what seems damage."""
    fold, step = process.fold, process.step
    if step == "off":
        start = EMPTY if mutation == "read at or below the snapshot" else state.snapshot
        yield f"begins with snapshot {start.end}", state, process.at("read", fold=begin(start))
    elif step == "read":
        result = read_number(state, fold, mutation)
        if isinstance(result, Fold):
            yield (
                f"reads {fold.end + 1}, {show(state.log[fold.end + 1])}",
                state,
                process.at("read", fold=result),
            )
        else:
            yield f"reads {fold.end + 1}: {result}", state, process.at(result)
    elif looks_again(state, process, mutation):
        yield (
            f"sees snapshot {state.snapshot.end}, starts again",
            state,
            process.at("off", fold=None),
        )
    elif step == "damage":
        yield "calls it damage and stops", state, process.at("damaged")
    elif process.name[0] == "J":
        seen = state.log[: fold.end + 1]  # everything listed, stray entries too
        opens = [entry.epoch for entry in seen if entry and entry.kind == "open"]
        epoch = max(opens) if mutation == "epoch from the highest open" else fold.epoch
        yield (
            f"takes {fold.end} as the end, {epoch} as the epoch",
            state,
            process.at("clean", job=epoch),
        )
    elif process.name[0] == "R":
        yield f"takes {fold.end} as the end", state, process.at("move" if fold.unclosed else "done")
    elif mutation == "recover before open" and fold.unclosed and process.job != "recovered":
        yield f"takes {fold.end} as the end", state, process.at("move", job="before open")
    elif mutation == "land again without an open" and process.name[0] == "L":
        yield f"takes {fold.end} as the end", state, process.at("move" if fold.unclosed else "done")
    else:
        yield f"takes {fold.end} as the end", state, opening(process, process.job == "recovered")


def looks_again(state, process, mutation):
    """Whether a snapshot tells that what was read may have been removed, or be stray, when it was read."""
    if mutation == "skip the look":
        return False
    if mutation == "read at or below the snapshot":
        return state.snapshot.end > process.fold.end
    if mutation in WORDING:  # a reader at the end; a writer only after its open
        return (
            process.step == "end"
            and process.name[0] not in WRITERS
            and state.snapshot.end > process.fold.end
        )
    return state.snapshot.end > process.fold.base


def opening(process, recovered):
    fold = process.fold
    entry = Entry("open", fold.epoch + 1, process.owner, None, fold.last)
    return process.at("append", job=(fold.end + 1, entry, recovered))


def append_steps(state, process, mutation):
    number, entry, _ = process.job
    if number < len(state.log) and state.log[number]:
        yield f"appends {number}, {show(entry)}: taken", state, process.at("settle")
    elif number < len(state.log):  # else: bound of the model
        yield f"appends {number}, {show(entry)}", put(state, number, entry), accepted(process)
        if state.faults:
            hasty = mutation == "move before prepare is settled" and entry.kind == "prepare"
            yield (
                f"appends {number}, {show(entry)}: no answer",
                unanswered(state, ("append", number, entry)),
                accepted(process) if hasty else process.at("settle"),
            )


def accepted(process):
    entry = process.job[1]
    fold = extend(process.fold, entry)
    if fold is None:
        return process.at("damaged")
    return process.at("opened" if entry.kind == "open" else "appended", fold=fold)


def appended_steps(state, process, mutation):
    """A number that was removed can be created again: who does so has lost the slice long ago."""
    number, entry, _ = process.job
    does_not_look = process.name[0] == "O" or mutation == "append without a look"
    if state.archived >= number and not does_not_look:
        yield (
            f"sees that {number} is archived",
            state,
            process.at("fenced", fold=None, job=None),
        )
    else:
        is_moving = entry.kind in ("prepare", "reland")
        yield "goes on", state, process.at("move" if is_moving else "own", job=None)


def settle_steps(state, process, mutation):
    """An unclear append is settled by reading the number."""
    number, entry, recovered = process.job
    found = state.log[number]
    if (
        mutation == "retry with other content"
        and entry.kind == "prepare"
        and entry.file.copy == 1
        and found in (None, entry)
    ):
        other = entry._replace(
            file=entry.file._replace(copy=2), before=found.checksum if found else entry.before
        )
        number += found is not None
        yield (
            f"tries other content as {number}",
            state._replace(files=state.files | {(other.file, "source")}),
            process.at("append", job=(number, other, False)),
        )
    elif found is None:
        yield f"reads {number}: nothing there, the same again", state, process.at("append")
    elif found == entry:
        yield f"reads {number}: its own", state, accepted(process)
    elif entry.kind == "open":
        yield (
            f"reads {number}, {show(found)}: folds again",
            state,
            process.at("off", fold=None, job="recovered" if recovered else None),
        )
    else:
        yield (
            f"reads {number}, {show(found)}",
            state,
            process.at("fenced" if found.epoch > entry.epoch else "damaged", fold=None, job=None),
        )


def opened_steps(state, process, mutation):
    number = process.job[0]
    if state.snapshot.end >= number and mutation != "skip the look":
        yield (
            f"sees snapshot {state.snapshot.end}: {number} had been removed",
            state,
            process.at("off", fold=None, job=None),
        )
    else:
        yield "owns the slice", state, opened_at(process, mutation)


def opened_at(process, mutation):
    """Where a writer goes on that owns the slice."""
    unclosed, recovered = process.fold.unclosed, process.job[2]
    if mutation == "give up without a look" and unclosed and process.name[0] == "A":
        return process.at("gone", job=None)
    if mutation == "skip before the moves":
        return process.at("own", job=None)
    return process.at("move" if unclosed and not recovered else "own", job=None)


def owning_steps(state, process, setting, mutation):
    fold, number = process.fold, process.fold.end + 1
    if process.name[0] in WRITERS:
        yield from reading_on_steps(state, process, setting, mutation)
    elif not fold.unclosed:
        yield "has done what it was called for", state, process.at("done", fold=None)
    if fold.unclosed and mutation != "skip before the moves":
        entry = Entry("commit", fold.epoch, process.owner, None, fold.last)
        yield "is idle", state, process.at("append", job=(number, entry, False))
    if setting.archive and fold.closed.end > fold.base:  # perhaps long after the slice was lost
        point = fold.closed
        newest = (
            point
            if mutation == "one snapshot name"
            else max(point, state.snapshot, key=lambda each: each.end)
        )
        yield (
            f"writes snapshot {point.end}",
            state._replace(snapshot=newest),
            process.at("own", fold=fold._replace(base=point.end)),
        )


def reading_on_steps(state, process, setting, mutation):
    """Take the shard up, skip what the source no longer has, or read the next offset and write its file."""
    fold, number, (first, end) = process.fold, process.fold.end + 1, state.source
    entry = Entry("prepare", fold.epoch, process.owner, None, fold.last)
    if fold.next is None and mutation == "resolve again at each start":
        yield (
            f"takes {end} for the latest offset",
            state,
            process.at("own", fold=fold._replace(next=end)),
        )
    elif fold.next is None:
        entry = entry._replace(kind="join", to=end)
        yield (
            f"takes {end} for the latest offset",
            state,
            process.at("append", job=(number, entry, False)),
        )
    elif fold.next < first and mutation != "go on over a gap":
        entry = entry._replace(kind="skip", to=first)
        yield (
            f"finds offset {fold.next} gone",
            state,
            process.at("append", job=(number, entry, False)),
        )
    elif max(fold.next, first) < end and not (
        fold.unclosed and mutation == "skip before the moves"
    ):
        file = File(max(fold.next, first), fold.epoch, process.owner)
        begun = file.offset if state.begun is None else min(file.offset, state.begun)
        yield (
            f"plans and writes {show(file)}",
            state._replace(
                files=state.files | {(file, "source")}, begun=begun if setting.latest else None
            ),
            process.at("append", job=(number, entry._replace(file=file), False)),
        )


def giving_up_steps(state, process, mutation):
    """What a person has decided on: accept the loss of the file, or read its offset again."""
    fold, number = process.fold, process.fold.end + 1
    entry = Entry("skip", fold.epoch, process.owner, fold.unclosed, fold.last)
    if process.name[0] == "A":
        yield (
            f"gives {show(fold.unclosed)} up",
            state,
            process.at("append", job=(number, entry, False)),
        )
    else:
        kind = "prepare" if mutation == "land again as a new batch" else "reland"
        file = File(fold.unclosed.offset, fold.epoch, process.owner)
        yield (
            f"reads again and writes {show(file)}",
            state._replace(files=state.files | {(file, "source")}),
            process.at("append", job=(number, entry._replace(kind=kind, file=file), False)),
        )


def moving_steps(state, process, mutation):
    """Link without overwrite, then unlink; on an error look at the source, then at the target."""
    file, step = process.fold.unclosed, process.step
    source, target = (file, "source"), (file, "target")
    target_first = mutation == "look at the target first"
    if step == "move" and can_link(state, file):
        yield (
            f"links {show(file)}",
            state._replace(files=state.files | {target}),
            process.at("unlink"),
        )
        if state.faults:
            yield (
                f"links {show(file)}: no answer",
                unanswered(state, ("link", file)),
                process.at("probe"),
            )
    elif step == "move":
        yield f"links {show(file)}: error", state, process.at("probe")
    elif step == "unlink":
        yield f"unlinks {show(file)}", state._replace(files=state.files - {source}), moved(process)
    elif step == "probe" and target_first:
        yield (
            f"looks at the target of {show(file)}",
            state,
            moved(process) if target in state.files else process.at("no target"),
        )
    elif step == "probe":
        yield (
            f"looks at the source of {show(file)}",
            state,
            process.at("source there" if source in state.files else "source gone"),
        )
    elif step == "no target":  # mutation only
        yield (
            f"looks at the source of {show(file)}",
            state,
            process.at("move") if source in state.files else gone(process),
        )
    elif target in state.files:
        yield f"finds {show(file)} already moved", state, moved(process)
    else:
        yield (
            f"finds no target of {show(file)}",
            state,
            process.at("move") if step == "source there" else gone(process),
        )


def moved(process):
    if process.job == "before open":  # mutation only
        return opening(process, True)
    return process.at("done", fold=None) if process.name[0] == "R" else process.at("own", job=None)


def gone(process):
    """The file is neither here nor there: a job stops; whoever is called for it goes on."""
    return process.at("gone" if process.name[0] in "AL" else "lost")


def cleaning_steps(state, process, mutation):
    """The janitor goes by what it read, however long ago that was."""
    fold, epoch = process.fold, process.job
    closed = fold.next - (fold.unclosed is not None and mutation != "clean what is landed again")
    for file in sorted(file for file, place in state.files if place == "source"):
        wrongly = (
            mutation == "clean the unclosed batch" and file == fold.unclosed and file.epoch == epoch
        )
        if wrongly or file != fold.unclosed and (file.epoch < epoch or file.offset < closed):
            yield (
                f"deletes {show(file)}",
                state._replace(files=state.files - {(file, "source")}),
                process,
            )


def process_steps(state, process, setting, mutation):
    step = process.step
    if step in ("off", "read", "end", "damage"):
        yield from reading_steps(state, process, mutation)
    elif step == "append":
        yield from append_steps(state, process, mutation)
    elif step == "settle":
        yield from settle_steps(state, process, mutation)
    elif step == "opened":
        yield from opened_steps(state, process, mutation)
    elif step == "appended":
        yield from appended_steps(state, process, mutation)
    elif step == "own":
        yield from owning_steps(state, process, setting, mutation)
    elif step == "clean":
        yield from cleaning_steps(state, process, mutation)
    elif step in ("move", "unlink", "probe", "source there", "source gone", "no target"):
        yield from moving_steps(state, process, mutation)
    elif step == "gone":
        yield from giving_up_steps(state, process, mutation)
    if (
        process.name[0] in WRITERS
        and process.life < setting.lives
        and step not in ("off", "fenced")
    ):
        yield "crashes", state, Process(process.name, life=process.life + 1)


def steps(state, setting, mutation):
    yield from late_effects(state)
    yield from outside(state, setting)
    if setting.archive:
        yield from archiving(state, mutation)
    for index, process in enumerate(state.processes):
        for label, after, changed in process_steps(state, process, setting, mutation):
            processes = state.processes[:index] + (changed,) + state.processes[index + 1 :]
            yield f"{process.name}: {label}", after._replace(processes=processes)


# ---- invariants


def violation(state, start=EMPTY):
    """What is wrong with the storage, or None. Includes a recovery by a fresh process that nothing disturbs (I5)."""
    final = {file for file, place in state.files if place == "target"}
    named = [entry.file for entry in state.history if entry.kind in ("prepare", "reland")]
    if len({file.offset for file in final}) < len(final):
        return "I1: an offset is in two final files"
    for file in sorted(final):
        if file not in named:
            return f"I3: {show(file)} is final and no prepare names it"
    for number, entry in enumerate(state.log):
        is_stray = entry and entry != state.history[number]
        if is_stray and entry.kind != "open" and number > state.archived:
            return f"I4: {show(entry)} was created again as {number}"
    for file in named:
        if (file, "source") not in state.files and file not in final and file not in state.lost:
            return f"I5: {show(file)} was prepared and is gone: offset {file.offset} is lost"
    wrong, truth, without = follow(state, start, final)
    if wrong:
        return wrong
    fresh = begin(state.snapshot)
    while isinstance(fresh, Fold):
        known, fresh = fresh, read_number(state, fresh)
    if fresh == "damage" or known[:5] != truth[:5]:
        return f"I5: recovery folds to {known.end}, next offset {known.next}; the truth is {truth.end}, {truth.next}"
    recovered = {file.offset for file in final} | without
    recovered |= {known.unclosed.offset} if known.unclosed else set()
    if recovered != set(range(known.next or 0)):
        return f"I5: recovery yields the offsets {sorted(recovered)} of {known.next}"
    return None


def follow(state, start, final):
    """Walk the true log: what is wrong with it, its fold, and the offsets that it does without on purpose."""
    truth, without = begin(start), set()
    for number, entry in enumerate(state.history):
        if entry.kind == "prepare" and truth.next not in (None, entry.file.offset):
            return (
                f"I1: offset {entry.file.offset} is prepared where {truth.next} is next",
                truth,
                without,
            )
        closed = truth.unclosed if entry.kind != "open" else None
        given_up = closed and entry.kind in ("skip", "reland") and entry.to is None
        if given_up and closed not in state.lost:
            return f"I5: {show(closed)} is given up and was not lost", truth, without
        if closed and not given_up and closed not in final:
            return (
                f"I5: {show(closed)} is closed and not final: offset {closed.offset} is lost",
                truth,
                without,
            )
        before, truth = truth, extend(truth, entry)
        if truth is None:
            return (
                f"I6: {number}, {show(entry)} does not follow the entry before it: the log never folds again",
                before,
                without,
            )
        if before.next is None and truth.next is not None:
            first = truth.next - (entry.kind == "prepare")
            without |= set(range(first))
            if state.begun is not None and state.begun < first:
                return (
                    f"I1: offset {state.begun} has been read, and the log begins at {first}",
                    truth,
                    without,
                )
        elif entry.kind == "skip":
            without |= set(range(before.next, truth.next)) if entry.to else {entry.file.offset}
    return None, truth, without


def show(thing):
    if isinstance(thing, File):
        return f"file {thing.offset} of {thing.owner}" + ("'" if thing.copy > 1 else "")
    if thing is None:
        return "missing: goes on from the snapshot"
    about = f", {show(thing.file)}" if thing.file else ""
    about += f", to {thing.to}" if thing.to is not None else ""
    return f"{thing.kind} by {thing.owner}, epoch {thing.epoch}{about}"


def explore(setting, mutation=None):
    """Visit every state; return what `search` returns."""
    start = NOT_JOINED if setting.latest else EMPTY
    first = Entry("open", 1, f"{setting.first}.1", None, None)
    owner = Process(setting.first, "own", 1, extend(begin(start), first))
    state = State(
        log=(first,) + (None,) * (setting.numbers - 1),
        history=(first,),
        snapshot=start,
        archived=-1,
        files=frozenset(),
        lost=frozenset(),
        begun=None,
        source=(0, 0 if setting.latest else setting.batches),
        late=frozenset(),
        faults=setting.faults,
        drops=setting.drops,
        losses=setting.losses,
        processes=(owner,) + tuple(Process(name) for name in setting.others),
    )
    verdicts = {}

    def find_wrong(state):
        storage = state[:7]
        if storage not in verdicts:
            verdicts[storage] = violation(state, start)
        return verdicts[storage] or stopped_without_damage(state, mutation)

    return search(state, lambda state: steps(state, setting, mutation), find_wrong)


def stopped_without_damage(state, mutation):
    """Say who stopped for a damaged log or lost files, where no storage was damaged."""
    if mutation == WORDING[2]:
        return None
    for process in state.processes:
        is_loss = process.step == "lost" and process.fold.unclosed in state.lost
        if process.step in ("damaged", "lost") and not is_loss:
            return f"I6: {process.name} stops, {process.step}, and no storage was damaged"
    return None


# ---- what is explored

LATE = Setting("two writers, archiver, an unanswered call", ("W1",), 3, 5, faults=1, archive=True)
RESTART = Setting("two writers that restart, an unanswered call", ("W1",), 2, 5, faults=1, lives=2)
THREE = Setting("three writers, archiver", ("W1", "W2"), 2, 4, archive=True)
UPGRADE = Setting(
    "a writer of an earlier release, two of this one, archiver",
    ("W1", "W2"),
    2,
    4,
    archive=True,
    first="O0",
)
CLEAN = Setting("two writers, archiver, janitor", ("W1", "J"), 2, 4, archive=True)
HELP = Setting("two writers, recovery helper, an unanswered call", ("W1", "R"), 2, 5, faults=1)
LATE_CLEAN = Setting("two writers, janitor, an unanswered call", ("W1", "J"), 2, 4, faults=1)
JOIN = Setting("two writers that restart, from the latest", ("W1",), 2, 5, lives=2, latest=True)
LATE_JOIN = Setting(
    "two writers, from the latest, an unanswered call", ("W1",), 2, 5, faults=1, latest=True
)
GAP = Setting("two writers, the source drops offsets", ("W1",), 3, 6, drops=2)
LATE_GAP = Setting(
    "two writers, the source drops an offset, an unanswered call", ("W1",), 2, 5, faults=1, drops=1
)
LOSS = Setting("a loss, one accepts it, one lands again", ("A", "L"), 2, 6, losses=1)
LATE_LOSS = Setting(
    "two losses, one accepts, one lands again, an unanswered call",
    ("A", "L"),
    1,
    6,
    faults=1,
    losses=2,
)
HELP_LOSS = Setting("a loss, one lands again, recovery helper", ("L", "R"), 2, 6, losses=1)
CLEAN_LOSS = Setting("a loss, one lands again, janitor", ("L", "J"), 2, 6, losses=1)
SETTINGS = (
    *(LATE, RESTART, THREE, UPGRADE, CLEAN, HELP, LATE_CLEAN),
    *(JOIN, LATE_JOIN, GAP, LATE_GAP, LOSS, LATE_LOSS, HELP_LOSS, CLEAN_LOSS),
)
MUTATIONS = (
    ("append without a look", LATE),
    ("remove what an earlier release may try", UPGRADE),
    ("skip the look", LATE),
    ("one snapshot name", LATE),
    ("retry with other content", RESTART),
    ("move before prepare is settled", RESTART),
    ("recover before open", RESTART),
    ("epoch from the highest open", CLEAN),
    ("clean the unclosed batch", CLEAN),
    ("read at or below the snapshot", CLEAN),
    *((wording, CLEAN) for wording in WORDING),
    ("resolve again at each start", JOIN),
    ("go on over a gap", GAP),
    ("skip before the moves", GAP),
    ("look at the target first", HELP),
    ("give up without a look", LOSS),
    ("land again without an open", LOSS),
    ("land again as a new batch", LOSS),
    ("clean what is landed again", CLEAN_LOSS),
)


def main():
    good = True
    for mutation, setting in [(None, setting) for setting in SETTINGS] + list(MUTATIONS):
        if sys.argv[1:] and mutation not in sys.argv[1:]:
            continue
        started = time.monotonic()
        states, wrong, trace = explore(setting, mutation)
        good &= (wrong is None) == (mutation is None)
        verdict = f"found: {wrong}" if wrong else "holds" if mutation is None else "NOT CAUGHT"
        took = time.monotonic() - started
        print(
            f"{mutation or 'protocol'} [{setting.name}] {states:,} states, {took:.1f} s: {verdict}",
            *trace,
            sep="\n    ",
            flush=True,
        )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
