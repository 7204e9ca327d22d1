"""A model of a streaming query between its checkpoint and the landing log.

What it promises: every interleaving within its bounds is visited; each mutation of the protocol has
a counterexample, and none is shorter.
What it must not know: files, tasks, Spark.

Two processes run one query, and a third rolls its table back to an earlier batch. Each takes an
attempt of its own for its checkpoint: a copy of the newest whole one, or that one itself where its
owner has left it in order and nobody came between. They crash, stop, stand still and wake at any
step, while somebody may bring an older copy of the checkpoint back, or an empty one, and may once
write another query: what it computes is another meaning of the same state. Two more may migrate the
query to that SQL and undo it: each writes an attempt that counts once an entry of the log names it.
In one setting another process lets the log begin after a batch of another query, whose savepoint it
has and whose table holds what came before. What appends to the log and who is fenced is the subject
of `landing_log.py`: here an append is one step, and it fails for a process that does not know the
log's end.

    python -m model.streaming_query           the protocol, then every mutation
"""

# A model is read beside its README; it prints what it finds, and its steps are one function.
# ruff: noqa: C901, D101, D103, INP001, PLR0912, PLR0915, RUF005, RUF007, UP045

import sys
from collections.abc import Iterator
from typing import NamedTuple, Optional

from model.search import Found, report, search

RECORDS = 3
BATCHES_MAX = 3
LIVES = {"W0": 2, "W1": 1}
BAD = -1  # a record that a run of a batch may fail at, where there is one
SWITCHES = ("migrate", "rollback")
BACK = "R"  # the process that rolls the table back; it has one life
NEW = "N"  # the process that lets the log begin with a savepoint, where there is one; as that
FORTH, UNDO = "M", "U"  # migrate the query to the other SQL, and undo it; one life each
MIGRATES = False  # whether they are there
BRINGS_BACK = True  # whether copies of the checkpoint are brought back

Range = tuple[int, int]
Lineage = tuple[Range, ...]  # the ranges of all batches up to one: what a hash chain stands for


class Checkpoint(NamedTuple):
    query: int
    ends: tuple[int, ...] = ()  # where the planned batches end
    done: int = 0  # how many of them are done
    states: tuple[tuple[int, ...], ...] = ()  # after each batch: the records that went into it
    migration: int = 0  # the epoch of the migration that has rewritten its state; 0: none


NOTHING = Checkpoint(query=0)
# Its records are in another table, and a migration that another log has has rewritten its state.
SAVED = Checkpoint(query=3, ends=(1,), done=1, states=((10,),), migration=9)
OLDER = Checkpoint(query=3)  # of the same query, before its first batch
OTHER = Checkpoint(query=3, ends=(2,), done=1, states=((10, 11),))  # cut in another way


class Attempt(NamedTuple):
    epoch: int  # of the process that made it; an attempt is listed once it is whole
    checkpoint: Checkpoint
    released_by: int = -1  # the last epoch that has left it in order
    is_migrated: bool = False  # it counts once an entry names it


class Entry(NamedTuple):
    kind: str  # open | plan | leave_out | begin | prepare | rollback | migrate
    epoch: int
    query: int = 0
    batch: int = -1  # of a rollback: the one that stays the last
    lineage: Lineage = ()
    rows: Range = (0, 0)  # of a prepare, those left out too: they are dead letters
    is_without: bool = False  # of a prepare: it left BAD out
    # Of a plan, a beginning, a migration and its undo: what is computed from here on. Of an open:
    # what its writer computes, with whose columns it defines the table.
    sql: int = 0
    attempt: int = -1  # of a migration and its undo: that the query goes on with
    migration: int = 0  # of these: of the state of that attempt


class Process(NamedTuple):
    name: str
    step: str = "off"
    lives: int = 0
    epoch: int = 0
    known: int = 0  # entries of the log that it knows
    batch: int = -1
    query: int = 0
    writes: bool = False
    is_without: bool = False  # it has left BAD out of the batch that it runs
    attempt: int = -1  # the epoch of its attempt; -1: it has none yet
    source: int = -1  # the attempt that it copies
    part: Checkpoint = NOTHING  # what it has copied so far
    sql: int = 0  # what it computes


class State(NamedTuple):
    attempts: tuple[Attempt, ...]  # by epoch
    copies: tuple[Checkpoint, ...]  # what may be brought back
    log: tuple[Entry, ...]
    processes: tuple[Process, ...]
    sql: int = 1  # what the job file says
    saved: Optional[Checkpoint] = None  # the savepoint of a migration


def start(*, is_saved: bool = False) -> State:
    empty = Checkpoint(query=1)
    copies = (empty, Checkpoint(query=2)) if BRINGS_BACK else ()
    lives = {**LIVES, FORTH: 1, UNDO: 1} if MIGRATES else {**LIVES, BACK: 1}
    if is_saved:
        copies, lives = (OLDER, OTHER), {"W0": 2, BACK: 1, NEW: 1}
    processes = tuple(Process(name, lives=each) for name, each in lives.items())
    return State((Attempt(0, empty, released_by=0),), copies, (), processes)


def attempt_of(state: State, epoch: int) -> Attempt:
    return next(attempt for attempt in state.attempts if attempt.epoch == epoch)


def newest_of(state: State, mutation: str = "") -> Attempt:
    """The attempt that a start takes: of migrated ones only what the log names, none before it."""
    named = [entry.attempt for entry in state.log if entry.attempt >= 0]
    first = named[-1] if named else 0
    counts_all = mutation == "count an attempt before its entry"
    return [
        each
        for each in state.attempts
        if each.epoch >= first and (counts_all or not each.is_migrated or each.epoch in named)
    ][-1]


def without_old_attempts(state: State) -> State:
    """Forget the attempts that nobody uses and nobody will copy: they were looked at once."""
    used = {number for each in state.processes for number in (each.attempt, each.source)}
    used.add(newest_of(state).epoch)
    return state._replace(
        attempts=tuple(attempt for attempt in state.attempts if attempt.epoch in used)
    )


def with_attempt(state: State, epoch: int, **changed: object) -> tuple[Attempt, ...]:
    return tuple(
        attempt._replace(**changed) if attempt.epoch == epoch else attempt
        for attempt in state.attempts
    )


def prepares(log: tuple[Entry, ...]) -> list[Entry]:
    """The batches that count: a rollback takes the later ones back."""
    found: list[Entry] = []
    for entry in log:
        if entry.kind == "prepare":
            found.append(entry)
        elif entry.kind == "rollback":
            del found[entry.batch + 1 - first_of(log) :]
    return found


def begin_of(log: tuple[Entry, ...]) -> Optional[Entry]:
    """What the log goes on from, where it does not begin with batch 0."""
    return next((entry for entry in log if entry.kind == "begin"), None)


def first_of(log: tuple[Entry, ...]) -> int:
    """The first batch that the log may have."""
    begun = begin_of(log)
    return begun.batch + 1 if begun else 0


def leaves_out(state: State, process: Process, batch: int, mutation: str) -> bool:
    """Whether a batch is run without BAD, as the log says."""
    log, known = state.log[: process.known], prepares(state.log[: process.known])
    if mutation == "forget what is landed" and batch < first_of(log) + len(known):
        return False
    is_left_out = False
    for place, entry in enumerate(log):
        if entry.kind == "leave_out":
            is_left_out = True
        elif entry.kind == "plan" and not any(each.is_without for each in prepares(log[:place])):
            is_left_out = False  # other SQL may compute it
    return is_left_out


def lineage_of(checkpoint: Checkpoint, batch: int) -> Lineage:
    ends = (0, *checkpoint.ends[: batch + 1])
    return tuple(zip(ends, ends[1:], strict=False))


def decide(state: State, process: Process, mutation: str) -> Optional[bool]:
    """Whether the rows of a planned batch are written; None: it is refused."""
    batch, checkpoint = process.batch, attempt_of(state, process.attempt).checkpoint
    landed, lineage = prepares(state.log[: process.known]), lineage_of(checkpoint, batch)
    if mutation == "write every batch":
        return True
    begun, first = begin_of(state.log[: process.known]), first_of(state.log[: process.known])
    known = (begun, *landed) if begun else landed
    if any(entry.query != checkpoint.query for entry in known):
        return True if mutation == "take any query" else None
    if batch < first:
        # The other table has it: nothing of it is here, and what it has seen cannot be compared.
        return True if mutation == "write what is before the beginning" else None
    following = first + len(landed)
    if mutation == "go by the number alone":
        return batch == following if batch <= following else None
    if batch < following:
        return False if landed[batch - first].lineage == lineage else None
    before = known[-1].lineage if known else ()
    if mutation == "begin without a lineage" and begun and not landed:
        before = lineage[:-1]
    return True if batch == following and lineage[:-1] == before else None


def moves(state: State, mutation: str) -> Iterator[tuple[str, State]]:
    for index, process in enumerate(state.processes):

        def with_process(changed: Process, index: int = index, **others: object) -> State:
            processes = state.processes[:index] + (changed,) + state.processes[index + 1 :]
            return state._replace(processes=processes, **others)

        if process.step not in {"off", "dead"} and process.lives > 1:
            crashed = Process(process.name, lives=process.lives - 1)
            yield f"{process.name} crashes", with_process(crashed)
        apart = {BACK: steps_back, NEW: steps_new, FORTH: steps_forth, UNDO: steps_undo}
        for reported, changed, others in apart.get(process.name, steps)(state, process, mutation):
            yield f"{process.name} {reported}", with_process(changed, **others)
    writers = [each for each in state.processes if each.name in LIVES]
    are_off = all(each.step == "off" for each in writers)
    if (are_off or MIGRATES) and state.sql == 1:  # a process has read it when it was opened
        yield "the SQL is changed", state._replace(sql=2, copies=state.copies if MIGRATES else ())
    if state.copies and are_off:
        newest = newest_of(state).epoch
        for copy in state.copies:
            restored = with_attempt(state, newest, checkpoint=copy)
            yield f"a copy is brought back: {copy}", state._replace(attempts=restored, copies=())


def steps(state: State, process: Process, mutation: str) -> Iterator[tuple[str, Process, dict]]:
    log, batch = state.log, process.batch
    match process.step:
        case "off" if process.lives:
            epoch = max((entry.epoch for entry in log), default=0) + 1
            known = len(log) + 1
            is_planned = state.sql == planned_in(log)
            step = "look" if is_planned else "compare"
            opened = process._replace(step=step, epoch=epoch, known=known, sql=state.sql)
            entry = Entry("open", epoch, sql=state.sql if is_planned else 0)
            yield "opens", opened, {"log": (*log, entry)}
            return
        case "compare":
            has_state = prepares(log) or begin_of(log)
            if planned_in(log) and has_state and mutation != "take any SQL":
                yield "refuses", process._replace(step="dead"), {}
            elif process.known != len(log):
                yield "is fenced", process._replace(step="dead"), {}
            else:
                entry = Entry("plan", process.epoch, sql=process.sql)
                planned = process._replace(step="look", known=len(log) + 1)
                yield "writes the plan down", planned, {"log": (*log, entry)}
            return
        case "look":
            newest = newest_of(state, mutation)
            is_other = newest.checkpoint.migration != migration_in(log[: process.known])
            if is_other and mutation != "take the state of any migration":
                yield "refuses", process._replace(step="dead"), {}
                return
            is_released = newest.released_by == process.epoch - 1
            if mutation == "take an attempt that was released once":
                is_released = newest.released_by > 0
            if is_released or mutation == "one attempt for all":
                yield "takes the attempt", process._replace(step="plan", attempt=newest.epoch), {}
                return
            part = newest.checkpoint._replace(states=())
            if mutation == "copy the state first":
                part = Checkpoint(newest.checkpoint.query, states=newest.checkpoint.states)
            looked = process._replace(step="copy", source=newest.epoch, part=part)
            yield "copies what is planned and done", looked, {}
            return
        case "copy":
            source = attempt_of(state, process.source).checkpoint
            if mutation == "copy the state first":
                copied = source._replace(states=process.part.states)
            else:
                copied = process.part._replace(states=source.states[: process.part.done])
            attempts = sorted((*state.attempts, Attempt(process.epoch, copied)))
            whole = process._replace(step="plan", attempt=process.epoch, source=-1, part=NOTHING)
            yield "copies the state", whole, {"attempts": tuple(attempts)}
            return
        case "off" | "dead":
            return
    checkpoint = attempt_of(state, process.attempt).checkpoint
    if any(
        each.attempt == process.attempt and each.epoch > process.epoch for each in state.processes
    ):
        # To a process that wakes up, files of another one in its attempt are litter.
        fewer = checkpoint._replace(states=checkpoint.states[:-1])
        yield (
            "tidies up",
            process,
            {"attempts": with_attempt(state, process.attempt, checkpoint=fewer)},
        )

    def keep(changed: Checkpoint) -> dict:
        return {"attempts": with_attempt(state, process.attempt, checkpoint=changed)}

    match process.step:
        case "plan":
            if len(checkpoint.ends) > checkpoint.done:
                yield "runs the planned batch", at(process, "decide", checkpoint.done), {}
            elif len(checkpoint.ends) < BATCHES_MAX:
                last = checkpoint.ends[-1] if checkpoint.ends else 0
                for end in range(last + 1, RECORDS + 1):
                    planned = checkpoint._replace(ends=(*checkpoint.ends, end))
                    chosen = at(process, "decide", checkpoint.done)
                    yield f"plans up to {end}", chosen, keep(planned)
            if process.lives > 1:
                stopped = Process(process.name, lives=process.lives - 1)
                left = with_attempt(state, process.attempt, released_by=process.epoch)
                yield "stops in order", stopped, {"attempts": left}
        case "decide":
            writes = decide(state, process, mutation)
            if writes is None or batch >= len(checkpoint.ends):
                yield "refuses", process._replace(step="dead"), {}
            else:
                skips = mutation == "skip replays" and not writes
                step = "done" if skips else "run"
                chosen = process._replace(step=step, writes=writes, query=checkpoint.query)
                yield "decides", chosen, {}
        case "run" if batch < len(checkpoint.ends) and batch <= len(checkpoint.states):
            begun = checkpoint.states[batch - 1] if batch else ()
            first = checkpoint.ends[batch - 1] if batch else 0
            read = range(first, checkpoint.ends[batch])
            is_without = BAD in read and leaves_out(state, process, batch, mutation)
            if BAD in read and process.writes and not is_without:
                if mutation == "leave out before the entry":
                    is_without = True
                elif process.known != len(log):
                    yield "finds a bad record, and is fenced", process._replace(step="dead"), {}
                else:
                    # From the start, in an attempt of its own: the next epoch.
                    entry = Entry("leave_out", process.epoch)
                    again = Process(process.name, lives=process.lives)
                    yield "finds a bad record", again, {"log": (*log, entry)}
            seen = (*begun, *(mark(n, process) for n in read if n != BAD or not is_without))
            kept = checkpoint.states[batch + 1 :]
            ran = checkpoint._replace(states=(*checkpoint.states[:batch], seen, *kept))
            early = mutation == "tell Spark first"
            step = "done" if early or not process.writes else "prepare"
            yield "computes", process._replace(step=step, is_without=is_without), keep(ran)
        case "run":
            yield "finds no state", process._replace(step="dead"), {}
        case "prepare" if process.known == len(log) and batch < len(checkpoint.ends):
            lineage = lineage_of(checkpoint, batch)
            prepared = (process.query, batch, lineage, lineage[-1], process.is_without, process.sql)
            entry = Entry("prepare", process.epoch, *prepared)
            step = "plan" if mutation == "tell Spark first" else "done"
            landed = process._replace(step=step, known=len(log) + 1)
            yield "prepares", landed, {"log": (*log, entry)}
        case "prepare":
            yield "is fenced", process._replace(step="dead"), {}
        case "done" if checkpoint.done == batch:
            finished = checkpoint._replace(done=batch + 1)
            waits = mutation == "tell Spark first" and process.writes
            step = "prepare" if waits else "plan"
            reported = keep(finished)
            if state.copies and len(state.copies) < 3:
                reported["copies"] = (*state.copies, finished)
            yield "tells Spark", process._replace(step=step), reported
        case "done":
            yield "finds it done", process._replace(step="plan"), {}


def steps_back(
    state: State, process: Process, mutation: str
) -> Iterator[tuple[str, Process, dict]]:
    """Roll checkpoint and table back: the attempt first, then the log."""
    log = state.log
    if process.step == "off" and process.lives:
        if len(prepares(log)) < 2:
            return
        epoch = max(entry.epoch for entry in log) + 1
        entries = {"log": (*log, Entry("open", epoch))}
        step = "append" if mutation == "roll the log back first" else "cut"
        known = len(log) + 1
        if mutation == "roll back without opening":
            epoch, entries, known = epoch - 1, {}, len(log)
        first = first_of(log)
        for batch in range(first, first + len(prepares(log)) - 1):
            opened = process._replace(step=step, epoch=epoch, known=known, lives=0, batch=batch)
            yield f"wants to roll back to batch {batch}", opened, entries
        return
    is_first = mutation == "roll the log back first"
    if process.step == "cut":
        newest = newest_of(state).checkpoint
        landed = prepares(log[: process.known])
        kept = process.batch + 1
        if newest.query != landed[0].query or newest.done < kept or len(newest.states) < kept:
            yield "refuses", process._replace(step="dead"), {}
            return
        ends, states = newest.ends[:kept], newest.states[:kept]
        kept_of = newest._replace(ends=ends, done=kept, states=states)
        cut = Attempt(process.epoch, kept_of, process.epoch)
        others = tuple(attempt for attempt in state.attempts if attempt.epoch != process.epoch)
        attempts = {"attempts": tuple(sorted((*others, cut)))}
        yield "cuts an attempt", process._replace(step="dead" if is_first else "append"), attempts
    elif process.step == "append":
        appends = process._replace(step="cut" if is_first else "dead")
        if process.known != len(log):
            yield "is fenced", process._replace(step="dead"), {}
            return
        entry = Entry("rollback", process.epoch, batch=process.batch)
        yield "rolls the table back", appends._replace(known=len(log) + 1), {"log": (*log, entry)}


def steps_new(state: State, process: Process, mutation: str) -> Iterator[tuple[str, Process, dict]]:
    """Let an empty log begin after the batch of a savepoint: the attempt first, then the log."""
    log = state.log
    if process.step == "off" and process.lives:
        if prepares(log) and mutation != "begin beside batches":
            return
        epoch = max((entry.epoch for entry in log), default=0) + 1
        opened = process._replace(step="attempt", epoch=epoch, known=len(log) + 1, lives=0)
        yield "wants to begin", opened, {"log": (*log, Entry("open", epoch))}
    elif process.step == "attempt":
        keeps = mutation == "keep the mark of the savepoint"
        taken = SAVED if keeps else SAVED._replace(migration=0)
        made = Attempt(process.epoch, taken, released_by=process.epoch)
        attempts = {"attempts": tuple(sorted((*state.attempts, made)))}
        yield "makes an attempt of the savepoint", process._replace(step="append"), attempts
    elif process.step == "append":
        if process.known != len(log):
            yield "is fenced", process._replace(step="dead"), {}
            return
        sql = 0 if mutation == "begin without a plan" else 1
        told = (SAVED.query, SAVED.done - 1, lineage_of(SAVED, 0))
        entry = Entry("begin", process.epoch, *told, sql=sql)
        yield "lets the log begin", process._replace(step="dead"), {"log": (*log, entry)}


def steps_forth(
    state: State, process: Process, mutation: str
) -> Iterator[tuple[str, Process, dict]]:
    """Migrate the query to the other SQL: the savepoint, the attempt, then the log."""
    log = state.log
    known = attempt_of(state, newest_of(state).epoch).checkpoint
    is_first = mutation == "migrate the log first"
    match process.step:
        case "off" if process.lives and planned_in(log) == 1 and prepares(log):
            epoch = max(entry.epoch for entry in log) + 1
            entries = {"log": (*log, Entry("open", epoch))}
            length = len(log) + 1
            opened = process._replace(step="save", epoch=epoch, known=length, lives=0)
            yield "wants to migrate", opened, entries
        case "save":
            # The last planned batch is done, and it is the table's last one.
            landed = prepares(log[: process.known])
            is_done = len(known.ends) == known.done == len(known.states) == len(landed)
            if mutation == "migrate before the last batch is done":
                is_done = known.done > 0
            if known.query != landed[0].query or not is_done:
                yield "refuses", process._replace(step="dead"), {}
                return
            saved = process._replace(step="append" if is_first else "write", part=known)
            yield "takes a savepoint", saved, {"saved": known}
        case "write":
            states = tuple(tuple(each % 10 + 20 for each in seen) for seen in process.part.states)
            written = process.part._replace(states=states, migration=process.epoch)
            made = Attempt(process.epoch, written, is_migrated=True)
            attempts = {"attempts": with_new(state, made)}
            if mutation == "release before the entry":  # it says so of the newest one
                known_of = newest_of(state).epoch
                left = state._replace(
                    attempts=with_attempt(state, known_of, released_by=made.epoch)
                )
                attempts = {"attempts": with_new(left, made)}
            step = "dead" if is_first else "append"
            yield "writes an attempt", process._replace(step=step, attempt=made.epoch), attempts
        case "append":
            if process.known != len(log):
                yield "is fenced", process._replace(step="dead", attempt=-1), {}
                return
            entry = Entry("migrate", process.epoch, sql=2, migration=process.epoch)
            batch = len(prepares(log))
            entry = entry._replace(attempt=process.epoch, batch=batch)
            step = "write" if is_first else "release"
            if is_first:
                entry = entry._replace(attempt=-1)
            yield "migrates", process._replace(step=step), {"log": (*log, entry)}
        case "release":
            left = with_attempt(state, process.epoch, released_by=process.epoch)
            yield "releases it", process._replace(step="dead", attempt=-1), {"attempts": left}


def steps_undo(
    state: State, process: Process, mutation: str
) -> Iterator[tuple[str, Process, dict]]:
    """Undo a migration: an attempt of the savepoint, then one entry for plan and table."""
    log, saved = state.log, state.saved
    if saved is None:
        return
    match process.step:
        case "off" if process.lives and migration_in(log):
            epoch = max(entry.epoch for entry in log) + 1
            opened = process._replace(step="write", epoch=epoch, known=len(log) + 1, lives=0)
            yield "wants to undo", opened, {"log": (*log, Entry("open", epoch))}
        case "write":
            made = Attempt(process.epoch, saved, is_migrated=True)
            written = process._replace(step="append", attempt=made.epoch)
            yield "writes an attempt", written, {"attempts": with_new(state, made)}
        case "append":
            if process.known != len(log):
                yield "is fenced", process._replace(step="dead", attempt=-1), {}
                return
            landed = prepares(log)
            entry = Entry("migrate", process.epoch, sql=1, migration=saved.migration)
            entry = entry._replace(attempt=process.epoch, batch=saved.done)
            if len(landed) > saved.done and mutation != "keep what was landed since":
                back = Entry("rollback", process.epoch, batch=saved.done - 1)
                if mutation == "undo in two entries":
                    rolled = process._replace(known=len(log) + 1)
                    yield "rolls the table back", rolled, {"log": (*log, back)}
                    return
                entry = entry._replace(kind="rollback", batch=saved.done - 1)
            yield "undoes", process._replace(step="release"), {"log": (*log, entry)}
        case "release":
            left = with_attempt(state, process.epoch, released_by=process.epoch)
            yield "releases it", process._replace(step="dead", attempt=-1), {"attempts": left}


def with_new(state: State, made: Attempt) -> tuple[Attempt, ...]:
    """The attempts with a new one."""
    others = tuple(attempt for attempt in state.attempts if attempt.epoch != made.epoch)
    return tuple(sorted((*others, made)))


def planned_in(log: tuple[Entry, ...]) -> int:
    """What the log says is computed; 0: nothing yet."""
    told = (each.sql for each in reversed(log) if each.kind in {"plan", "begin", *SWITCHES})
    return next(filter(None, told), 0)


def migration_in(log: tuple[Entry, ...]) -> int:
    """Of which migration the state is that the log wants; 0: of none."""
    migrations = (each for each in reversed(log) if each.sql and each.kind in SWITCHES)
    return next((entry.migration for entry in migrations), 0)


def columns_in(log: tuple[Entry, ...], mutation: str) -> int:
    """By which SQL the table is defined: the other one has a column more; 0: by none yet."""
    known = 0
    for each in log:
        if each.kind in {"open", "plan"}:
            known = each.sql or known
        elif each.kind in SWITCHES and each.sql == 1 and mutation != "keep the columns":
            known = 1
    return known


def starts(state: State, mutation: str) -> bool:
    """Whether a start goes on, of the SQL that the log wants."""
    log, checkpoint = state.log, newest_of(state, mutation).checkpoint
    landed = prepares(log)
    if columns_in(log, mutation) > planned_in(log):
        return False  # its rows would lack a column
    if not landed or checkpoint.query != landed[0].query:
        return not landed
    if checkpoint.migration != migration_in(log) or checkpoint.done > len(landed):
        return False
    behind = landed[checkpoint.done :]
    if any(entry.sql != planned_in(log) for entry in behind):
        return False  # they would run again with another result
    planned = lineage_of(checkpoint, len(checkpoint.ends) - 1) if checkpoint.ends else ()
    known = landed[-1].lineage
    return planned[: len(known)] == known[: len(planned)]


def mark(record: int, process: Process) -> int:
    """What a state keeps of a record: the record, and what was computed of it."""
    return record + 10 * process.sql


def at(process: Process, step: str, batch: int) -> Process:
    return process._replace(step=step, batch=batch)


def wrong_with(state: State, mutation: str = "") -> Optional[str]:
    """What is broken: rows twice, a hole, or a state that is not that of the rows."""
    begun, first = begin_of(state.log), first_of(state.log)
    elsewhere = list(range(begun.lineage[-1][1])) if begun else []  # in the other table
    here = [record for entry in prepares(state.log) for record in range(*entry.rows)]
    rows = elsewhere + here
    if len(set(rows)) < len(rows):
        return f"rows twice: {rows}"
    if rows != list(range(len(rows))):
        return f"rows are missing: {rows}"
    landed = prepares(state.log)
    back = max((entry.epoch for entry in state.log if entry.kind == "rollback"), default=0)
    is_idle = all(each.step in {"off", "dead", "plan"} for each in state.processes)
    for attempt in state.attempts:
        checkpoint = attempt.checkpoint
        for batch, seen in enumerate(checkpoint.states[: checkpoint.done]):
            records = tuple(each % 10 for each in seen)
            end = checkpoint.ends[batch]
            if records not in (tuple(range(end)), tuple(n for n in range(end) if n != BAD)):
                return f"the state after batch {batch} has seen {seen}"
            if len({each // 10 for each in seen}) > 1:
                return f"the state after batch {batch} means two things: {seen}"
        if checkpoint.done > len(checkpoint.states):
            return f"batch {checkpoint.done - 1} is done and has no state"
        known = (begun, *landed) if begun else landed
        owns = not known or known[0].query == checkpoint.query
        # It was made of a savepoint, and nobody has said so yet: it is refused.
        owns &= begun is not None or checkpoint.query != SAVED.query
        # An older attempt, which nobody takes any more, may have seen what was rolled back.
        owns &= attempt.epoch >= back or attempt == newest_of(state)
        if is_idle and owns and checkpoint.done > first + len(landed):
            return f"batch {checkpoint.done - 1} is done, and its rows are not in the table"
    if begun and newest_of(state, mutation).checkpoint.migration:
        return "no start takes the state: it has the mark of a migration of another log"
    if MIGRATES and landed:
        newest, plan = newest_of(state).checkpoint, planned_in(state.log)
        is_meant = newest.migration == migration_in(state.log)  # else a start refuses it
        meanings = {each // 10 for seen in newest.states[: newest.done] for each in seen}
        if is_meant and newest.query == landed[0].query and not meanings <= {plan}:
            return f"the state means {meanings}, the log says {plan}"
        if not BRINGS_BACK and not starts(state, mutation):
            return "neither the old job starts nor the new one"
    return wrong_without(state, landed) if BAD >= 0 and is_idle else None


def wrong_without(state: State, landed: list[Entry]) -> Optional[str]:
    """What is broken about BAD: it is in the state, or in the dead letters."""
    checkpoint = newest_of(state).checkpoint
    of_it = [place for place, entry in enumerate(landed) if BAD in range(*entry.rows)]
    if not of_it or checkpoint.done <= of_it[0] or checkpoint.done > len(landed):
        return None
    if landed[0].query != checkpoint.query:
        return None
    is_in_state = any(each % 10 == BAD for each in checkpoint.states[of_it[0]])
    if is_in_state == landed[of_it[0]].is_without:
        return "a record is in the state and in the dead letters, or in neither"
    return None


def explore(mutation: str = "", *, is_saved: bool = False) -> Found:
    def next_states(state: State) -> Iterator[tuple[str, State]]:
        return ((label, without_old_attempts(after)) for label, after in moves(state, mutation))

    first = start(is_saved=is_saved)
    return search(first, next_states, lambda state: wrong_with(state, mutation))


MUTATIONS = (
    "write every batch",
    "skip replays",
    "tell Spark first",
    "take any query",
    "go by the number alone",
    "one attempt for all",
    "take an attempt that was released once",
    "copy the state first",
    "roll the log back first",
    "roll back without opening",
    "take any SQL",
)
# With a record that a run may fail at.
MUTATIONS_OF_BAD = ("leave out before the entry", "forget what is landed")


def explore_bad(mutation: str = "") -> Found:
    """Explore with a record that a run may fail at, and one record less."""
    global BAD, RECORDS
    known = BAD, RECORDS
    BAD, RECORDS = 1, 2
    try:
        return explore(mutation)
    finally:
        BAD, RECORDS = known


MUTATIONS_OF_NEW = (
    "write what is before the beginning",
    "begin without a lineage",
    "begin without a plan",
    "begin beside batches",
    "keep the mark of the savepoint",
)


def explore_new(mutation: str = "") -> Found:
    """Explore with a process that lets the log begin with a savepoint."""
    return explore(mutation, is_saved=True)


# With a migration and its undo, and one record less.
MUTATIONS_OF_MIGRATION = (
    "count an attempt before its entry",
    "release before the entry",
    "migrate the log first",
    "migrate before the last batch is done",
    "keep what was landed since",
    "undo in two entries",
    "keep the columns",
)
# And with copies of the checkpoint that are brought back.
MUTATIONS_OF_COPIES = ("take the state of any migration",)


def explore_migration(mutation: str = "", *, brings_back: bool = False) -> Found:
    """Explore with a migration and its undo: the old job starts or the new one, at each step."""
    global BRINGS_BACK, LIVES, MIGRATES, RECORDS
    known = BRINGS_BACK, LIVES, MIGRATES, RECORDS
    lives = {"W0": 3} if brings_back else {"W0": 1, "W1": 1}
    BRINGS_BACK, LIVES, MIGRATES, RECORDS = brings_back, lives, True, 2
    try:
        return explore(mutation)
    finally:
        BRINGS_BACK, LIVES, MIGRATES, RECORDS = known


def explore_copies(mutation: str = "") -> Found:
    """Explore the same while older copies of the checkpoint may be brought back."""
    return explore_migration(mutation, brings_back=True)


def main() -> int:
    played = [(mutation, explore) for mutation in ("", *MUTATIONS)]
    played += [(mutation, explore_bad) for mutation in ("", *MUTATIONS_OF_BAD)]
    played += [(mutation, explore_new) for mutation in ("", *MUTATIONS_OF_NEW)]
    played += [(mutation, explore_migration) for mutation in ("", *MUTATIONS_OF_MIGRATION)]
    played += [(mutation, explore_copies) for mutation in MUTATIONS_OF_COPIES]
    return report((mutation, run(mutation)) for mutation, run in played)


if __name__ == "__main__":
    sys.exit(main())
