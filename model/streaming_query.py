"""A model of a streaming query between its checkpoint and the landing log.

What it promises: every interleaving within its bounds is visited; each mutation of the protocol has
a counterexample, and none is shorter.
What it must not know: files, tasks, Spark.

Two processes run one query, and a third rolls its table back to an earlier batch. Each takes an
attempt of its own for its checkpoint: a copy of the newest whole one, or that one itself where its
owner has left it in order and nobody came between. They crash, stop, stand still and wake at any
step, while somebody may bring an older copy of the checkpoint back, or an empty one, and may once
write another query: what it computes is another meaning of the same state. What appends to the log
and who is fenced is the subject of `landing_log.py`: here an append is one step, and it fails for a
process that does not know the log's end.

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
BACK = "R"  # the process that rolls the table back; it has one life

Range = tuple[int, int]
Lineage = tuple[Range, ...]  # the ranges of all batches up to one: what a hash chain stands for


class Checkpoint(NamedTuple):
    query: int
    ends: tuple[int, ...] = ()  # where the planned batches end
    done: int = 0  # how many of them are done
    states: tuple[tuple[int, ...], ...] = ()  # after each batch: the records that went into it


NOTHING = Checkpoint(query=0)


class Attempt(NamedTuple):
    epoch: int  # of the process that made it; an attempt is listed once it is whole
    checkpoint: Checkpoint
    released_by: int = -1  # the last epoch that has left it in order


class Entry(NamedTuple):
    kind: str  # open | plan | leave_out | prepare | rewind
    epoch: int
    query: int = 0
    batch: int = -1  # of a rollback: the one that stays the last
    lineage: Lineage = ()
    rows: Range = (0, 0)  # of a prepare, those left out too: they are dead letters
    is_without: bool = False  # of a prepare: it left BAD out
    sql: int = 0  # of a plan: what is computed from here on


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


def start() -> State:
    empty = Checkpoint(query=1)
    copies = (empty, Checkpoint(query=2))
    processes = tuple(Process(name, lives=lives) for name, lives in {**LIVES, BACK: 1}.items())
    return State((Attempt(0, empty, released_by=0),), copies, (), processes)


def attempt_of(state: State, epoch: int) -> Attempt:
    return next(attempt for attempt in state.attempts if attempt.epoch == epoch)


def without_old_attempts(state: State) -> State:
    """Forget the attempts that nobody uses and nobody will copy: they were looked at once."""
    used = {number for each in state.processes for number in (each.attempt, each.source)}
    used.add(state.attempts[-1].epoch)
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
        elif entry.kind == "rewind":
            del found[entry.batch + 1 :]
    return found


def leaves_out(state: State, process: Process, batch: int, mutation: str) -> bool:
    """Whether a batch is run without BAD, as the log says."""
    log, known = state.log[: process.known], prepares(state.log[: process.known])
    if mutation == "forget what is landed" and batch < len(known):
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
    if any(entry.query != checkpoint.query for entry in landed):
        return True if mutation == "take any query" else None
    if mutation == "go by the number alone":
        return batch == len(landed) if batch <= len(landed) else None
    if batch < len(landed):
        return False if landed[batch].lineage == lineage else None
    follows = batch == len(landed) and lineage[:-1] == (landed[-1].lineage if landed else ())
    return True if follows else None


def moves(state: State, mutation: str) -> Iterator[tuple[str, State]]:
    for index, process in enumerate(state.processes):

        def with_process(changed: Process, index: int = index, **others: object) -> State:
            processes = state.processes[:index] + (changed,) + state.processes[index + 1 :]
            return state._replace(processes=processes, **others)

        if process.step not in {"off", "dead"} and process.lives > 1:
            crashed = Process(process.name, lives=process.lives - 1)
            yield f"{process.name} crashes", with_process(crashed)
        chosen = steps_back if process.name == BACK else steps
        for reported, changed, others in chosen(state, process, mutation):
            yield f"{process.name} {reported}", with_process(changed, **others)
    writers = [each for each in state.processes if each.name != BACK]
    are_off = all(each.step == "off" for each in writers)
    if are_off and state.sql == 1:
        yield "the SQL is changed", state._replace(sql=2, copies=())
    if state.copies and are_off:
        newest = state.attempts[-1].epoch
        for copy in state.copies:
            restored = with_attempt(state, newest, checkpoint=copy)
            yield f"a copy is brought back: {copy}", state._replace(attempts=restored, copies=())


def steps(state: State, process: Process, mutation: str) -> Iterator[tuple[str, Process, dict]]:
    log, batch = state.log, process.batch
    match process.step:
        case "off" if process.lives:
            epoch = max((entry.epoch for entry in log), default=0) + 1
            known = len(log) + 1
            step = "look" if state.sql == planned_in(log) else "compare"
            opened = process._replace(step=step, epoch=epoch, known=known, sql=state.sql)
            yield "opens", opened, {"log": (*log, Entry("open", epoch))}
            return
        case "compare":
            if planned_in(log) and prepares(log) and mutation != "take any SQL":
                yield "refuses", process._replace(step="dead"), {}
            elif process.known != len(log):
                yield "is fenced", process._replace(step="dead"), {}
            else:
                entry = Entry("plan", process.epoch, sql=process.sql)
                planned = process._replace(step="look", known=len(log) + 1)
                yield "writes the plan down", planned, {"log": (*log, entry)}
            return
        case "look":
            newest = state.attempts[-1]
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
            prepared = (process.query, batch, lineage, lineage[-1], process.is_without)
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
        for batch in range(len(prepares(log)) - 1):
            opened = process._replace(step=step, epoch=epoch, known=known, lives=0, batch=batch)
            yield f"wants to roll back to batch {batch}", opened, entries
        return
    is_first = mutation == "roll the log back first"
    if process.step == "cut":
        newest = state.attempts[-1].checkpoint
        landed = prepares(log[: process.known])
        kept = process.batch + 1
        if newest.query != landed[0].query or newest.done < kept or len(newest.states) < kept:
            yield "refuses", process._replace(step="dead"), {}
            return
        ends, states = newest.ends[:kept], newest.states[:kept]
        cut = Attempt(process.epoch, Checkpoint(newest.query, ends, kept, states), process.epoch)
        others = tuple(attempt for attempt in state.attempts if attempt.epoch != process.epoch)
        attempts = {"attempts": tuple(sorted((*others, cut)))}
        yield "cuts an attempt", process._replace(step="dead" if is_first else "append"), attempts
    elif process.step == "append":
        appends = process._replace(step="cut" if is_first else "dead")
        if process.known != len(log):
            yield "is fenced", process._replace(step="dead"), {}
            return
        entry = Entry("rewind", process.epoch, batch=process.batch)
        yield "rolls the table back", appends._replace(known=len(log) + 1), {"log": (*log, entry)}


def planned_in(log: tuple[Entry, ...]) -> int:
    """What the log says is computed; 0: nothing yet."""
    return next((entry.sql for entry in reversed(log) if entry.kind == "plan"), 0)


def mark(record: int, process: Process) -> int:
    """What a state keeps of a record: the record, and what was computed of it."""
    return record + 10 * process.sql


def at(process: Process, step: str, batch: int) -> Process:
    return process._replace(step=step, batch=batch)


def wrong_with(state: State) -> Optional[str]:
    """What is broken: rows twice, a hole, or a state that is not that of the rows."""
    rows = [record for entry in prepares(state.log) for record in range(*entry.rows)]
    if len(set(rows)) < len(rows):
        return f"rows twice: {rows}"
    if rows != list(range(len(rows))):
        return f"rows are missing: {rows}"
    landed = prepares(state.log)
    back = max((entry.epoch for entry in state.log if entry.kind == "rewind"), default=0)
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
        owns = not landed or landed[0].query == checkpoint.query
        # An older attempt, which nobody takes any more, may have seen what was rolled back.
        owns &= attempt.epoch >= back or attempt == state.attempts[-1]
        if is_idle and owns and checkpoint.done > len(landed):
            return f"batch {checkpoint.done - 1} is done, and its rows are not in the table"
    return wrong_without(state, landed) if BAD >= 0 and is_idle else None


def wrong_without(state: State, landed: list[Entry]) -> Optional[str]:
    """What is broken about BAD: it is in the state, or in the dead letters."""
    checkpoint = state.attempts[-1].checkpoint
    of_it = [place for place, entry in enumerate(landed) if BAD in range(*entry.rows)]
    if not of_it or checkpoint.done <= of_it[0] or checkpoint.done > len(landed):
        return None
    if landed[0].query != checkpoint.query:
        return None
    is_in_state = any(each % 10 == BAD for each in checkpoint.states[of_it[0]])
    if is_in_state == landed[of_it[0]].is_without:
        return "a record is in the state and in the dead letters, or in neither"
    return None


def explore(mutation: str = "") -> Found:
    def next_states(state: State) -> Iterator[tuple[str, State]]:
        return ((label, without_old_attempts(after)) for label, after in moves(state, mutation))

    return search(start(), next_states, wrong_with)


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


def main() -> int:
    played = [(mutation, explore) for mutation in ("", *MUTATIONS)]
    played += [(mutation, explore_bad) for mutation in ("", *MUTATIONS_OF_BAD)]
    return report((mutation, run(mutation)) for mutation, run in played)


if __name__ == "__main__":
    sys.exit(main())
