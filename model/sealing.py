"""A model of sealing over the slices of a job: who may say that a partition is complete, and when.

What it promises: every interleaving within its bounds is visited; each mutation of the protocol has
a counterexample, and none is shorter.
What it must not know: watermarks, catalogs, what a row holds.

Two slices land rows in one partition, each through a log of its own. Slice A seals for the job: it
reads the log of slice B, appends a `seal` to its own, and then tells the world: version and rows.
Processes stand still and wake at any step, or never, and a second one takes slice A over. Rows may
come late, after the partition is over. What appends to a log and who is fenced is the subject of
`landing_log.py`: here an append is one step, which fails for a process that does not know its log's
end, and a move is one step.

In the setting `JUMP` the clock of slice A jumps ahead, unnoticed, and is set right later: what it
seals meanwhile is sealed too early, and at a time that has not come. From then on the log is ahead
of the clock, and its owner does nothing but append a `reset_clock`, after which the seals before it
count as of now.

It knows nothing of the package.

    python -m model.sealing                  the protocol, then every mutation
"""

# A model is read beside its README; it prints what it finds.
# ruff: noqa: D101, D102, D103, INP001, RUF005, UP045

import sys
from collections.abc import Iterator, Mapping
from typing import NamedTuple, Optional

from model.search import Found, report, search

SMALL, LARGE = {"A": 1, "B": 1}, {"A": 1, "B": 2}  # rows that each slice lands
PROCESSES = ("A0", "A1", "B0")  # to stand still for ever is to crash; slice A has a second one
SEALER = "A"
VERSIONS_MAX = 4  # bound of the model: reached by mutations only

Row = tuple[str, int]  # slice and number
Rows = frozenset[Row]


class Entry(NamedTuple):
    kind: str  # open | prepare | commit | seal | reset_clock
    epoch: int
    rows: Rows = frozenset()  # prepare: of the batch; seal: all that the partition has
    version: int = 0  # of a seal
    is_ahead: bool = False  # a seal whose time was told by a clock that had jumped


Log = tuple[Entry, ...]


class Process(NamedTuple):
    name: str
    step: str = "off"
    epoch: int = 0
    known: int = 0  # entries of its own log that it knows
    read: int = 0  # entries of the other log that it has read
    versions: int = 0  # that it has sealed itself: for a mutation

    @property
    def slice(self) -> str:
        return self.name[0]

    @property
    def other(self) -> str:
        return "B" if self.slice == "A" else "A"


class State(NamedTuple):
    logs: tuple[tuple[str, Log], ...]
    final: Rows  # rows that every reader sees
    published: frozenset[tuple[int, Rows]]  # what the world was told: version and rows
    is_over: bool  # whether the partition's time has passed
    clock: str  # of slice A: steady | right | ahead | set right
    processes: tuple[Process, ...]

    def log(self, name: str) -> Log:
        return dict(self.logs)[name]


def start(clock: str) -> State:
    processes = tuple(Process(name) for name in PROCESSES)
    return State((("A", ()), ("B", ())), frozenset(), frozenset(), False, clock, processes)


# ---- what a log says


def rows_of(log: Log) -> Rows:
    return frozenset(row for entry in log if entry.kind == "prepare" for row in entry.rows)


def unclosed(log: Log) -> Optional[Entry]:
    last = next((entry for entry in reversed(log) if entry.kind != "open"), None)
    return last if last and last.kind not in ("commit", "reset_clock") else None


def closed_rows(log: Log) -> Rows:
    left = unclosed(log)
    return rows_of(log) - (left.rows if left and left.kind == "prepare" else frozenset())


def sealed(log: Log, mutation: str = "") -> Entry:
    """The newest seal, as entries after it have left it; one of version 0 where there is none."""
    last = Entry("seal", 0)
    for entry in log:
        if entry.kind == "seal":
            last = entry
        elif entry.kind == "reset_clock" and mutation == "a reset takes seals back":
            last = Entry("seal", 0)
        elif entry.kind == "reset_clock" and mutation != "a reset leaves the times of seals":
            last = last._replace(is_ahead=False)
    return last


def is_ahead(state: State, log: Log, mutation: str) -> bool:
    """Whether a log has a time that has not come by the clock of slice A."""
    resets = any(entry.kind == "reset_clock" for entry in log)
    if mutation == "go on while the log is ahead" or (mutation and resets):
        return False
    return sealed(log).is_ahead and state.clock != "ahead"


# ---- steps


def moves(state: State, rows: Mapping[str, int], mutation: str) -> Iterator[tuple[str, State]]:
    if not state.is_over:
        yield "the partition is over", state._replace(is_over=True)
    if state.clock == "right":
        yield "the clock jumps ahead", state._replace(clock="ahead")
    if state.clock == "ahead":
        yield "the clock is set right", state._replace(clock="set right")
    for index, process in enumerate(state.processes):

        def with_process(changed: Process, index: int = index, **others: object) -> State:
            processes = state.processes[:index] + (changed,) + state.processes[index + 1 :]
            return state._replace(processes=processes, **others)

        for label, changed, others in steps(state, process, rows[process.slice], mutation):
            yield f"{process.name} {label}", with_process(changed, **others)


def steps(
    state: State, process: Process, rows_max: int, mutation: str
) -> Iterator[tuple[str, Process, dict]]:
    log = state.log(process.slice)
    match process.step:
        case "off":
            epoch = max((entry.epoch for entry in log), default=0) + 1
            opened = process._replace(epoch=epoch, known=len(log))
            yield append(state, opened, Entry("open", epoch), "opens")
        case "finish":
            yield finish(state, process)
        case "own":
            yield from owning(state, process, rows_max, mutation)
        case "plan":
            yield plan(state, process, mutation)
        case "idle":
            yield "goes on", process._replace(step="own", read=0), {}


def append(state: State, process: Process, entry: Entry, label: str) -> tuple[str, Process, dict]:
    log = state.log(process.slice)
    if process.known != len(log):
        return f"{label}: is fenced", process._replace(step="dead", read=0), {}
    longer = {**dict(state.logs), process.slice: (*log, entry)}
    appended = process._replace(step="finish", known=len(log) + 1, read=0)
    return label, appended, {"logs": tuple(longer.items())}


def finish(state: State, process: Process) -> tuple[str, Process, dict]:
    """Do the effects of the unclosed entry: by whoever owns the slice, however often."""
    left, owns = unclosed(state.log(process.slice)[: process.known]), process._replace(step="own")
    if left is None:
        return "has nothing to finish", owns, {}
    if left.kind == "prepare":
        return f"moves {show(left.rows)}", owns, {"final": state.final | left.rows}
    published = state.published | {(left.version, left.rows)}
    return f"tells version {left.version} with {show(left.rows)}", owns, {"published": published}


def owning(
    state: State, process: Process, rows_max: int, mutation: str
) -> Iterator[tuple[str, Process, dict]]:
    log = state.log(process.slice)
    known = log[: process.known]
    if is_ahead(state, known, mutation):
        yield append(state, process, Entry("reset_clock", process.epoch), "resets the clock")
        return
    if (count := len(rows_of(known))) < rows_max:
        row = (process.slice, count)
        entry = Entry("prepare", process.epoch, frozenset({row}))
        label, after, changed = append(state, process, entry, f"prepares {show(entry.rows)}")
        yield label, after, changed
        if mutation == "seal before the own moves" and after.step == "finish":
            yield f"{label} and goes on", after._replace(step="own"), changed
    if unclosed(known):
        yield append(state, process, Entry("commit", process.epoch), "commits")
    is_sealer = process.slice == SEALER or mutation == "every slice seals"
    looks_over = state.is_over or state.clock == "ahead"
    if is_sealer and looks_over and sealed(known).version < VERSIONS_MAX:
        read = len(state.log(process.other))
        yield "reads the other log", process._replace(step="plan", read=read), {}


def plan(state: State, process: Process, mutation: str) -> tuple[str, Process, dict]:
    """Seal what is due by the two logs as they were read."""
    own = state.log(process.slice)[: process.known]
    other = state.log(process.other)[: process.read]
    last, left = sealed(own, mutation), unclosed(other)
    if is_ahead(state, own, mutation):
        return "refuses", process._replace(step="own", read=0), {}
    if mutation == "forget what was sealed" and unclosed(own) is None:
        last = Entry("seal", 0)  # its snapshot has no row of its own left to tell of
    is_blocked = left is not None and left.kind == "prepare"
    if is_blocked and mutation != "read the other log to its end":
        return "is blocked", process._replace(step="own", read=0), {}
    rows = rows_of(own) | rows_of(other)
    is_due = rows != last.rows if mutation != "seal once" else bool(rows) and not last.version
    if last.is_ahead and state.clock != "ahead":
        is_due = False  # a delay after the seal before has not passed, nor will it for long
    if not is_due:
        return "finds nothing to seal", process._replace(step="idle"), {}
    version = last.version + 1
    if mutation == "count versions in memory":
        version, process = process.versions + 1, process._replace(versions=process.versions + 1)
    entry = Entry("seal", process.epoch, rows, version, is_ahead=state.clock == "ahead")
    return append(state, process, entry, f"seals version {version} with {show(rows)}")


def show(rows: Rows) -> str:
    return ", ".join(f"{name}{number}" for name, number in sorted(rows)) or "no row"


# ---- invariants


def wrong_with(state: State) -> Optional[str]:
    """What is broken: rows told that nobody sees, a version twice, rows that are never told."""
    seals = [entry for _, log in state.logs for entry in log if entry.kind == "seal"]
    for entry in seals:
        if not entry.rows <= state.final:
            unseen = show(entry.rows - state.final)
            return f"S1: version {entry.version} is sealed, and {unseen} cannot be read"
    if len({version for version, _ in state.published}) < len(state.published):
        return "S2: a version was told twice, with other rows"
    for process in state.processes:
        if process.step != "idle":
            continue
        own = state.log(process.slice)[: process.known]
        other = state.log(process.other)[: process.read]
        missing = (rows_of(own) | closed_rows(other)) - sealed(own).rows
        if missing:
            return f"S3: {show(missing)} came late, and no version ever tells of it"
    return None


def explore(
    mutation: str = "", rows: Mapping[str, int] = SMALL, clock: Optional[str] = None
) -> Found:
    first = start(clock or ("right" if mutation in MUTATIONS_OF_A_JUMP else "steady"))
    return search(first, lambda state: moves(state, rows, mutation), wrong_with)


MUTATIONS_OF_A_JUMP = (
    "go on while the log is ahead",
    "a reset takes seals back",
    "a reset leaves the times of seals",
)
MUTATIONS = (
    "read the other log to its end",
    "seal before the own moves",
    "count versions in memory",
    "seal once",
    "every slice seals",
    "forget what was sealed",
    *MUTATIONS_OF_A_JUMP,
)
STEADY, JUMP = "steady", "right"  # the clock, at first


def main() -> int:
    held = [("", SMALL, STEADY), ("", LARGE, STEADY), ("", SMALL, JUMP)]
    return report(
        (mutation, explore(mutation, rows, clock))
        for mutation, rows, clock in [*held, *((each, SMALL, None) for each in MUTATIONS)]
    )


if __name__ == "__main__":
    sys.exit(main())
