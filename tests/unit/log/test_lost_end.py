"""Traces that a log knows, and traces of entries that it does not have."""

import pytest

from ashore.log.lost_end import LogEnd, Trace, describe_loss, find_later

END = LogEnd(12, 3, 7)


@pytest.mark.parametrize(
    ("trace", "is_later"),
    [
        (Trace("x", 3), False),
        (Trace("x", 4), True),
        (Trace("x", 3, 6), False),
        (Trace("x", 3, 7), True),
        (Trace("x", 2, 7), True),
        (Trace("x", 4, 6), True),
    ],
)
def test_a_trace_is_later_than_the_log_by_its_epoch_or_its_batch(trace, is_later):
    assert bool(find_later(END, [trace])) is is_later


def test_an_empty_log_knows_of_nothing():
    assert find_later(LogEnd(), [Trace("x", 1), Trace("y", 1, 0)])
    assert find_later(LogEnd(), []) == []


def test_the_latest_come_first_and_are_reported():
    later = find_later(END, [Trace("a", 4), Trace("b", 5, 9), Trace("c", 5, 8), Trace("d", 4, 7)])
    assert [each.path for each in later] == ["b", "c", "d", "a"]
    reported = describe_loss(END, later)
    assert "entry 12, epoch 3, before batch 7" in reported
    assert "b (epoch 5, batch 9)" in reported
    assert "and 1 more" in reported
    assert "there is no log" in describe_loss(LogEnd(), later)
