"""A model of retention: a job drops a partition that is old, and may die or stand still meanwhile.

What it promises: every interleaving within its bounds is visited; each mutation of the protocol has
a counterexample, and none is shorter.
What it must not know: how old is old, what a file holds.

One slice, one partition. Its owner lands files there until the log says that the partition is old
(an entry `later`: from then on no batch files anything there). Then it looks at the directory, and
retires: the entry, the catalog, the files, each a step. Processes stand still and wake at any step,
or never; others take the slice over. Once, somebody deletes the partition's files by hand. Landing
is the subject of `landing_log.py`: here a batch lands, and is registered, in one step.

In the setting `MANUAL` a person retires, whether the partition is old or not, and files may come to
it afterwards: then a process that wakes up may hide them from the catalog, and nothing else.

It knows nothing of the package.

    python -m model.retention                the protocol, then every mutation
"""

# A model is read beside its README; it prints what it finds.
# ruff: noqa: D101, D103, INP001, RUF005, UP045

import sys
from collections.abc import Iterator
from typing import NamedTuple, Optional

from model.search import Found, report, search

PROCESSES = 2  # to stand still for ever is to crash
FILES_MAX = 2
Files = frozenset[int]
NOTHING: Files = frozenset()
RETIRING = ("forget first", "say", "forget", "delete")  # steps: nobody deletes by hand meanwhile


class Entry(NamedTuple):
    kind: str  # open | prepare | later | retire
    epoch: int
    file: int = -1  # of a prepare


Log = tuple[Entry, ...]


class Process(NamedTuple):
    name: str
    step: str = "off"
    epoch: int = 0
    known: int = 0  # entries that it knows
    seen: Files = NOTHING  # files that its look has shown, and that it is to delete


class State(NamedTuple):
    log: Log
    there: Files  # files that readers see
    deleted: Files  # by processes
    is_listed: bool  # whether the catalog lists the partition
    by_hand: bool  # whether somebody may still delete the files
    processes: tuple[Process, ...]


def start() -> State:
    processes = tuple(Process(f"W{number}") for number in range(PROCESSES))
    return State((), NOTHING, NOTHING, False, True, processes)


# ---- what a log says


def is_old(log: Log) -> bool:
    return any(entry.kind == "later" for entry in log)


def listed(log: Log) -> Files:
    """Files that no `retire` after them has named."""
    found: set[int] = set()
    for entry in log:
        if entry.kind == "prepare":
            found.add(entry.file)
        elif entry.kind == "retire":
            found.clear()
    return frozenset(found)


# ---- steps


def moves(state: State, mutation: str, manual: bool) -> Iterator[tuple[str, State]]:
    is_retiring = any(process.step in RETIRING for process in state.processes)
    if state.by_hand and state.there and not is_retiring:
        yield "somebody deletes the files", state._replace(there=NOTHING, by_hand=False)
    for index, process in enumerate(state.processes):
        for reported, changed, others in steps(state, process, mutation, manual):
            processes = state.processes[:index] + (changed,) + state.processes[index + 1 :]
            yield f"{process.name} {reported}", state._replace(processes=processes, **others)


def steps(
    state: State, process: Process, mutation: str, manual: bool
) -> Iterator[tuple[str, Process, dict]]:
    match process.step:
        case "off":
            opened = process._replace(epoch=last_epoch(state.log) + 1, known=len(state.log))
            yield append(state, opened, "open", "own")
        case "own" | "idle":
            yield from owning(state, process, mutation, manual)
        case "forget first":
            yield "lets the catalog forget", process._replace(step="say"), {"is_listed": False}
        case "say":
            yield append(state, process, "retire", after_entry(process, mutation))
        case "forget":
            after = process._replace(step="own" if mutation == CATALOG_LAST else "delete")
            yield "lets the catalog forget", after, {"is_listed": False}
        case "delete":
            yield delete(state, process, mutation)


def last_epoch(log: Log) -> int:
    return max((entry.epoch for entry in log), default=0)


def append(
    state: State, process: Process, kind: str, step: str, file: int = -1
) -> tuple[str, Process, dict]:
    if process.known != len(state.log):
        return f"appends {kind}: is fenced", process._replace(step="dead", seen=NOTHING), {}
    entry = Entry(kind, process.epoch, file)
    after = process._replace(step=step, known=len(state.log) + 1)
    return f"appends {kind}", after, {"log": state.log + (entry,)}


def owning(
    state: State, process: Process, mutation: str, manual: bool
) -> Iterator[tuple[str, Process, dict]]:
    known = state.log[: process.known]
    count = sum(entry.kind == "prepare" for entry in state.log)
    if count < FILES_MAX and (manual or not is_old(known) or mutation == RECORDS_COME):
        reported, after, changed = append(state, process, "prepare", "own", count)
        if changed:
            changed |= {"there": state.there | {count}, "is_listed": True}
        yield f"lands file {count}: {reported}", after, changed
    if not is_old(known):
        yield append(state, process, "later", "own")
    if is_old(known) or manual:
        yield look(state, process, mutation)


def look(state: State, process: Process, mutation: str) -> tuple[str, Process, dict]:
    known = state.log[: process.known]
    seen = state.there if mutation != LOG_ALONE else state.there & listed(known)
    planned = process._replace(seen=seen)
    if process.known != len(state.log):
        return "looks: is fenced", process._replace(step="dead", seen=NOTHING), {}
    if not seen and not listed(known):
        return "finds nothing to do", planned._replace(step="idle"), {}
    if mutation == DELETE_FIRST:
        return "looks", planned._replace(step="delete"), {}
    if not seen and mutation != ENTRY_FIRST:
        return "looks: no file is there", planned._replace(step="forget first"), {}
    return "looks", planned._replace(step="say"), {}


def after_entry(process: Process, mutation: str) -> str:
    if mutation == DELETE_FIRST:
        return "own"
    if not process.seen and mutation != ENTRY_FIRST:
        return "own"
    return "delete" if mutation == CATALOG_LAST else "forget"


def delete(state: State, process: Process, mutation: str) -> tuple[str, Process, dict]:
    gone = process.seen
    if mutation == WHOLE_DIRECTORY:
        gone = gone | state.there
    first = frozenset(sorted(gone & state.there)[:1])
    if first:
        changed = {"there": state.there - first, "deleted": state.deleted | first}
        return f"deletes file {min(first)}", process, changed
    step = {DELETE_FIRST: "say", CATALOG_LAST: "forget"}.get(mutation, "own")
    return "has deleted all", process._replace(step=step), {}


# ---- invariants


def wrong_with(state: State, manual: bool) -> Optional[str]:
    """What is broken: a file that nobody retired, one that is left, a catalog that is wrong."""
    for file in sorted(state.deleted):
        if file in listed(state.log):
            return f"R1: file {file} is deleted, and no entry after it says so"
    if manual:
        return None
    if listed(state.log) & state.there and not state.is_listed:
        return "R2: the catalog has forgotten a partition that has files"
    for process in state.processes:
        if process.step != "idle" or process.known != len(state.log):
            continue
        if state.there - listed(state.log):
            return "R3: a file of a retired partition is left, and nobody finds it"
        if state.is_listed and not listed(state.log):
            return "R4: the catalog lists a partition that is gone, and nobody finds it"
    return None


def explore(mutation: str = "", *, manual: bool = False) -> Found:
    manual = manual or mutation == WHOLE_DIRECTORY
    return search(
        start(),
        lambda state: moves(state, mutation, manual),
        lambda state: wrong_with(state, manual),
    )


DELETE_FIRST = "delete before the entry"
CATALOG_LAST = "the catalog last"
ENTRY_FIRST = "the entry first, also without files"
RECORDS_COME = "records still come to it"
WHOLE_DIRECTORY = "delete what is there, not what was seen"
LOG_ALONE = "look at the log, and not at the files"
MUTATIONS = (*(DELETE_FIRST, CATALOG_LAST, ENTRY_FIRST, RECORDS_COME, WHOLE_DIRECTORY, LOG_ALONE),)


def main() -> int:
    held = [("", explore()), ("", explore(manual=True))]
    return report([*held, *((each, explore(each)) for each in MUTATIONS)])


if __name__ == "__main__":
    sys.exit(main())
