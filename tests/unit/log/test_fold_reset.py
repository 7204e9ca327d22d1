"""Time goes back in a log by one kind of entry, and in no other."""

from dataclasses import replace

import pytest
from tests.strategies import START_MS, TABLE, Chain, Part, key_of, target_of

from ashore.errors import LogDamaged
from ashore.log.entries import Body, ResetClock, Seal, SealedPartition
from ashore.log.positions import BatchTime
from ashore.log.snapshot import read_snapshot, write_snapshot

KEY, OTHER = key_of(0), key_of(1)
EIGHT = target_of(8).partition
JUMPED_MS = START_MS + 10 * 365 * 86_400_000


@pytest.fixture
def chain() -> Chain:
    chain = Chain.started(KEY, OTHER)
    chain.prepare()
    return chain


def refuse(chain: Chain, reason: str, body: Body) -> None:
    before = chain.fold
    with pytest.raises(LogDamaged, match=reason):
        chain.add(body)
    assert chain.fold == before


def jump(chain: Chain) -> None:
    """Land a batch, and seal, by a clock that is ten years ahead."""
    batch = chain.batch(Part(KEY, 3, {8: 3}))
    reads = tuple(replace(each, event_max_ms=JUMPED_MS - 5) for each in batch.shards)
    chain.add(replace(batch, time=BatchTime(JUMPED_MS, ((TABLE, JUMPED_MS - 9),)), shards=reads))
    chain.add(Seal((SealedPartition(TABLE, EIGHT, 1, 9, 9, JUMPED_MS + 1),), (), ()))


def test_a_reset_sets_every_time_of_the_log_back_and_nothing_else(chain: Chain):
    before = chain.fold
    jump(chain)
    ahead = chain.fold
    assert ahead.latest_ms == JUMPED_MS + 1
    chain.add(ResetClock(START_MS + 60_000, ((TABLE, START_MS),), "ana", "NTP"))
    after = chain.fold
    assert after.latest_ms == after.now_ms == START_MS + 60_000
    assert dict(after.watermarks) == {TABLE: START_MS}
    assert after.shards[OTHER] == before.shards[OTHER]
    state, jumped = after.shards[KEY], ahead.shards[KEY]
    assert (state.active_ms, state.event_max_ms) == (START_MS + 60_000, START_MS + 60_000)
    assert replace(state, active_ms=0, event_max_ms=0) == replace(
        jumped, active_ms=0, event_max_ms=0
    )
    sealed, was = after.partitions[TABLE, EIGHT], ahead.partitions[TABLE, EIGHT]
    assert sealed == replace(was, sealed_ms=START_MS + 60_000)
    assert (sealed.sealed_version, sealed.rows) == (1, 9)
    assert read_snapshot(write_snapshot(chain.fold)) == replace(after, base=after.end)


def test_batches_go_on_from_the_time_that_was_reset(chain: Chain):
    jump(chain)
    chain.add(ResetClock(START_MS + 60_000, ((TABLE, START_MS),), "ana", "NTP"))
    batch = chain.batch(Part(KEY, 3, {8: 3}))
    refuse(chain, "below the log's last", replace(batch, time=BatchTime(START_MS + 59_999)))
    chain.add(replace(batch, time=BatchTime(START_MS + 60_000)))


@pytest.mark.parametrize(
    ("now_ms", "watermarks", "reason"),
    [
        (JUMPED_MS + 1, (), "sets nothing back"),
        (-1, (), "sets nothing back"),
        (START_MS, ((TABLE, JUMPED_MS - 8),), "does not go back"),
        (START_MS, (("ods.other", 0),), "does not go back"),
        (START_MS, ((TABLE, 0), (TABLE, 1)), "is in it twice"),
    ],
)
def test_a_reset_only_goes_back(chain: Chain, now_ms: int, watermarks: tuple, reason: str):
    jump(chain)
    refuse(chain, reason, ResetClock(now_ms, watermarks, "ana", "NTP"))
