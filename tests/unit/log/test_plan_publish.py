"""The actions that an entry defers, by the tables that wait for their seals."""

from dataclasses import replace

import pytest
from tests.strategies import TABLE, Chain, Part, key_of

from ashore.log.entries import Commit, DeferredAction, FailedTries
from ashore.log.plan_commit import (
    NO_CATALOG,
    NOTHING_CLOSED,
    Publish,
    Publishing,
    Tried,
    complete_deferred,
    find_due,
    plan_publish,
)

DEAD = f"{TABLE}__dead"
REGISTER, HTTP = (
    DeferredAction("register:8", "register", TABLE, "hour=8"),
    DeferredAction("http:8", "http", TABLE, "8"),
)
KNOWN = {REGISTER.id: REGISTER, HTTP.id: HTTP}


@pytest.fixture
def chain() -> Chain:
    """A log whose last entry, unclosed, fills a table and its dead-letter table."""
    chain = Chain.started()
    chain.prepare(Part(key_of(), 4, {8: 3}, dead=1))
    return chain


def publish(chain: Chain, *waiting: str) -> Publish | None:
    return plan_publish(chain.fold, Publishing(True, lambda table: table in waiting))


def test_each_new_partition_is_owed_but_those_that_wait(chain: Chain):
    assert {each.table for each in publish(chain).effects} == {TABLE, DEAD}
    assert {each.table for each in publish(chain, TABLE).effects} == {DEAD}
    assert publish(chain, TABLE, DEAD) is None
    assert plan_publish(chain.fold, NO_CATALOG) is None


def test_an_entry_of_which_a_partition_waits_is_not_registered(chain: Chain):
    assert publish(chain).registers_all
    assert not publish(chain, TABLE).registers_all


def test_where_nothing_is_unclosed_nothing_is_published(chain: Chain):
    chain.commit()
    assert publish(chain) is None


def test_a_batch_without_files_is_registered_where_there_is_a_catalog(chain: Chain):
    chain.add(replace(chain.batch(Part(key_of(), 2, {})), targets=()))
    assert publish(chain) == Publish((), registers_all=True)
    assert plan_publish(chain.fold, NO_CATALOG) is None


def test_what_its_closing_could_not_tell_is_done_after_it(chain: Chain):
    closing = replace(chain.closing(), registered=False, deferred=(REGISTER, HTTP))
    assert find_due({}, closing) == (HTTP,)
    assert find_due({}, replace(closing, registered=True)) == (REGISTER, HTTP)
    chain.append(chain.draft(Commit("idle"), closing))
    assert find_due(chain.fold.deferred, NOTHING_CLOSED) == (REGISTER, HTTP)


def test_tries_add_up_until_the_closing_is_written():
    once = complete_deferred(
        KNOWN, NOTHING_CLOSED, Tried(frozenset(), (FailedTries("http", 1, 5, "away"),))
    )
    assert (once.deferred, once.done) == ((), ())
    twice = complete_deferred(
        KNOWN, once, Tried(frozenset({REGISTER.id}), (FailedTries("http", 1, 6, "503"),))
    )
    assert (twice.done, twice.failed) == ((REGISTER.id,), (FailedTries("http", 2, 6, "503"),))
    assert find_due(KNOWN, twice) == (HTTP,)
    done = complete_deferred(KNOWN, twice, Tried(frozenset({HTTP.id})))
    assert (done.done, done.failed) == ((HTTP.id, REGISTER.id), ())
