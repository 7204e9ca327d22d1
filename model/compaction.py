"""A model of compaction: a table's small files are replaced by one, and the log knows it.

What it promises: every interleaving within its bounds is visited; each mutation of the protocol has
a counterexample, and none is shorter.
What it must not know: what a file holds beside its rows, why files are compacted.

One slice, one table in a table format, whose newest version names two files of the log. A process
takes the slice over, writes a file with the rows of both, and appends a `compact` that names all
three and the version to come. Then come its effects, each a step: the new file gets its final name,
the table is loaded, the commit is sent. The next entry closes it, as done or as abandoned.
Processes stand still and wake at any step; others take the slice over. A commit may go unanswered
and arrive later. Another writer removes a file with its rows, and adds one. Once, somebody deletes
the new file before it has its final name. A batch lands in one step: see `landing_log.py`.

Not modelled: an operator who sets the table back to an earlier version between an abandonment and a
commit that arrives late after it.

It knows nothing of the package.

    python -m model.compaction               the protocol, then every mutation
"""

# A model is read beside its README; it prints what it finds.
# ruff: noqa: D101, D103, INP001, RUF005, UP045

import sys
from collections.abc import Iterator
from typing import NamedTuple, Optional

from model.search import Found, report, search

PROCESSES = 2  # to stand still for ever is to crash
BASE = ("a", "b")  # files of one row each; a file's rows are its letters
FOREIGN, LATER = "x", "c"
Files = frozenset[str]
NOTHING: Files = frozenset()


class Entry(NamedTuple):
    kind: str  # open | prepare | compact | done | abandoned
    epoch: int
    file: str = ""  # of a prepare, or the new one of a compact
    base: Files = NOTHING  # that a compact replaces


Log = tuple[Entry, ...]


class Version(NamedTuple):
    id: str  # of the commit: drawn before
    files: Files


class Commit(NamedTuple):
    """A request to a catalog: it takes effect on top of one version only."""

    on: int
    version: Version


class Process(NamedTuple):
    name: str
    step: str = "off"
    epoch: int = 0
    known: int = 0  # entries that it knows
    loaded: int = -1  # the version that it has loaded


class State(NamedTuple):
    log: Log
    table: tuple[Version, ...]  # the newest is what readers see
    staged: Files  # new files without their final names
    final: Files
    removed: Files  # rows that the other writer has removed
    late: frozenset[Commit]
    faults: int  # commits that may go unanswered
    losses: int  # staged files that somebody may delete
    others: tuple[str, ...]  # what the other writer may still do
    processes: tuple[Process, ...]


def start() -> State:
    log = (Entry("open", 1), *(Entry("prepare", 1, each) for each in BASE))
    files = frozenset(BASE)
    processes = tuple(Process(f"W{number}") for number in range(PROCESSES))
    first = (Version("first", files),)
    others = ("removes", "adds")
    return State(log, first, NOTHING, files, NOTHING, frozenset(), 1, 1, others, processes)


# ---- what a log says


def listed(log: Log, mutation: str) -> Files:
    """Files that readers should see, but for what another writer has removed."""
    found = {entry.file for entry in log if entry.kind == "prepare"}
    for number, entry in enumerate(log):
        closed = closing_of(log, number)
        if entry.kind == "compact" and (closed == "done" or mutation == COUNT_AT_ONCE):
            found = (found - entry.base) | {entry.file}
    return frozenset(found)


def closing_of(log: Log, number: int) -> str:
    kinds = (entry.kind for entry in log[number + 1 :] if entry.kind != "open")
    return next(kinds, "")


def unclosed(log: Log) -> Optional[Entry]:
    last = next((entry for entry in reversed(log) if entry.kind != "open"), None)
    return last if last and last.kind == "compact" else None


def rows_of(files: Files) -> list[str]:
    return sorted(row for each in files for row in each.partition("-")[0])


# ---- steps


def moves(state: State, mutation: str) -> Iterator[tuple[str, State]]:
    head = state.table[-1].files
    for kind in state.others:
        left = tuple(each for each in state.others if each != kind)
        if kind == "adds":
            yield "another adds x", add(state, "x", head | {FOREIGN})._replace(others=left)
            continue
        for file in sorted(head - {FOREIGN}):
            gone = state.removed | {*file.partition("-")[0]}
            changed = add(state, f"no {file}", head - {file})
            yield f"another removes {file}", changed._replace(others=left, removed=gone)
    for file in sorted(state.staged) if state.losses else ():
        left_files = state.staged - {file}
        yield f"{file} is deleted", state._replace(staged=left_files, losses=state.losses - 1)
    for commit in sorted(state.late):
        rest = state._replace(late=state.late - {commit})
        yield f"late: {commit.version.id}", apply(rest, commit, mutation) or rest
    for index, process in enumerate(state.processes):
        for reported, changed, after in steps(state, process, mutation):
            processes = state.processes[:index] + (changed,) + state.processes[index + 1 :]
            yield f"{process.name} {reported}", after._replace(processes=processes)


def add(state: State, name: str, files: Files) -> State:
    return state._replace(table=state.table + (Version(name, files),))


def apply(state: State, commit: Commit, mutation: str) -> Optional[State]:
    """The table after a commit; None: it is refused."""
    if commit.on != len(state.table) - 1 and mutation != ANY_VERSION:
        return None
    return state._replace(table=state.table + (commit.version,))


def append(state: State, process: Process, entry: Entry, step: str) -> tuple[str, Process, State]:
    if process.known != len(state.log):
        return f"appends {entry.kind}: is fenced", process._replace(step="dead"), state
    after = process._replace(step=step, known=len(state.log) + 1, loaded=-1)
    return f"appends {entry.kind}", after, state._replace(log=state.log + (entry,))


def steps(state: State, process: Process, mutation: str) -> Iterator[tuple[str, Process, State]]:
    match process.step:
        case "off":
            epoch = max(entry.epoch for entry in state.log) + 1
            opened = process._replace(epoch=epoch, known=len(state.log))
            yield append(state, opened, Entry("open", epoch), "open")
        case "open":
            known = state.log[: process.known]
            yield "folds", process._replace(step="move" if unclosed(known) else "own"), state
        case "own":
            yield from owning(state, process, mutation)
        case "write" | "early":
            yield writing(state, process)
        case "move":
            yield moving(state, process, mutation)
        case "load":
            yield loading(state, process, mutation)
        case "commit":
            yield from committing(state, process, mutation)
        case "done" | "abandoned":
            yield append(state, process, Entry(process.step, process.epoch), "own")


def owning(state: State, process: Process, mutation: str) -> Iterator[tuple[str, Process, State]]:
    known = state.log[: process.known]
    if not any(entry.file == LATER for entry in state.log):
        reported, after, landed = append(state, process, Entry("prepare", 1, LATER), "own")
        if landed is not state:
            landed = add(landed, LATER, landed.table[-1].files | {LATER})
            landed = landed._replace(final=landed.final | {LATER})
        yield f"lands c: {reported}", after, landed
    if any(entry.kind == "compact" for entry in known):
        return
    base = state.table[-1].files & listed(known, mutation)
    if len(base) > 1:
        file = new_file(process, base)
        written = state._replace(staged=state.staged | {file})
        step = "early" if mutation == COMMIT_FIRST else "write"
        yield f"writes {file}", process._replace(step=step, loaded=len(state.table) - 1), written


def new_file(process: Process, base: Files) -> str:
    """The name of a new file: its rows, and the epoch of its writer."""
    return f"{''.join(rows_of(base))}-{process.epoch}"


def writing(state: State, process: Process) -> tuple[str, Process, State]:
    """The entry; first the commit, where a mutation says so."""
    base = state.table[process.loaded].files & listed(state.log[: process.known], "")
    file = new_file(process, base)
    if process.step == "early":
        files = (state.table[process.loaded].files - base) | {file}
        after = apply(state, Commit(process.loaded, Version(file, files)), "")
        if after is None or file not in state.staged:
            return "commits: refused", process._replace(step="dead"), state
        after = after._replace(staged=after.staged - {file}, final=after.final | {file})
        return "commits", process._replace(step="write"), after
    return append(state, process, Entry("compact", process.epoch, file, base), "move")


def moving(state: State, process: Process, mutation: str) -> tuple[str, Process, State]:
    entry = unclosed(state.log[: process.known])
    assert entry is not None
    if entry.file in state.final:
        return "finds the new file", process._replace(step="load"), state
    if mutation == COMMIT_BEFORE_MOVE:
        return "does not move", process._replace(step="load"), state
    if entry.file not in state.staged:
        return "finds no new file", process._replace(step="abandoned"), state
    moved = state._replace(staged=state.staged - {entry.file}, final=state.final | {entry.file})
    return "moves the new file", process._replace(step="load"), moved


def loading(state: State, process: Process, mutation: str) -> tuple[str, Process, State]:
    entry = unclosed(state.log[: process.known])
    assert entry is not None
    loaded = process._replace(loaded=len(state.table) - 1)
    is_there = any(each.id == entry.file for each in state.table)
    if is_there and mutation != NEW_ID:
        return "sees its version", loaded._replace(step="done"), state
    if not entry.base <= state.table[-1].files and mutation != FORCE:
        return "sees another base", loaded._replace(step="abandoned"), state
    return "loads the table", loaded._replace(step="commit"), state


def committing(
    state: State, process: Process, mutation: str
) -> Iterator[tuple[str, Process, State]]:
    entry = unclosed(state.log[: process.known])
    assert entry is not None
    files = (state.table[process.loaded].files - entry.base) | {entry.file}
    commit = Commit(process.loaded, Version(entry.file, files))
    done = apply(state, commit, mutation)
    if done is None:
        yield "commits: refused", process._replace(step="load"), state
    else:
        yield "commits", process._replace(step="done"), done
    if state.faults:
        step = {FAILED_IS_DONE: "done", FAILED_IS_ABANDONED: "abandoned"}.get(mutation, "load")
        left = state._replace(faults=state.faults - 1)
        unknown = process._replace(step=step)
        yield "commits: no answer", unknown, left._replace(late=state.late | {commit})
        if done is not None:
            applied = done._replace(faults=state.faults - 1)
            yield "commits: the answer is lost", unknown, applied


# ---- invariants


def wrong_with(state: State, mutation: str) -> Optional[str]:
    """What is broken about what readers see, or about what the log says of it."""
    head = state.table[-1].files
    rows = rows_of(head)
    if len(set(rows)) < len(rows):
        return f"C1: rows twice: {rows}"
    if state.removed & {*rows}:
        return f"C1: removed rows are back: {rows}"
    expected = {row for entry in state.log for row in entry.file if entry.kind == "prepare"}
    if expected - state.removed - {*rows}:
        return f"C1: rows are lost: {rows}"
    if not head - {FOREIGN} <= state.final:
        return f"C2: readers are sent to files that are not there: {sorted(head - state.final)}"
    if unclosed(state.log):
        return None
    missing = {
        each
        for each in listed(state.log, mutation) - head
        if not {*rows_of({each})} & state.removed
    }
    strange = head - {FOREIGN} - listed(state.log, mutation)
    if missing or strange:
        return f"C3: the log has {sorted(missing)}, readers see {sorted(strange)}"
    return None


def explore(mutation: str = "") -> Found:
    return search(
        start(), lambda state: moves(state, mutation), lambda state: wrong_with(state, mutation)
    )


COMMIT_FIRST = "commit before the entry"
COMMIT_BEFORE_MOVE = "commit before the move"
FORCE = "commit on another base"
ANY_VERSION = "commit on any version"
FAILED_IS_DONE = "an unanswered commit is done"
FAILED_IS_ABANDONED = "an unanswered commit is abandoned"
NEW_ID = "a new id for each try"
COUNT_AT_ONCE = "count before the entry is closed"
MUTATIONS = (
    *(COMMIT_FIRST, COMMIT_BEFORE_MOVE, FORCE, ANY_VERSION),
    *(FAILED_IS_DONE, FAILED_IS_ABANDONED, NEW_ID, COUNT_AT_ONCE),
)


def main() -> int:
    return report([("", explore()), *((each, explore(each)) for each in MUTATIONS)])


if __name__ == "__main__":
    sys.exit(main())
