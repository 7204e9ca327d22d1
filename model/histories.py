"""A model of leader epochs: whether what was landed is still what a partition holds.

What it promises: every interleaving within its bounds is visited; each mutation of the protocol has
a counterexample, and none is shorter.
What it must not know: the landing log, which `landing_log.py` is about; transactions, retention.

A partition has one leader at a time. Another one takes over and has every record, or lacks the last
ones (an unclean election), and goes on from its own end. A job plans a range up to the end that the
leader tells, reads it record by record while leaders change, and lands it with the epoch of the
leader that told the end. Before the next plan it asks the leader of then where the history of that
epoch ends. Somebody may decide to go on all the same.

What reads may fetch beyond the range, and keep that for the next one: Spark does, as long as a run
of a query lasts. Where the leader is another one than at the begin of the run, the run ends, and
what it has kept goes with it. A job that reads each range anew ends its run after each batch. Who
plans the range may have asked for its end long before: Spark does that too, so only a range that
the leader of now reaches is begun.

    python -m model.histories                the protocol, then every mutation
"""

# A model is read beside its README; it prints what it finds.
# ruff: noqa: D101, D103, INP001

import sys
from collections.abc import Iterator
from typing import NamedTuple

from model.search import Found, report, search

RECORDS_MAX, EPOCHS_MAX, BATCHES_MAX = 3, 3, 3

Record = tuple[int, int]  # the epoch of the leader that took it, and its offset: used once


class Plan(NamedTuple):
    end: int
    epoch: int  # of the leader that told the end
    read: tuple[Record, ...] = ()


class Run(NamedTuple):
    epoch: int  # of the leader at its begin
    kept: tuple[Record, ...] = ()  # fetched beyond what is landed, or is in the plan under way


class State(NamedTuple):
    log: tuple[Record, ...] = ()  # of the leader
    epoch: int = 0
    elected_at: int = 0  # where the leader's own records begin
    landed: tuple[Record, ...] = ()
    known: int | None = None  # the epoch of the last range that was landed
    wanted: int | None = None  # the end that somebody has asked for
    plan: Plan | None = None
    run: Run | None = None
    batches: int = 0
    is_cut: bool = False  # ghost: some leader lacked records, since somebody last decided
    is_refused: bool = False
    wrong: str = ""  # ghost


def end_of(state: State, epoch: int) -> int:
    """What a leader answers: where the history of an epoch ends; -1: it knows no such epoch."""
    if epoch > state.epoch:
        return -1
    starts = [offset for offset, (taken_by, _) in enumerate(state.log) if taken_by > epoch]
    if epoch < state.epoch:
        starts.append(state.elected_at)
    return min(starts, default=len(state.log))


def moves(state: State, mutation: str) -> Iterator[tuple[str, State]]:
    yield from world_moves(state)
    if state.is_refused:
        yield "somebody decides to go on", decide(state, mutation)
    elif state.plan is None:
        yield from between_moves(state)
        if state.batches < BATCHES_MAX:
            yield from plan_moves(state, mutation)
    elif len(state.landed) + len(state.plan.read) < state.plan.end:
        yield from read_moves(state, state.plan)
    else:
        yield from ahead_moves(state)
        yield "prepares", prepare(state, state.plan, mutation)


def world_moves(state: State) -> Iterator[tuple[str, State]]:
    if len(state.log) < RECORDS_MAX:
        record = (state.epoch, len(state.log))
        yield f"leader {state.epoch} takes a record", state._replace(log=(*state.log, record))
    if state.epoch < EPOCHS_MAX:
        for end in range(len(state.log) + 1):
            lacks = len(state.log) - end
            label = f"leader {state.epoch + 1} takes over, and lacks {lacks} records"
            log, epoch, is_cut = state.log[:end], state.epoch + 1, state.is_cut or lacks > 0
            yield label, state._replace(log=log, epoch=epoch, elected_at=end, is_cut=is_cut)


def between_moves(state: State) -> Iterator[tuple[str, State]]:
    if state.wanted is None:
        for end in range(len(state.landed) + 1, len(state.log) + 1):
            yield f"leader {state.epoch} tells the end {end}", state._replace(wanted=end)
    if state.run is not None:
        yield "the run ends", state._replace(run=None)


def plan_moves(state: State, mutation: str) -> Iterator[tuple[str, State]]:
    position = len(state.landed)
    is_doubtful = state.known not in (None, state.epoch) and mutation != "do not ask"
    is_short = len(state.log) < position
    if is_short or (is_doubtful and end_of(state, state.known or 0) < position):
        refused = state._replace(is_refused=True, run=None)
        if not state.is_cut:
            refused = refused._replace(wrong="H2: refused, and no leader ever lacked a record")
        yield "refuses to plan", refused
    elif state.wanted is not None and state.wanted <= len(state.log):
        run = state.run or Run(state.epoch)
        if run.epoch != state.epoch and mutation != "keep what another leader has told":
            return  # the run ends first
        planned = state._replace(run=run, plan=Plan(state.wanted, state.epoch))
        if state.landed != state.log[:position]:
            planned = planned._replace(wrong="H1: goes on after records that are not the topic's")
        yield f"plans up to {state.wanted}", planned


def read_moves(state: State, plan: Plan) -> Iterator[tuple[str, State]]:
    offset, run = len(state.landed) + len(plan.read), state.run
    if run is not None and run.kept:
        read = plan._replace(read=(*plan.read, run.kept[0]))
        run = run._replace(kept=run.kept[1:])
        yield f"takes {read.read[-1]}, which was kept", state._replace(plan=read, run=run)
    elif offset < len(state.log):
        read = plan._replace(read=(*plan.read, state.log[offset]))
        yield f"reads {state.log[offset]}", state._replace(plan=read)
    else:
        yield "fails to read", state._replace(plan=None, run=None)


def ahead_moves(state: State) -> Iterator[tuple[str, State]]:
    if state.plan is not None and state.run is not None:
        offset = state.plan.end + len(state.run.kept)
        if offset < len(state.log):
            run = state.run._replace(kept=(*state.run.kept, state.log[offset]))
            yield f"keeps {state.log[offset]} for later", state._replace(run=run)


def prepare(state: State, plan: Plan, mutation: str) -> State:
    known = plan.epoch
    if mutation == "name the leader after the reading":
        known = state.epoch
    if mutation == "name the leader of the last record":
        known = plan.read[-1][0]
    landed = (*state.landed, *plan.read)
    batches = state.batches + 1
    return state._replace(landed=landed, known=known, wanted=None, plan=None, batches=batches)


def decide(state: State, mutation: str) -> State:
    """What is landed counts from now on as what the topic holds."""
    if len(state.log) < len(state.landed):
        return state  # there is no command for it yet: the partition has to grow first
    known = None if mutation == "forget the leader where somebody decides" else state.epoch
    if mutation == "keep the leader where somebody decides":
        known = state.known
    landed = state.log[: len(state.landed)]
    return state._replace(landed=landed, known=known, is_cut=False, is_refused=False)


def explore(mutation: str = "") -> Found:
    return search(State(), lambda state: moves(state, mutation), lambda state: state.wrong or None)


MUTATIONS = (
    "do not ask",
    "name the leader after the reading",
    "name the leader of the last record",
    "keep what another leader has told",
    "keep the leader where somebody decides",
    "forget the leader where somebody decides",
)


def main() -> int:
    return report((mutation, explore(mutation)) for mutation in ("", *MUTATIONS))


if __name__ == "__main__":
    sys.exit(main())
