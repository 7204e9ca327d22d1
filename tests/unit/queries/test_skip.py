"""`skip` gives up what Kafka no longer has, says who and why, and nothing that can be read."""

import getpass

import pytest
from tests.unit.proof.lakes import CLICKS_0, Lake, fill, make_lake

from ashore.errors import (
    AshoreError,
    JobFileInvalid,
    OffsetsWentBack,
    Stopped,
    StreamMissing,
    StreamReplaced,
)
from ashore.log.entries import Commit, Skip
from ashore.log.positions import OffsetRange, ShardRange
from ashore.log.store.reader import read_history, read_log
from ashore.queries.tools.skip import apply, plan, wish_of

WHY = "the broker's disk was full"


@pytest.fixture
def lake() -> Lake:
    """A job that has stopped at a gap: it has landed up to 100, Kafka begins at 130."""
    lake = make_lake()
    lake.append(Commit("stop"))
    fill(lake.source, "clicks", 0, 50)
    lake.source.expire(CLICKS_0, 130)
    return lake


def go(lake: Lake, to: int, place: str = "clicks/0") -> ShardRange | None:
    opened = lake.opened()
    wish = wish_of(opened, place, to, WHY)
    planned = plan(opened, wish)
    assert apply(opened, wish, takes_over=True) == planned
    return planned


def test_a_gap_is_given_up_with_person_and_reason(lake: Lake) -> None:
    skipped = ShardRange(lake.key(0), OffsetRange(100, 130))
    assert go(lake, 130) == skipped
    *_, last = read_history(lake.storage, lake.name)
    assert last.body == Skip((skipped,), None, (), (), getpass.getuser(), WHY, ((lake.key(0), 0),))
    state = read_log(lake.storage, lake.name).shards[lake.key(0)]
    assert (state.next, state.skipped) == (130, 30)
    end = last.number
    assert go(lake, 130) is None, "it goes on there already"
    assert read_log(lake.storage, lake.name).end == end, "and nothing was taken over"


def test_a_part_of_a_gap_may_be_given_up(lake: Lake) -> None:
    assert go(lake, 110) == ShardRange(lake.key(0), OffsetRange(100, 110))
    assert go(lake, 130) == ShardRange(lake.key(0), OffsetRange(110, 130))


REFUSED = [
    ("clicks/0", 131, Stopped, "from 130 on", "--to 130"),
    ("clicks/0", 99, Stopped, "below 100", "ashore status"),
    ("clicks/1", 41, Stopped, "from 40 on", "nothing to skip"),
    ("clicks/7", 1, StreamMissing, "the log has no clicks/7", "not joined"),
    ("clicks", 130, JobFileInvalid, "not a topic partition", "clicks/3"),
    ("orders/0", 130, JobFileInvalid, "reads topic orders", "name a topic"),
]


@pytest.mark.parametrize(("place", "to", "error", "message", "hint"), REFUSED)
def test_nothing_else_is(
    lake: Lake, place: str, to: int, error: type[AshoreError], message: str, hint: str
) -> None:
    before = read_log(lake.storage, lake.name)
    with pytest.raises(error, match=message) as refused:
        go(lake, to, place)
    assert hint in refused.value.hint
    assert read_log(lake.storage, lake.name) == before


def test_without_a_reason_nothing_is_given_up(lake: Lake) -> None:
    with pytest.raises(JobFileInvalid, match="the reason is missing"):
        wish_of(lake.opened(), "clicks/0", 130, " ")


def test_a_topic_that_was_created_again_has_no_gap(lake: Lake) -> None:
    lake.source.delete_and_recreate("clicks", 2)
    with pytest.raises(StreamReplaced, match="topic of the log") as refused:
        go(lake, 130)
    assert "rejoin" in refused.value.hint


def test_a_topic_that_went_back_has_no_gap(lake: Lake) -> None:
    lake.land({lake.key(1): (40, 60)})  # and the source ends at 40
    with pytest.raises(OffsetsWentBack, match="ends at 40"):
        go(lake, 61, "clicks/1")


def test_the_proof_counts_what_was_given_up(lake: Lake) -> None:
    go(lake, 130)
    assert sum(table.tally.skipped for table in lake.verify().tables) == 30
