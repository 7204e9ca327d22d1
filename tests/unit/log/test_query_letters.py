"""What an entry may say of records that a query has left aside."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from tools.golden import DIRECTORY

from ashore.log.entries import Entry, Prepare, ShardRead, read_entry
from ashore.log.entries.batch import fold_prepare
from ashore.log.files import DataFile, FileSpan
from ashore.log.fold import EMPTY, Fold, Refused, ShardState
from ashore.log.names import SliceName
from ashore.proof.evidence.ledger import find_miscounts

NAME = SliceName("job", "ods__big")


@pytest.fixture
def entry() -> Entry:
    return read_entry((DIRECTORY / "aside-prepare.json").read_bytes())


def fold_of(body: Prepare) -> Fold:
    (read,) = body.shards
    first = read.offsets.start
    state = ShardState(read.key, "id", first, first, *([0] * 8), event_max_ms=None, active_ms=0)
    return replace(EMPTY, shards={read.key: state})


def with_read(body: Prepare, **changes: int) -> Prepare:
    (read,) = body.shards
    return replace(body, shards=(replace(read, **changes),))


def with_letters(body: Prepare, **changes: object) -> Prepare:
    rows, letters = body.files
    return replace(body, files=(rows, replace(letters, **changes)))


def test_dead_letters_of_a_query_are_counted(entry: Entry) -> None:
    body = entry.body
    assert isinstance(body, Prepare)
    changes = fold_prepare(fold_of(body), body, entry.number)
    (state,) = changes["shards"].values()
    assert (state.fetched, state.landed, state.dead) == (1, 0, 1)
    assert list(find_miscounts(NAME, entry, body)) == []


WRONG: dict[str, Callable[[Prepare], Prepare]] = {
    "none is counted": lambda body: with_read(body, fetched=0, dead=0),
    "more are counted": lambda body: with_read(body, fetched=2, dead=2),
    "one was not fetched": lambda body: with_read(body, fetched=0),
    "a row is counted": lambda body: with_read(body, fetched=2, landed=1),
    "its offset is of another batch": lambda body: with_letters(
        body, spans=(FileSpan(0, 106, 107, 1),)
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_does_not_add_up_is_refused_and_found(entry: Entry, wrong: str) -> None:
    assert isinstance(entry.body, Prepare)
    body = WRONG[wrong](entry.body)
    with pytest.raises(Refused):
        fold_prepare(fold_of(body), body, entry.number)
    assert list(find_miscounts(NAME, entry, body))


def test_a_dead_letter_has_its_offset_and_a_row_has_none(entry: Entry) -> None:
    body = entry.body
    assert isinstance(body, Prepare)
    rows, letters = body.files
    without = with_letters(with_read(body, fetched=0, dead=0), spans=())
    beside: DataFile = replace(rows, rows=1, spans=(FileSpan(0, 104, 105, 1),))
    read: ShardRead = replace(body.shards[0], fetched=2, landed=1)
    for wrong in (without, replace(body, files=(beside, letters), shards=(read,))):
        with pytest.raises(Refused, match="do not fit"):
            fold_prepare(fold_of(wrong), wrong, entry.number)
