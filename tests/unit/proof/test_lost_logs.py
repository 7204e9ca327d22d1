"""A log that is gone, or has lost its end, as every command sees it."""

import pytest
from tests.unit.proof.lakes import Lake, fill, make_lake

from ashore.errors import LogLost
from ashore.log import names
from ashore.proof.audit.auditor import audit_once
from ashore.proof.evidence.result import ProblemKind, Status
from ashore.proof.status.status import read_status
from ashore.topics.use.take_over import rejoin_topic


def lose(lake: Lake, keep: int = 0) -> None:
    """Delete the entries of the log from number `keep` on."""
    for entry in lake.entries[keep:]:
        lake.storage.delete(names.entry_path(lake.name, entry.number))


@pytest.mark.parametrize("keep", [0, 1, 2, 3])
def test_status_audit_and_writers_see_it(keep: int):
    lake = make_lake()
    lose(lake, keep)

    (warned,) = [each for each in read_status(lake.opened()).warnings if each.kind == "log_lost"]
    assert "ashore doctor" in warned.hint

    report = audit_once(lake.opened())
    assert report.exit_code == 5
    (finding,) = [each for each in report.findings if each.problem.kind is ProblemKind.LOG_LOST]
    assert "epoch 1, batch 1" in finding.problem.text

    with pytest.raises(LogLost):
        rejoin_topic(lake.opened(), "clicks", takes_over=True)
    assert len(lake.storage.list(names.log_directory(lake.name))) == keep


def test_a_log_that_is_whole_is_not_warned_of():
    lake = make_lake()
    assert read_status(lake.opened()).warnings == ()
    assert audit_once(lake.opened()).findings == ()


def test_an_empty_lake_while_the_source_holds_records_has_never_run():
    lake = Lake()
    lake.source.create("clicks", 1)
    fill(lake.source, "clicks", 0, 7)
    result = lake.verify()
    assert (result.status, result.exit_code) == (Status.NEVER_RAN, 6)
    assert "lost 0" not in result.summary
    assert any("Kafka holds 7 offsets" in note for note in result.notes)
    assert audit_once(lake.opened()).exit_code == 6


def test_an_empty_lake_while_the_source_does_not_answer_has_never_run():
    lake = Lake()
    lake.source.is_reachable = False
    assert lake.verify().status is Status.NEVER_RAN
    assert audit_once(lake.opened()).exit_code == 6


def test_a_topic_that_does_not_exist_was_not_looked_at():
    result = Lake().verify()
    assert (result.status, result.exit_code) == (Status.UNPROVABLE, 6)
    assert [each.what for each in result.not_checked] == ["topic clicks"]
    assert "lost 0" not in result.summary


def test_an_empty_lake_with_nothing_to_land_is_in_order():
    lake = Lake()
    lake.source.create("clicks", 1)
    assert lake.verify().exit_code == 0
    assert audit_once(lake.opened()).exit_code == 0
