from dataclasses import replace

import pytest
from tests.strategies import START_MS, TABLE, Chain, Part, key_of, target_of

from ashore.errors import InvariantBroken
from ashore.log.entries import (
    Commit,
    DeferredAction,
    EntryInvalid,
    FailedTries,
    Seal,
    SealedPartition,
    read_checksummed,
    write_checksummed,
)
from ashore.log.fold import EMPTY, Failing, forget_sealed
from ashore.log.snapshot import read_snapshot, write_snapshot

EIGHT, NINE = target_of(8).partition, target_of(9).partition


def sealed(chain: Chain, *hours: int, now_ms: int = START_MS) -> None:
    seals = []
    for hour in hours:
        state = chain.fold.partitions[TABLE, target_of(hour).partition]
        version = state.sealed_version + 1
        rows = state.rows
        seals.append(SealedPartition(TABLE, state.partition, version, rows, rows, now_ms))
    chain.add(Seal(tuple(seals), (), (("main", chain.fold.end),)))
    chain.commit()


def landed(*hours: int) -> Chain:
    chain = Chain.started()
    chain.prepare(Part(key_of(), 3 * len(hours), dict.fromkeys(hours, 3)))
    return chain


def test_a_snapshot_is_the_fold_and_says_where_it_ends():
    chain = landed(8)
    chain.commit()
    fold = read_snapshot(write_snapshot(chain.fold))
    assert fold == replace(chain.fold, base=chain.fold.end)


def test_what_failed_is_part_of_a_snapshot():
    chain = landed(8)
    closing = chain.closing(deferred=[DeferredAction("http:1", "http", TABLE, EIGHT)])
    failed = (FailedTries("http", 2, START_MS, "away"),)
    chain.append(chain.draft(Commit("idle"), replace(closing, failed=failed)))
    fold = read_snapshot(write_snapshot(chain.fold))
    assert fold.failing == {"http": Failing("http", START_MS, 2, START_MS, "away")}


def test_a_snapshot_of_an_unclosed_fold_or_of_nothing_is_refused():
    with pytest.raises(InvariantBroken):
        write_snapshot(landed(8).fold)
    with pytest.raises(InvariantBroken):
        write_snapshot(EMPTY)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"number": "3"}, "number"),
        ({"shards": [{}]}, r"shards\[0\]"),
        ({"partitions": [[]]}, r"partitions\[0\]"),
        ({"deferred": None}, "deferred"),
        ({"more": 1}, "the document"),
        ({"format_version": 2}, "format version 2"),
    ],
)
def test_what_is_no_snapshot_is_named(change: dict[str, object], place: str):
    chain = landed(8)
    chain.commit()
    document = read_checksummed(write_snapshot(chain.fold))
    del document["checksum"]
    with pytest.raises(EntryInvalid, match=f"^{place}"):
        read_snapshot(write_checksummed({**document, **change}))


def test_partitions_sealed_long_ago_are_forgotten():
    chain = landed(8, 9)
    sealed(chain, 8)
    sealed(chain, 9, now_ms=START_MS + 100)
    assert forget_sealed(chain.fold, START_MS) == chain.fold
    assert [*forget_sealed(chain.fold, START_MS + 1).partitions] == [(TABLE, NINE)]
    assert [*forget_sealed(chain.fold, START_MS + 101).partitions] == []


def test_a_partition_that_was_never_sealed_is_kept():
    chain = landed(8)
    chain.commit()
    assert forget_sealed(chain.fold, START_MS + 10**12) == chain.fold


def test_a_partition_with_rows_since_its_seal_is_kept():
    chain = landed(8)
    sealed(chain, 8)
    chain.prepare(Part(key_of(), 1, {8: 1}))
    chain.commit()
    assert (TABLE, EIGHT) in forget_sealed(chain.fold, START_MS + 10**12).partitions


def test_a_partition_of_which_something_is_owed_is_kept():
    chain = landed(8)
    sealed(chain, 8)
    chain.prepare(Part(key_of(), 1, {9: 1}))
    chain.add(chain.batch(), deferred=[DeferredAction("http:1", "http", TABLE, EIGHT)])
    chain.commit()
    assert (TABLE, EIGHT) in forget_sealed(chain.fold, START_MS + 10**12).partitions
    chain.add(chain.batch(), done=["http:1"])
    chain.commit()
    assert (TABLE, EIGHT) not in forget_sealed(chain.fold, START_MS + 10**12).partitions


def test_nothing_is_forgotten_while_an_entry_is_unclosed():
    with pytest.raises(InvariantBroken):
        forget_sealed(landed(8).fold, 0)
