"""What a log goes back to whose clock was ahead, and what is told of what stays."""

from dataclasses import replace

import pytest
from tests.strategies import START_MS, TABLE, Chain, Part, key_of, target_of

from ashore.base.clock import AHEAD_MS_MAX
from ashore.log.entries import ResetClock, Seal, SealedPartition
from ashore.log.plan_reset import ClockReset, plan_reset
from ashore.log.positions import BatchTime

KEY, OTHER = key_of(0), key_of(1)
YEAR_MS = 365 * 86_400_000
EIGHT, NINE = target_of(8).key, target_of(9).key


def land(chain: Chain, now_ms: int, watermark_ms: int, hour: int = 8) -> None:
    batch = chain.batch(Part(KEY, 3, {hour: 3}))
    chain.add(replace(batch, time=BatchTime(now_ms, ((TABLE, watermark_ms),))))


def plan(chain: Chain, now_ms: int) -> ClockReset | None:
    return plan_reset(chain.fold, chain.entries, now_ms, "ana", "NTP")


@pytest.fixture
def chain() -> Chain:
    chain = Chain.started(KEY, OTHER)
    land(chain, START_MS + 1_000, START_MS)
    return chain


def test_a_log_that_is_ahead_by_more_than_the_bound_is_set_back(chain: Chain):
    assert plan(chain, START_MS + 1_000 - AHEAD_MS_MAX) is None
    assert plan(chain, START_MS + 999 - AHEAD_MS_MAX) is not None


def test_watermarks_are_those_of_the_last_batch_that_was_not_ahead(chain: Chain):
    land(chain, START_MS + 2_000, START_MS + 500)
    land(chain, START_MS + YEAR_MS, START_MS + YEAR_MS - 9, hour=9)
    land(chain, START_MS + YEAR_MS, START_MS + YEAR_MS - 8, hour=9)
    chain.add(
        Seal((SealedPartition(*EIGHT, 1, 6, 6, START_MS + YEAR_MS + 1),), ("success_file",), ())
    )
    found = plan(chain, START_MS + 5_000)
    assert found == ClockReset(
        ResetClock(START_MS + 5_000, ((TABLE, START_MS + 500),), "ana", "NTP"),
        log_ms=START_MS + YEAR_MS + 1,
        batches=2,
        rows=((NINE, 6),),
        seals=((EIGHT, 1),),
    )
    chain.add(found.body)
    assert plan(chain, START_MS + 5_000) is None


def test_a_second_reset_knows_of_the_first(chain: Chain):
    land(chain, START_MS + YEAR_MS, START_MS + YEAR_MS)
    first = plan(chain, START_MS + 5_000)
    chain.add(first.body)
    land(chain, START_MS + 2 * YEAR_MS, START_MS + 2 * YEAR_MS)
    second = plan(chain, START_MS + 6_000)
    assert second.body.watermarks == ((TABLE, START_MS),)
    assert chain.add(second.body).latest_ms == START_MS + 6_000


def test_a_seal_alone_is_enough(chain: Chain):
    chain.add(Seal((SealedPartition(*EIGHT, 1, 3, 3, START_MS + YEAR_MS),), (), ()))
    found = plan(chain, START_MS + 5_000)
    assert (found.batches, found.seals) == (0, ((EIGHT, 1),))
    assert chain.add(found.body).latest_ms == START_MS + 5_000
