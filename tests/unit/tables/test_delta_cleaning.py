"""What `clean` deletes below a Delta table, and of its log. delta-rs reads what is left."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable
from tests.unit.tables.test_delta_commit import NAME, TABLE, Site

from ashore.base.clock import SystemClock
from ashore.errors import Stopped, TableReplaced, TableRolledBack
from ashore.log import names
from ashore.log.fold import EMPTY, Fold
from ashore.log.plan_clean import Leftover, ListedTable
from ashore.tables.delta import cleaning, table_log
from ashore.tables.delta.delta_tables import DeltaTables
from ashore.tables.delta.table_checkpoint import encode_checkpoint
from ashore.tables.table_format import Orphans

HOUR_MS, DAY_MS = 3_600_000, 86_400_000


class OldSite(Site):
    """A table whose files are as old as a test says, and the log of its slice."""

    def log_files(self) -> list[Path]:
        """Return the files of versions; `_last_checkpoint` is of none."""
        return sorted((Path(self.path) / "_delta_log").glob("[0-9]*"))

    def age(self, days: float, before: int = 10_000) -> None:
        """Make the files of versions before one older."""
        for each in self.log_files():
            if int(each.name[:20]) < before:
                now_s = SystemClock().now_ms() / 1000
                os.utime(each, (now_s, now_s - 86_400 * days))

    def fold(self, batches: int) -> Fold:
        return replace(EMPTY, epoch=1, next_batch=batches, commits=dict(self.last))

    def below(self) -> tuple[Leftover, ...]:
        found = []
        for path in Path(self.path).rglob("*.parquet"):
            relative = path.relative_to(Path(self.path).parent.parent)
            if "_delta_log" not in relative.parts:
                found.append(Leftover(str(relative), path.stat().st_size, 0))
        return tuple(found)

    def look(self, batches: int, fold: Fold | None = None, after_ms: int = 2 * HOUR_MS) -> Orphans:
        """Look at the table as of two hours later, for files that are older than one hour."""
        now_ms = SystemClock().now_ms() + after_ms
        fold = fold or self.fold(batches)
        listed = ListedTable(TABLE, self.below(), NAME, fold, now_ms, HOUR_MS)
        return DeltaTables(self.storage, SystemClock()).find_orphans(listed)

    def clean(self, batches: int) -> Orphans:
        found = self.look(batches)
        for step in found.steps:
            self.storage.delete(step.file.path)
        return found


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OldSite:
    monkeypatch.setattr(table_log, "CHECKPOINT_EVERY", 4)
    return OldSite(tmp_path)


def paths(found: Orphans) -> list[str]:
    return [step.file.path for step in found.steps]


def test_files_that_no_version_names_are_orphans(site: OldSite):
    for number in range(3):
        site.land(number)
    lost = site.step(3)  # its commit never happens: the log goes another way
    ((place, _),) = lost.files
    for number in range(4, 6):
        site.land(number)
    (Path(site.path) / "date=2026-11-21/foreign.parquet").write_bytes(b"of another writer")
    assert paths(site.look(6)) == [place.final]
    assert paths(site.look(3)) == [], "batch 3 may still be committed"
    site.clean(6)
    assert site.ids() == [0, 1, 2, 4, 5, 100, 101, 102, 104, 105]
    assert (Path(site.path) / "date=2026-11-21/foreign.parquet").exists()


def test_files_of_versions_that_can_be_read_are_no_orphans(site: OldSite):
    """The checkpoint of another writer has no removed files any more."""
    for number in range(3):
        site.land(number)
    site.table().delete()
    log = table_log.TableLog(site.storage, TABLE)
    state = log.read()
    path = f"{log.directory}/{state.version:020}.checkpoint.parquet"
    actions = [{"protocol": state.protocol}, {"metaData": state.metadata}]
    site.storage.create(path, encode_checkpoint(actions))
    found = site.look(3)
    assert found.steps == ()
    assert found.files == found.named == 3
    for each in site.log_files():
        if each.name != names.leaf(path):
            each.unlink()
    assert len(site.look(3).steps) == 3


def vacuumed(site: OldSite) -> set[str]:
    """Return the names of the files that delta-rs would delete now."""
    kept = {"retention_hours": 0, "enforce_retention_duration": False}
    return {names.leaf(each) for each in site.table().vacuum(dry_run=True, **kept)}


def test_removed_files_go_when_the_retention_of_the_table_is_over(site: OldSite):
    for number in range(3):
        site.land(number)
    before = site.table().version()
    site.table().optimize.compact()
    assert len(vacuumed(site)) == 3
    assert site.look(3).steps == (), "readers of older versions need them for a week"
    found = site.look(3, after_ms=8 * DAY_MS)
    assert {names.leaf(path) for path in paths(found)} == vacuumed(site)
    assert len(DeltaTable(site.path, version=before).to_pyarrow_table()) == 6
    for step in found.steps:
        site.storage.delete(step.file.path)
    assert len(site.ids()) == 6
    assert site.look(3, after_ms=8 * DAY_MS).steps == ()
    site.land(3)
    assert len(site.ids()) == 8


def test_a_file_that_was_restored_stays(site: OldSite):
    site.land(0)
    site.table().delete()
    site.table().restore(1)
    assert site.look(1, after_ms=99 * DAY_MS).steps == ()
    assert len(site.ids()) == 2


@pytest.mark.parametrize(
    ("setting", "files"), [("interval 20 days", 0), ("interval 2 fortnights", 0), ("7 days", 1)]
)
def test_the_table_says_how_long_removed_files_are_kept(site: OldSite, setting: str, files: int):
    settings = {"delta.deletedFileRetentionDuration": setting}
    log = table_log.TableLog(site.storage, TABLE)
    state = log.read()
    metadata = {**state.metadata, "configuration": settings}
    log.create(state.version + 1, [{"metaData": metadata}])
    site.land(0)
    site.table().delete()
    assert len(site.look(1, after_ms=9 * DAY_MS).steps) == files


def test_a_checkpoint_leaves_out_what_was_removed_long_ago(
    site: OldSite, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(table_log, "CHECKPOINT_EVERY", 100)
    site.land(0)
    site.table().delete()
    log = table_log.TableLog(site.storage, TABLE)
    for days, removed in ((8, 1), (15, 0)):
        with monkeypatch.context() as patch:
            patch.setattr(table_log, "CHECKPOINT_EVERY", 1)
            state = log.read()
            log.checkpoint(state, SystemClock().now_ms() + days * DAY_MS)
        leaf = f"{state.version:020}.checkpoint.parquet"
        assert sum("remove" in each for each in log.read_checkpoint([leaf])) == removed
        site.land(days)
        log = table_log.TableLog(site.storage, TABLE)
    assert len(site.ids()) == 4


def test_a_table_that_is_not_as_the_log_has_it_is_left(site: OldSite):
    for number in range(3):
        site.land(number)
    site.table().restore(1)
    with pytest.raises(TableRolledBack):
        site.look(3)
    for each in site.log_files():
        each.unlink()
    assert site.look(3).skipped
    site.restart(site.ddl)
    with pytest.raises(TableReplaced):
        site.look(3)


def test_the_log_begins_with_a_checkpoint_that_its_retention_lets_go(site: OldSite):
    for number in range(11):
        site.land(number)
    assert checkpoints(site) == [3, 7, 11]
    kept = 7  # recovery reads version 11
    assert site.clean(11).steps == (), "nothing is older than 30 days"
    site.age(31, before=kept)
    assert first_left(site) == 3, "the next checkpoint is not old enough"
    site.age(31)
    site.clean(11)
    assert checkpoints(site) == [7, 11]
    assert min(int(each.name[:20]) for each in site.log_files()) == kept
    assert len(site.ids()) == 22
    assert DeltaTable(site.path, version=kept).version() == kept
    site.land(11)
    site.restart(site.ddl)
    site.land(12)
    site.clean(13)
    assert checkpoints(site)[0] > kept
    assert len(site.ids()) == 26


def test_a_pointer_to_a_checkpoint_that_is_gone_harms_no_reader(site: OldSite):
    """A late call has left an old `_last_checkpoint`."""
    site.land(0)
    site.table().create_checkpoint()
    pointer = Path(site.path) / "_delta_log" / "_last_checkpoint"
    old = pointer.read_bytes()
    for number in range(1, 11):
        site.land(number)
    assert json.loads(pointer.read_bytes())["version"] == checkpoints(site)[-1]
    pointer.write_bytes(old)
    site.age(31)
    site.clean(11)
    assert checkpoints(site)[0] > 1
    assert pointer.read_bytes() == old
    site.table().delete("id = 100")
    assert len(site.ids()) == 21


def checkpoints(site: OldSite) -> list[int]:
    return sorted({int(each.name[:20]) for each in site.log_files() if ".checkpoint" in each.name})


def first_left(site: OldSite) -> int:
    """Return the version with which the log would begin."""
    gone = {names.leaf(path) for path in paths(site.look(11))}
    return min(int(each.name[:20]) for each in site.log_files() if each.name not in gone)


def test_versions_that_recovery_reads_stay(site: OldSite):
    for number in range(3):
        site.land(number)
    needed = site.last
    for number in range(3, 12):
        site.land(number)
    site.age(99)
    found = site.look(12, replace(site.fold(12), commits=needed))
    assert found.steps == (), "no checkpoint is as old as the last commit that the log has"
    assert site.look(12).steps


@pytest.mark.parametrize(
    ("name", "value", "days"),
    [
        ("delta.enableExpiredLogCleanup", "false", 99),
        ("delta.logRetentionDuration", "interval 100 days", 99),
        ("delta.logRetentionDuration", "interval 3 fortnights", 99),
    ],
)
def test_settings_of_the_table_keep_its_log(site: OldSite, name: str, value: str, days: int):
    for number in range(11):
        site.land(number)
    site.age(days)
    assert site.look(11).steps
    log = table_log.TableLog(site.storage, TABLE)
    state = log.read()
    settings = {**state.metadata["configuration"], name: value}
    log.create(state.version + 1, [{"metaData": {**state.metadata, "configuration": settings}}])
    site.age(days)
    assert site.look(11).steps == ()


def test_a_log_with_a_gap_is_left(site: OldSite):
    for number in range(11):
        site.land(number)
    site.age(99)
    assert site.look(11).steps
    assert checkpoints(site) == [3, 7, 11]
    (Path(site.path) / "_delta_log" / f"{8:020}.json").unlink()
    assert site.look(11).steps == ()


def test_an_unclosed_entry_is_committed_first(site: OldSite):
    site.land(0)
    step = site.step(1)
    unclosed = FakeUnclosed(1, FakeBody((step.commit,)))
    fold = replace(site.fold(1), commits={TABLE: step.commit}, unclosed=unclosed)
    with pytest.raises(Stopped, match="not committed"):
        site.look(1, fold)
    site.tables.commit(NAME, step)
    assert site.look(1, fold).steps == ()


class FakeBody:
    """Of an entry that orders commits."""

    def __init__(self, commits: tuple[object, ...]) -> None:
        self.commits = commits


class FakeUnclosed:
    """An entry that is not closed."""

    def __init__(self, number: int, body: FakeBody) -> None:
        self.number, self.body = number, body


def test_a_mutant_that_looks_at_the_newest_version_only_is_found(
    site: OldSite, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(cleaning, "_read_older", lambda *_: table_log.Files())
    with pytest.raises(AssertionError):
        test_files_of_versions_that_can_be_read_are_no_orphans(site)
