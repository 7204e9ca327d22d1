"""Writers that start, land, freeze and wake in any order, while most of their opens are removed.

The log alone, in memory: what a writer lands is one file, and the lake knows what is true.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.topics.log_lake import (
    NAME,
    NOTHING,
    Frozen,
    Lake,
    fill,
    finish,
    join,
    write_batch,
)

from ashore.errors import Fenced
from ashore.log import names
from ashore.log.entries import Commit
from ashore.log.store.archive import archive_log
from ashore.log.store.log import LandingLog
from ashore.log.store.reader import read_history, read_log

WRITERS = 3
ARCHIVED = 6  # entries of an archive
ENTRIES_MAX = 60

simple = st.one_of(
    st.tuples(st.sampled_from(["start", "land", "look"]), st.integers(0, WRITERS - 1)),
    st.tuples(st.just("crash loop"), st.integers(2, 8)),
    st.tuples(st.just("pack"), st.integers(1, 8)),
)
frozen = st.tuples(
    st.just("freeze"),
    st.integers(0, WRITERS - 1),
    st.sampled_from(["create", "stat", "read", "list"]),
    st.lists(simple, min_size=1, max_size=6),
)


class Play:
    """A lake, and writers by their numbers. A writer that is fenced is gone."""

    def __init__(self) -> None:
        self.lake = Lake()
        self.writers: dict[int, LandingLog] = {}

    def act(self, step: tuple[object, ...]) -> None:
        match step:
            case "start", int(index):
                self.writers[index] = self.lake.opened()
            case "land", int(index) if index in self.writers:
                self.alone(index, self.land)
            case "look", int(index) if index in self.writers:
                self.alone(index, LandingLog.look)
            case "crash loop", int(times):
                for _ in range(times):
                    self.lake.opened()
            case "pack", int(entries):
                self.pack(entries)
            case "freeze", int(index), str(kind), list(others) if index in self.writers:
                with self.frozen(index, kind, others):
                    self.alone(index, self.land)

    def alone(self, index: int, act: object) -> None:
        """Let a writer act, who may find that it is one no more."""
        assert callable(act)
        try:
            act(self.writers[index])
        except Fenced:
            self.writers.pop(index, None)

    def land(self, log: LandingLog) -> None:
        if not log.fold.shards:
            join(log)
        closing = finish(log, self.lake.storage)
        log.append(write_batch(self.lake, log), closing)
        finish(log, self.lake.storage)

    def pack(self, entries: int) -> None:
        """Take over, go on for some entries, and pack what can be packed."""
        log = self.lake.opened()
        log.append(Commit("test"), finish(log, self.lake.storage) or NOTHING)
        fill(log, log.fold.end + entries, snapshot=True)
        archive_log(self.lake.storage, NAME)

    @contextmanager
    def frozen(self, index: int, kind: str, others: list[tuple[object, ...]]) -> Iterator[None]:
        """Let others act before the writer's next call of a kind, without it."""
        log = self.writers[index]
        whole = log._context
        stopped = Frozen(whole.storage)

        def stand_still() -> None:
            del self.writers[index]
            for each in others:
                self.act(each)
            self.writers[index] = log

        stopped.before(kind, "", stand_still)
        log._context = replace(whole, storage=stopped)
        yield
        log._context = whole


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(st.one_of(simple, frozen), min_size=4, max_size=14))
def test_no_writer_lands_where_an_open_was_removed(steps: list[tuple[object, ...]]):
    entries, names.ARCHIVE_ENTRIES = names.ARCHIVE_ENTRIES, ARCHIVED
    try:
        play = Play()
        for step in steps:
            if len(play.lake.history()) > ENTRIES_MAX:
                break
            play.act(step)
            assert play.lake.wrong() is None, step
        assert list(read_history(play.lake.storage, NAME)) == play.lake.history()
        assert read_log(play.lake.storage, NAME).end == len(play.lake.history()) - 1
    finally:
        names.ARCHIVE_ENTRIES = entries
