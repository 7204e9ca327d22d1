"""Entries as bytes: whatever is written reads back, whatever is damaged is noticed."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.strategies import KIND_STRATEGIES, Chain, bodies, chains, closings, drafts

from ashore.base import codec
from ashore.base.codec import Malformed
from ashore.log.entries import (
    KINDS,
    Closing,
    Draft,
    EntryInvalid,
    Prepare,
    read_entry,
    write_checksummed,
    write_entry,
)
from ashore.log.snapshot import read_snapshot, write_snapshot

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)


def test_there_is_a_strategy_for_every_kind():
    assert KIND_STRATEGIES.keys() == KINDS.keys()


@given(drafts)
def test_an_entry_reads_back_as_it_was_written(draft: Draft):
    entry, data = write_entry(draft)
    assert read_entry(data) == entry
    assert data.count(b"\n") == 1
    for name in Draft.__slots__:
        assert getattr(entry, name) == getattr(draft, name)


@given(bodies, closings)
def test_the_json_form_survives_a_json_library(body, closing: Closing):
    for value in (body, closing):
        assert codec.decode(type(value), json.loads(json.dumps(codec.encode(value)))) == value


@given(drafts, st.data())
def test_a_flipped_byte_is_noticed_wherever_it_is(draft: Draft, data: st.DataObject):
    _, written = write_entry(draft)
    place = data.draw(st.integers(0, len(written) - 1))
    flip = data.draw(st.integers(1, 255))
    damaged = bytearray(written)
    damaged[place] ^= flip
    with pytest.raises(EntryInvalid):
        read_entry(bytes(damaged))


@given(drafts, st.data())
def test_a_truncated_or_longer_entry_is_noticed(draft: Draft, data: st.DataObject):
    _, written = write_entry(draft)
    length = data.draw(st.integers(0, len(written) - 1))
    for damaged in (written[:length], written + written[length:], written[length + 1 :]):
        with pytest.raises(EntryInvalid):
            read_entry(damaged)


@given(st.sampled_from([*KINDS.values(), Closing]), json_values)
def test_decoding_strange_json_is_malformed_or_right(wanted: type, value: codec.Json):
    try:
        decoded = codec.decode(wanted, value)
    except Malformed:
        return
    assert codec.encode(decoded) == value


@given(st.dictionaries(st.text(max_size=8), json_values, max_size=5))
def test_a_sealed_document_that_is_no_entry_is_invalid(document: dict[str, codec.Json]):
    document.pop("checksum", None)
    for wrapped in (document, {**document, "format_version": 1, "kind": "commit"}):
        with pytest.raises(EntryInvalid):
            read_entry(write_checksummed(wrapped))


@given(drafts, st.data())
def test_one_changed_value_is_malformed_or_another_entry(draft: Draft, data: st.DataObject):
    """With a right checksum: what a foreign writer might do. Never another error."""
    entry, written = write_entry(draft)
    document = json.loads(written)
    del document["checksum"]
    holder: codec.Json = document
    while True:
        items = list(holder.items() if isinstance(holder, dict) else enumerate(holder))
        if not items:
            return
        name, inner = data.draw(st.sampled_from(items))
        if isinstance(inner, dict | list) and inner and data.draw(st.booleans()):
            holder = inner
            continue
        holder[name] = data.draw(json_values)
        break
    if isinstance(holder[name], float) and holder[name] != holder[name]:
        return
    try:
        changed = read_entry(write_checksummed(document))
    except EntryInvalid:
        return
    assert (changed == entry) == (holder[name] == inner and type(holder[name]) is type(inner))


@given(chains())
@settings(max_examples=examples(50))
def test_a_snapshot_reads_back_and_notices_a_flipped_byte(chain: Chain):
    if chain.fold.unclosed is not None:
        chain.commit()
    data = write_snapshot(chain.fold)
    fold = read_snapshot(data)
    assert write_snapshot(fold) == data
    for place in range(0, len(data), 7):
        damaged = bytearray(data)
        damaged[place] ^= 0x20
        with pytest.raises(EntryInvalid):
            read_snapshot(bytes(damaged))


@given(chains())
@settings(max_examples=examples(50))
def test_a_valid_log_survives_its_bytes(chain: Chain):
    assert [read_entry(data) for data in chain.data] == chain.entries
    assert (
        any(isinstance(each.body, Prepare) for each in chain.entries) or chain.fold.next_batch == 0
    )
