"""What an entry owes to a catalog, by the tables that wait for their seals."""

from dataclasses import replace

import pytest
from tests.strategies import TABLE, Chain, Part, key_of

from ashore.protocol.entries import Commit, Failed, Owed
from ashore.protocol.plan_owed import (
    NOTHING_CLOSED,
    Tried,
    find_due,
    plan_owed,
    registers_all,
    settle,
)

DEAD = f"{TABLE}__dead"
REGISTER, HTTP = Owed("register:8", "register", TABLE, "hour=8"), Owed("http:8", "http", TABLE, "8")
KNOWN = {REGISTER.id: REGISTER, HTTP.id: HTTP}


@pytest.fixture
def chain() -> Chain:
    """A log whose last entry, unclosed, fills a table and its dead-letter table."""
    chain = Chain.started()
    chain.prepare(Part(key_of(), 4, {8: 3}, dead=1))
    return chain


def owed_tables(chain: Chain, *waiting: str) -> set[str]:
    owed = plan_owed(chain.fold, registers=True, waits=lambda table: table in waiting)
    return {each.table for each in owed}


def test_each_new_partition_is_owed_but_those_that_wait(chain: Chain):
    assert owed_tables(chain) == {TABLE, DEAD}
    assert owed_tables(chain, TABLE) == {DEAD}
    assert owed_tables(chain, TABLE, DEAD) == set()
    assert plan_owed(chain.fold, registers=False) == ()


def test_an_entry_of_which_a_partition_waits_is_not_registered(chain: Chain):
    assert registers_all(chain.fold, registers=True)
    assert not registers_all(chain.fold, registers=True, waits=lambda table: table == TABLE)
    assert not registers_all(chain.fold, registers=False)


def test_what_its_closing_could_not_tell_is_done_after_it(chain: Chain):
    closing = replace(chain.closing(), registered=False, owed=(REGISTER, HTTP))
    assert find_due({}, closing) == (HTTP,)
    assert find_due({}, replace(closing, registered=True)) == (REGISTER, HTTP)
    chain.append(chain.draft(Commit("idle"), closing))
    assert find_due(chain.fold.owed, NOTHING_CLOSED) == (REGISTER, HTTP)


def test_tries_add_up_until_the_closing_is_written():
    once = settle(KNOWN, NOTHING_CLOSED, Tried(frozenset(), (Failed("http", 1, 5, "away"),)))
    assert (once.owed, once.done) == ((), ())
    twice = settle(KNOWN, once, Tried(frozenset({REGISTER.id}), (Failed("http", 1, 6, "503"),)))
    assert (twice.done, twice.failed) == ((REGISTER.id,), (Failed("http", 2, 6, "503"),))
    assert find_due(KNOWN, twice) == (HTTP,)
    done = settle(KNOWN, twice, Tried(frozenset({HTTP.id})))
    assert (done.done, done.failed) == ((HTTP.id, REGISTER.id), ())
