"""What a savepoint's own log says of it: of migrations, of those undone, and of rollbacks."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from tests.strategies import Chain, Part

from ashore.errors import CheckpointUnfit
from ashore.log.entries import Commit, Migrate, Plan, Query
from ashore.log.names import SliceName, entry_path, query_source
from ashore.log.plan_rollback import Wish, plan_rollback
from ashore.log.positions import ShardKey
from ashore.log.query_history import read_landed_batches
from ashore.queries.state.layout import MigrationPath
from ashore.queries.tools.another_table import FormerLog, read_former
from ashore.storage import MemoryStorage
from ashore_lab.testing import FakeClock

NAME = SliceName("clicks", "ods__big")
CLICKS, VIEWS = (ShardKey(query_source(NAME), topic, 1, "0") for topic in ("clicks", "views"))


def land(chain: Chain, number: int, lineage: str = "") -> None:
    """Land a batch that reads ten offsets of each topic."""
    query = Query("q", number, lineage or f"line-{number}")
    chain.add(chain.query_batch(query, Part(CLICKS, 10, {}), Part(VIEWS, 10, {})))
    chain.add(Commit("query"))


def three_batches() -> Chain:
    chain = Chain.started(CLICKS, VIEWS)
    chain.add(Plan("old", "{}"))
    for number in range(3):
        land(chain, number)
    return chain


def migrate(chain: Chain) -> int:
    """Migrate after the last batch; return the mark of the state that was rewritten."""
    chain.open()
    batch, epoch = chain.fold.query.batch_id, chain.fold.epoch
    chain.add(Migrate("new", '{"n":1}', "old", batch, epoch, "/saved/1", (), "ana", "wrong"))
    return epoch


def migrated() -> tuple[Chain, int]:
    chain = three_batches()
    return chain, migrate(chain)


def undo(chain: Chain) -> None:
    chain.open()
    known, epoch = chain.fold.migrations[-1], chain.fold.epoch
    body = Migrate(
        *("old", "{}", "new", known.batch, epoch, "/saved/1", (), "ana", "back"), known.entry
    )
    if known.batch == chain.fold.query.batch_id:
        chain.add(body)
        return
    past = read_landed_batches(chain.entries, 0)
    chain.add(replace(plan_rollback(chain.fold, past, Wish(known.batch, "ana", "b")), undo=body))
    chain.add(Commit("recovery"))


def former(
    chain: Chain, batch: int, mark: int = 0, *, topics: tuple[str, ...] = ("clicks", "views")
) -> FormerLog | None:
    """Read what the log says of a savepoint of a batch, whose state a migration has written."""
    storage = MemoryStorage(FakeClock())
    for number, data in enumerate(chain.data):
        storage.create(entry_path(NAME, number), data)
    ends = {0: {topic: {"0": 10 * (batch + 1)} for topic in topics}}
    checkpoint = SimpleNamespace(read_ends=lambda _batch: ends)
    savepoint = SimpleNamespace(place="/saved/1", checkpoint=checkpoint)
    files = (SimpleNamespace(path=MigrationPath(mark).path),) if mark else ()
    manifest = SimpleNamespace(query_id="q", batch=batch, files=files)
    return read_former(storage, NAME, savepoint, manifest)  # type: ignore[arg-type]


def plan_of(found: FormerLog | None) -> str:
    assert found is not None
    return found.plan.digest


def test_of_the_batch_of_a_migration_there_are_two_states() -> None:
    chain, mark = migrated()
    land(chain, 3)
    assert plan_of(former(chain, 1)) == "old"
    assert plan_of(former(chain, 2)) == "old", "it was taken before"
    assert plan_of(former(chain, 2, mark)) == "new"
    assert plan_of(former(chain, 3, mark)) == "new"
    assert former(chain, 3, mark).lineage == "line-3"
    assert former(chain, 2, mark).lineage == "line-2"


@pytest.mark.parametrize(("batch", "mark"), [(3, 0), (2, 9), (3, 9), (1, 2)])
def test_a_state_that_the_query_did_not_have_after_the_batch_is_refused(
    batch: int, mark: int
) -> None:
    chain, made = migrated()
    land(chain, 3)
    assert made == 2
    with pytest.raises(CheckpointUnfit, match=r"the state that .* after batch"):
        former(chain, batch, mark)


def test_only_of_a_state_that_was_rewritten_a_topic_may_be_missing() -> None:
    chain, mark = migrated()
    land(chain, 3)
    assert plan_of(former(chain, 2, mark, topics=("clicks",))) == "new", "the SQL dropped it"
    for batch, of in ((2, 0), (3, mark)):
        with pytest.raises(CheckpointUnfit, match="from before a rollback"):
            former(chain, batch, of, topics=("clicks",))


def test_a_migration_that_was_undone_with_what_was_landed_since() -> None:
    chain, mark = migrated()
    land(chain, 3)
    undo(chain)
    with pytest.raises(CheckpointUnfit, match="from before a rollback"):
        former(chain, 3, mark)
    land(chain, 3, "another line")
    assert plan_of(former(chain, 2)) == "old"
    assert plan_of(former(chain, 3)) == "old"
    assert former(chain, 3).lineage == "another line"
    with pytest.raises(CheckpointUnfit, match="have the state"):
        former(chain, 3, mark)


def test_a_migration_that_was_undone_at_once_and_applied_again() -> None:
    chain, first = migrated()
    undo(chain)
    assert plan_of(former(chain, 2)) == "old"
    second = migrate(chain)
    land(chain, 3)
    assert plan_of(former(chain, 3, second)) == "new"
    assert plan_of(former(chain, 2, second)) == "new"
    with pytest.raises(CheckpointUnfit, match="have the state"):
        former(chain, 3, first)


def test_a_rollback_behind_a_migration_keeps_its_plan() -> None:
    chain, mark = migrated()
    land(chain, 3)
    land(chain, 4)
    past = read_landed_batches(chain.entries, 0)
    chain.add(plan_rollback(chain.fold, past, Wish(3, "ana", "wrong")))
    chain.add(Commit("recovery"))
    assert plan_of(former(chain, 3, mark)) == "new"
    with pytest.raises(CheckpointUnfit, match="from before a rollback"):
        former(chain, 4, mark)
    land(chain, 4, "again")
    assert former(chain, 4, mark).lineage == "again"
