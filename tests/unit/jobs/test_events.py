"""What crosses from a job process to its parent."""

import json

import pytest

from ashore.errors import Fenced
from ashore.jobs.events import (
    SENT,
    Answered,
    Beat,
    CaseEnded,
    ClockSteered,
    DroppedStores,
    Ended,
    Event,
    Landed,
    MovedStores,
    Note,
    PartitionsRegistered,
    PartitionsSealed,
    QueriesPlanned,
    QueryProgressed,
    Reading,
    Recovered,
    Relanded,
    Rescaled,
    Retired,
    SavepointTaken,
    Started,
    Starting,
    StateChanges,
    StateLoaded,
    StateMigrated,
    StateProgress,
    StateRows,
    StateStep,
    StateWork,
    StepBegun,
    StoreRows,
    Validated,
    WarningEvent,
    decode_event,
    encode_event,
    moment_of,
)
from ashore.jobs.failure import Failed
from ashore.log.progress import (
    BatchCounted,
    CallsCounted,
    CheckpointCleaned,
    FilesCompacted,
    FilesMoved,
    QueryProgress,
    Retrying,
    SliceMeasured,
    Step,
    TableCounts,
)
from ashore.plans.graph import PlanGraph, StoredPlan
from ashore.plans.query import PlannedQuery, RefusedState, StateCheck, TopicQuery

QUERY = TopicQuery("counts", "upsert", ("id",), "at least once", "s", "`id` int", "c", (), ())
PLANNED = PlannedQuery(
    "ods.big",
    "ods__big",
    StoredPlan("one", (), (), PlanGraph((), (), (), ())),
    "e3b0",
    StateCheck("STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE", (RefusedState(0, "KEY"),), "why"),
)
ROWS = StateRows(0, "stateStoreSave", "default", ("k",), ("n",), True, ('{"partition": 0}',), False)
ONE_OF_EACH: list[Event] = [
    Starting("clicks", "file:///lake"),
    ClockSteered("/clock.json"),
    Started("clicks", "native, ashore-native 0.1.0, AVX2"),
    StepBegun("main", Step.MOVE, Step.PREPARE, 12),
    Landed("main", 1_000, 2, 500, 0, 7, 12),
    Retired("main", 12, 2, 9, ("ods.clicks", "ods.clicks__late")),
    QueryProgressed("ods__big", QueryProgress(3, 1_000, 5, 6_000, 7, 2)),
    Beat(),
    PartitionsSealed("main", 13, 2, ("ods.clicks/date=2026-11-21", "ods.clicks/date=2026-11-22")),
    PartitionsRegistered("main", 1, ("ods.clicks/date=2026-11-21",)),
    Recovered("main", 61_000, 4),
    BatchCounted("main", (TableCounts("ods.clicks", "dead", 3, 1, 90),), (("late", 2),), 900),
    FilesMoved("main", 6, 1, 1, 1, 1, 2),
    SliceMeasured("main", 4, 12, (("register", 2),), 1_000, 2_000),
    CallsCounted((("move", "ok", 7),), 1),
    Retrying("main", 500),
    CheckpointCleaned("ods__big", 12, 3_400, 1),
    FilesCompacted("main", "ods.clicks", 12, 3_400, 1),
    WarningEvent("main", "no broker"),
    Note("main", "a column was added"),
    Validated((QUERY,)),
    QueriesPlanned((PLANNED,)),
    Reading(("clicks",), 12),
    Answered(("id",), ('{"id": 1}',), True),
    CaseEnded("late rows", "cases.yaml:3", 12, ("a row is missing",)),
    StateStep(StateWork.WRITE, 0, "default"),
    Rescaled((StoreRows(0, "default", "default", 7),)),
    StateLoaded((StoreRows(0, "default", "default", 7),)),
    StateMigrated(
        (MovedStores(1, "default", "keep", 0, None, None, 4, 4_096),),
        (DroppedStores(2, "default", 7),),
    ),
    Relanded(7, 1),
    SavepointTaken("ods.big", "/saved/savepoint-3-00", 3, 7, 900, 12),
    ROWS,
    StateChanges(1, 0, 2, False, ROWS),
    StateProgress(1, 4, 7_000, 90_000),
    Failed(3, "fenced", "gone", "", {"epoch": 4}),
    Ended(),
]


def test_each_kind_is_tried() -> None:
    assert [type(each) for each in ONE_OF_EACH] == list(SENT)
    assert len({each.kind for each in SENT}) == len(SENT)


@pytest.mark.parametrize("event", ONE_OF_EACH, ids=lambda event: event.kind)
def test_an_event_is_the_same_on_the_other_side(event: Event) -> None:
    line = json.dumps(encode_event(event))
    assert json.loads(line)["event"] == event.kind
    assert decode_event(json.loads(line)) == event


def test_an_error_keeps_what_it_knows_beside_what_all_errors_have() -> None:
    error = Fenced("taken over", hint="do not start again", epoch=4, owner_epoch=5)
    assert encode_event(Failed.of(error)) == {
        "event": "error",
        "exit_code": 3,
        "code": "fenced",
        "message": "taken over",
        "hint": "do not start again",
        "epoch": 4,
        "owner_epoch": 5,
    }


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"event": "of another release"},
        {"event": ["step"]},
        {"event": "step", "slice": "main", "step": "dance"},
        {"event": "landed", "slice": "main", "rows": "many", "files": 1, "lag": 0, "hanging": 0},
        {"event": "error", "message": "without a code"},
        {"event": "validated"},
    ],
)
def test_what_this_release_does_not_know_is_no_event(document: object) -> None:
    assert decode_event(document) is None


def test_a_step_is_a_moment_of_its_own() -> None:
    assert moment_of(StepBegun("main", Step.PREPARE)) == "prepare"
    assert moment_of(Ended()) == "ended"


def test_queries_that_are_none_are_no_event() -> None:
    assert decode_event({"event": "validated", "queries": [{"table": "ods.counts"}]}) is None
