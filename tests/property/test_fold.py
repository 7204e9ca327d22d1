"""I6 and I1: every prefix of a log folds, and the fold says what its entries said."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.strategies import START_MS, Chain, chains, drafts

from ashore.errors import LogDamaged
from ashore.log.entries import Draft, Entry, Open, Prepare, Skip, write_entry
from ashore.log.extend import extend
from ashore.log.fold import EMPTY, Fold, forget_sealed
from ashore.log.names import SliceName
from ashore.log.plan_commit import CloseEntry, Publishing, plan_commit
from ashore.log.positions import find_seams
from ashore.log.snapshot import read_snapshot, write_snapshot

NAME = SliceName("clicks", "main")


def fold_all(entries: list[Entry], fold: Fold = EMPTY) -> Fold:
    for entry in entries:
        fold = extend(fold, entry)
    return fold


@given(chains())
def test_any_prefix_of_a_log_folds(chain: Chain):
    folds = [EMPTY]
    for entry in chain.entries:
        folds.append(extend(folds[-1], entry))
    assert folds[-1] == chain.fold
    for length, fold in enumerate(folds):
        assert fold_all(chain.entries[:length]) == fold  # pure: folding again changes nothing


@given(chains())
def test_a_snapshot_and_the_tail_fold_to_what_the_whole_log_folds_to(chain: Chain):
    fold = EMPTY
    for index, entry in enumerate(chain.entries):
        fold = extend(fold, entry)
        if fold.unclosed is None:
            begun = read_snapshot(write_snapshot(fold))
            assert begun.base == fold.end
            assert replace(fold_all(chain.entries[index + 1 :], begun), base=-1) == chain.fold


@given(chains())
def test_ranges_of_a_shard_are_contiguous_and_the_sums_are_those_of_the_entries(chain: Chain):
    ranges = {key: [] for key in chain.fold.shards}
    landed = dict.fromkeys(chain.fold.shards, 0)
    for entry in chain.entries:
        if isinstance(entry.body, Prepare):
            for read in entry.body.shards:
                ranges[read.key].append(read.offsets)
                landed[read.key] += read.landed
        elif isinstance(entry.body, Skip):
            for each in entry.body.ranges:
                ranges[each.key].append(each.offsets)
    for key, state in chain.fold.shards.items():
        assert find_seams(key, state.first, ranges[key]) == []
        assert state.next == max([state.first, *(each.end for each in ranges[key])])
        assert state.landed == landed[key]
        assert state.fetched == state.landed + state.dead + state.filtered + state.dropped
        assert state.next - state.first >= state.fetched + state.skipped


@given(chains(), st.data())
def test_an_entry_taken_out_put_twice_or_exchanged_is_damage(chain: Chain, data: st.DataObject):
    index = data.draw(st.integers(0, len(chain.entries) - 1))
    entries = chain.entries
    twice = [*entries[: index + 1], *entries[index:]]
    without = [*entries[:index], *entries[index + 1 :]]
    damaged = [twice] if index == len(entries) - 1 else [twice, without]
    for each in damaged:
        with pytest.raises(LogDamaged):
            fold_all(each)


@given(chains(), drafts, st.booleans())
def test_whatever_comes_next_it_folds_or_is_named(chain: Chain, draft: Draft, fits: bool):
    """I6: total. With `fits` the frame is right and only the body is nonsense."""
    if fits:
        frame = {"number": chain.fold.end + 1, "previous": chain.fold.last}
        opens = isinstance(draft.body, Open)
        closing = None if opens else chain.closing() or draft.closing
        draft = replace(draft, **frame, epoch=chain.fold.epoch + opens, closing=closing)
    entry, _ = write_entry(draft)
    damage: LogDamaged | None = None
    try:
        fold = extend(chain.fold, entry)
    except LogDamaged as error:
        damage = error
    if damage is None:
        assert fold.end == entry.number
    else:
        assert damage.fields["entry"] == entry.number
        assert damage.message.startswith(f"entry {entry.number} ({entry.kind}) does not follow: ")


@given(chains())
def test_the_plan_of_a_fold_names_each_file_once_and_ends_with_the_close(chain: Chain):
    steps = plan_commit(NAME, chain.fold, Publishing(True))
    assert bool(steps) == (chain.fold.unclosed is not None)
    if steps:
        assert steps[-1] == CloseEntry(chain.fold.unclosed.number)


@given(chains(), st.integers(-1, 1))
@settings(max_examples=examples(50))
def test_forgetting_sealed_partitions_changes_nothing_else(chain: Chain, shift: int):
    if chain.fold.unclosed is not None:
        chain.commit()
    kept = forget_sealed(chain.fold, START_MS + shift)
    assert replace(kept, partitions=chain.fold.partitions) == chain.fold
    for key, state in chain.fold.partitions.items():
        if key not in kept.partitions:
            assert state.sealed_version > 0
            assert state.sealed_ms < START_MS + shift
            assert state.rows <= state.sealed_rows
