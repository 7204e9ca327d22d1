"""The executable model, in its smaller settings: it holds, and mutations of it are caught.

The larger settings are in tests/crash/test_model_settings.py.
"""

import pytest
from model import compaction, histories, retention, sealing, streaming_query
from model.landing_log import GAP, LATE_CLEAN, MUTATIONS, explore
from tests.marks import but

QUICK = {
    "append without a look": "I3",
    "remove what an earlier release may try": "I3",
    "retry with other content": "I1",
    "move before prepare is settled": "I3",
    "clean the unclosed batch": "I5",
    "resolve again at each start": "I1",
    "go on over a gap": "I1",
    "skip before the moves": "I5",
    "look at the target first": "I6",
    "give up without a look": "I5",
    "land again without an open": "I6",
    "land again as a new batch": "I1",
    "clean what is landed again": "I5",
}
SLOW = {
    "skip the look": "I5",
    "one snapshot name": "I5",
    "read at or below the snapshot": "I6",
    "look only at the end": "I6",
    "look only at the end, keep the snapshot's entry": "I6",
}
SHORTCUTS = but(pytest.mark.slow, {**QUICK, **SLOW}.items(), lambda name, _: name in QUICK)
QUICK_OF_A_QUERY = {"tell Spark first", "one attempt for all", "leave out before the entry"}


@pytest.mark.slow
def test_the_protocol_holds_with_two_writers_a_janitor_and_an_unanswered_call():
    states, wrong, trace = explore(LATE_CLEAN)
    assert wrong is None, trace
    assert states == 78_415  # fewer: something is no longer explored


def test_the_protocol_holds_where_the_source_drops_offsets():
    states, wrong, trace = explore(GAP)
    assert wrong is None, trace
    assert states == 12_724


@pytest.mark.thirds
@pytest.mark.parametrize(("mutation", "invariant"), SHORTCUTS)
def test_a_shortcut_breaks_an_invariant(mutation: str, invariant: str):
    _, wrong, trace = explore(dict(MUTATIONS)[mutation], mutation)
    assert wrong is not None
    assert wrong.startswith(f"{invariant}: ")
    assert trace


@pytest.mark.thirds
@pytest.mark.parametrize(
    "mutation", but(pytest.mark.slow, streaming_query.MUTATIONS, QUICK_OF_A_QUERY.__contains__)
)
def test_a_shortcut_doubles_or_loses_rows_of_a_query(mutation: str):
    _, wrong, trace = streaming_query.explore(mutation)
    assert wrong is not None
    assert trace


@pytest.mark.thirds
@pytest.mark.parametrize(
    "mutation",
    but(
        pytest.mark.slow,
        streaming_query.MUTATIONS_OF_MIGRATION,
        {"count an attempt before its entry", "release before the entry"}.__contains__,
    ),
)
def test_a_shortcut_of_a_migration_leaves_no_job_that_starts(mutation: str):
    _, wrong, trace = streaming_query.explore_migration(mutation)
    assert wrong is not None
    assert trace


@pytest.mark.thirds
@pytest.mark.parametrize(
    "mutation",
    but(
        pytest.mark.slow,
        streaming_query.MUTATIONS_OF_BAD,
        {"leave out before the entry"}.__contains__,
    ),
)
def test_a_shortcut_takes_what_is_left_out_into_the_state(mutation: str):
    _, wrong, trace = streaming_query.explore_bad(mutation)
    assert wrong is not None
    assert "dead letters" in wrong
    assert trace


@pytest.mark.thirds
@pytest.mark.parametrize("mutation", streaming_query.MUTATIONS_OF_NEW)
def test_a_shortcut_breaks_a_log_that_begins_with_a_savepoint(mutation: str):
    _, wrong, trace = streaming_query.explore_new(mutation)
    assert wrong is not None
    assert trace


SHORTCUTS_OF_SEALING = {
    "read the other log to its end": "S1",
    "seal before the own moves": "S1",
    "count versions in memory": "S2",
    "seal once": "S3",
    "every slice seals": "S2",
    "forget what was sealed": "S2",
    "go on while the log is ahead": "S3",
    "a reset takes seals back": "S2",
    "a reset leaves the times of seals": "S3",
}


SLOW_OF_SEALING = {
    "a reset takes seals back",
    "a reset leaves the times of seals",
    "go on while the log is ahead",
}


@pytest.mark.thirds
@pytest.mark.parametrize(
    ("mutation", "invariant"),
    but(
        pytest.mark.slow, SHORTCUTS_OF_SEALING.items(), lambda name, _: name not in SLOW_OF_SEALING
    ),
)
def test_a_shortcut_of_sealing_tells_what_is_not_so(mutation: str, invariant: str):
    _, wrong, trace = sealing.explore(mutation)
    assert wrong is not None
    assert wrong.startswith(f"{invariant}: ")
    assert trace


@pytest.mark.slow
def test_sealing_holds_where_the_clock_jumps_ahead_and_is_set_right():
    states, wrong, trace = sealing.explore(clock=sealing.JUMP)
    assert wrong is None, trace
    assert states == 268_030  # fewer: something is no longer explored


def test_every_shortcut_of_sealing_is_played():
    assert SHORTCUTS_OF_SEALING.keys() == set(sealing.MUTATIONS)


@pytest.mark.slow
def test_the_protocol_of_compaction_holds():
    states, wrong, trace = compaction.explore()
    assert wrong is None, trace
    assert states == 72_712  # fewer: something is no longer explored


SHORTCUTS_OF_COMPACTION = {
    "commit before the entry": "C3",
    "commit before the move": "C2",
    "commit on another base": "C1",
    "commit on any version": "C1",
    "an unanswered commit is done": "C3",
    "an unanswered commit is abandoned": "C3",
    "a new id for each try": "C3",
    "count before the entry is closed": "C3",
}


@pytest.mark.parametrize(("mutation", "invariant"), SHORTCUTS_OF_COMPACTION.items())
def test_a_shortcut_of_compaction_breaks_an_invariant(mutation: str, invariant: str):
    _, wrong, trace = compaction.explore(mutation)
    assert wrong is not None
    assert wrong.startswith(f"{invariant}: ")
    assert trace


def test_every_shortcut_of_compaction_is_played():
    assert SHORTCUTS_OF_COMPACTION.keys() == set(compaction.MUTATIONS)


def test_the_protocol_of_histories_holds():
    states, wrong, trace = histories.explore()
    assert wrong is None, trace
    assert states == 40_070  # fewer: something is no longer explored


SHORTCUTS_OF_HISTORIES = {
    "do not ask": "H1",
    "name the leader after the reading": "H1",
    "name the leader of the last record": "H1",
    "keep what another leader has told": "H1",
    "keep the leader where somebody decides": "H2",
    "forget the leader where somebody decides": "H1",
}


@pytest.mark.thirds
@pytest.mark.parametrize(("mutation", "invariant"), SHORTCUTS_OF_HISTORIES.items())
def test_a_shortcut_goes_on_in_another_history(mutation: str, invariant: str):
    _, wrong, trace = histories.explore(mutation)
    assert wrong is not None
    assert wrong.startswith(f"{invariant}: ")
    assert trace


def test_every_shortcut_of_histories_is_played():
    assert SHORTCUTS_OF_HISTORIES.keys() == set(histories.MUTATIONS)


SHORTCUTS_OF_RETENTION = {
    "delete before the entry": "R1",
    "the catalog last": "R4",
    "the entry first, also without files": "R4",
    "records still come to it": "R2",
    "delete what is there, not what was seen": "R1",
    "look at the log, and not at the files": "R3",
}


@pytest.mark.parametrize("manual", [False, True])
def test_the_protocol_of_retention_holds(manual: bool):
    states, wrong, trace = retention.explore(manual=manual)
    assert wrong is None, f"{wrong}: {trace}"
    assert states > 500


@pytest.mark.thirds
@pytest.mark.parametrize("mutation", SHORTCUTS_OF_RETENTION)
def test_a_shortcut_of_retention_is_found(mutation: str):
    _, wrong, trace = retention.explore(mutation)
    assert (wrong or "").startswith(SHORTCUTS_OF_RETENTION[mutation]), f"{wrong}: {trace}"


def test_every_shortcut_of_retention_is_played():
    assert SHORTCUTS_OF_RETENTION.keys() == set(retention.MUTATIONS)
