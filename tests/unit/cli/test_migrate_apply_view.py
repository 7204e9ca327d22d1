"""What `migrate apply` shows of INSERTs that come, go, or fill another table."""

from dataclasses import replace
from pathlib import Path

from ashore.cli.migrate_view import ShownMigration, ShownSteps
from ashore.jobs.events import StateMigrated, StateProgress, StateStep
from ashore.log.names import SliceName
from ashore.log.progress import StateWork
from ashore.log.query import PlanState
from ashore.plans.change.rewriting import OperatorRewrite, RewriteKind, StateRewrite, ValueSource
from ashore.queries.change.apply import (
    AppliedChange,
    AppliedDrop,
    AppliedMigration,
)
from ashore.queries.change.plan import (
    PlannedBeginning,
    PlannedChange,
    PlannedDrop,
    PlannedMigration,
)
from ashore.queries.state.attempts import Attempts
from ashore.queries.state.migration import MigrationWish
from ashore.queries.tools.stopped_query import StoppedQuery
from ashore.storage import MemoryStorage
from ashore_lab.testing import FakeClock

OLD, NEW = Path("clicks.yaml"), Path("fixed.yaml")
WISH = MigrationWish("old", PlanState("new", "{}"), (), "ana", "renamed")


def query(fills: str) -> StoppedQuery:
    return StoppedQuery(
        SliceName("clicks", fills.replace(".", "__")),
        Attempts(MemoryStorage(FakeClock()), "checkpoints", ""),
        fills,
    )


FILLED = OperatorRewrite(
    0, "aggregate by k", RewriteKind.RECODE, 0, (), (ValueSource(0), ValueSource(is_filled=True))
)
MOVED = PlannedMigration(
    query("ods.a"), WISH, StateRewrite((FILLED,), ()), (), {}, 7, 2_000_000, query("ods.b")
)
PLANNED = PlannedChange(
    (MOVED,),
    (PlannedDrop(query("ods.c"), WISH, 3, 1_000),),
    (PlannedBeginning(query("ods.d"), {"clicks": {"0": 120}}),),
)
APPLIED = AppliedChange(
    (AppliedMigration("ods.a", 7, "/saved/a", StateMigrated((), ()), 2.5, "ods.b"),),
    (AppliedDrop("ods.c", 3, "/saved/c"),),
    PLANNED.beginnings,
)


def test_a_step_is_said_once_and_its_rows_and_bytes_as_they_come() -> None:
    said: list[str] = []
    shown: list[tuple[object, ...]] = []
    steps = ShownSteps(said.append, lambda *told: shown.append(told))
    steps.show("ods.a", StateStep(StateWork.WRITE, 3, "default"))
    steps.show("ods.a", StateProgress(0, 8))
    steps.show("ods.a", StateProgress(2, 8, 120_000, 4_200_000))
    assert len(said) == 1
    assert "operator 3, default" in said[0]
    assert shown == [(said[0], 0, 8, ""), (said[0], 2, 8, "120,000 rows, 4.2 MB")]


def test_other_partitions_are_said_and_are_in_the_document() -> None:
    planned = PlannedChange((replace(MOVED, partitions=16),))
    shown = ShownMigration(OLD, [], planned)
    assert "  it gets 16 state partitions" in [*shown.planned_lines()]
    assert shown.document()["planned"][0]["partitions"] == 16


def test_what_is_planned_is_said_of_each_query() -> None:
    lines = "\n".join(ShownMigration(OLD, [], PLANNED).planned_lines())
    assert "ods.a: the state of batch 7" in lines
    assert "it continues as ods.b" in lines
    assert "filled of a replay" in lines
    assert "ods.c: it is dropped" in lines
    assert "ods.d: it is new" in lines
    assert "clicks is read from the offsets {0: 120} on" in lines


def test_what_was_done_names_each_savepoint_and_the_way_back() -> None:
    shown = ShownMigration(OLD, [], PLANNED, APPLIED)
    lines, document = "\n".join(shown.applied_lines(NEW)), shown.document()
    assert "/saved/a" in lines
    assert "ods.c: dropped after batch 3; " in lines
    assert "/saved/c" in lines
    # The query that is gone is in the job file of before alone.
    assert "ashore migrate undo clicks.yaml --query ods.c" in lines
    assert document["done"] is True
    assert document["savepoints"] == [{"query": "ods.c", "savepoint": "/saved/c"}]
    assert document["begun"] == [{"query": "ods.d", "begins": {"clicks": {"0": 120}}}]


def test_where_every_query_stays_the_new_job_file_undoes_it() -> None:
    stays = PlannedChange((replace(MOVED, into=None),))
    lines = "\n".join(ShownMigration(OLD, [], stays, APPLIED).applied_lines(NEW))
    assert "back: ashore migrate undo fixed.yaml" in lines


def test_nothing_is_to_be_done() -> None:
    shown = ShownMigration(OLD, [], PlannedChange())
    (line,) = shown.applied_lines(NEW)
    assert "nothing was changed" in line
    assert shown.document()["done"] is False
