"""The executable model, in its larger settings: a minute, so not in `make check`."""

import pytest
from model import sealing, streaming_query
from model.landing_log import (
    GAP,
    LATE,
    LATE_CLEAN,
    MUTATIONS,
    RESTART,
    SETTINGS,
    THREE,
    UPGRADE,
    Setting,
    explore,
)
from tests.marks import but

SLOW = {
    "recover before open": "I5",
    "epoch from the highest open": "I5",
    "look only at the end, go past stops": "I5",
}


@pytest.mark.thirds("the model in larger settings")
@pytest.mark.parametrize(
    "setting",
    but(
        pytest.mark.long,
        [each for each in SETTINGS if each not in (LATE_CLEAN, GAP)],
        lambda setting: setting not in (LATE, RESTART, THREE, UPGRADE),
    ),
    ids=lambda each: each.name,
)
def test_the_protocol_holds(setting: Setting):
    _, wrong, trace = explore(setting)
    assert wrong is None, trace


@pytest.mark.thirds("the model in larger settings")
@pytest.mark.parametrize(("mutation", "invariant"), SLOW.items())
def test_a_shortcut_breaks_an_invariant(mutation: str, invariant: str):
    _, wrong, _ = explore(dict(MUTATIONS)[mutation], mutation)
    assert wrong is not None
    assert wrong.startswith(f"{invariant}: ")


def test_every_mutation_is_played_here_or_with_the_smaller_settings():
    from tests.property import test_model  # noqa: PLC0415

    assert {*test_model.QUICK, *test_model.SLOW, *SLOW} == set(dict(MUTATIONS))


@pytest.mark.thirds("the model in larger settings")
@pytest.mark.parametrize(
    ("records", "expected"), [(2, 128_404), pytest.param(3, 987_839, marks=pytest.mark.long)]
)
def test_the_protocol_of_queries_holds(
    records: int, expected: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(streaming_query, "RECORDS", records)
    states, wrong, trace = streaming_query.explore()
    assert wrong is None, trace
    assert states == expected  # fewer: something is no longer explored


@pytest.mark.thirds("the model in larger settings")
@pytest.mark.slow
def test_the_protocol_of_a_log_that_begins_with_a_savepoint_holds():
    states, wrong, trace = streaming_query.explore_new()
    assert wrong is None, trace
    assert states == 41_852  # fewer: something is no longer explored


@pytest.mark.long
def test_the_protocol_of_what_queries_leave_out_holds():
    states, wrong, trace = streaming_query.explore_bad()
    assert wrong is None, trace
    assert states == 458_477  # fewer: something is no longer explored


@pytest.mark.thirds("the model in larger settings")
@pytest.mark.slow
def test_a_migration_and_its_undo_leave_the_old_job_or_the_new_one():
    states, wrong, trace = streaming_query.explore_migration()
    assert wrong is None, trace
    assert states == 31_156  # fewer: something is no longer explored


@pytest.mark.long
def test_a_copy_from_before_a_migration_is_not_mixed_with_the_new_plan():
    states, wrong, trace = streaming_query.explore_copies()
    assert wrong is None, trace
    assert states == 94_168  # fewer: something is no longer explored
    _, wrong, _ = streaming_query.explore_copies(*streaming_query.MUTATIONS_OF_COPIES)
    assert "means two things" in (wrong or "")


@pytest.mark.thirds("the model in larger settings")
@pytest.mark.parametrize(("rows", "expected"), [(sealing.SMALL, 27_042), (sealing.LARGE, 182_346)])
def test_the_protocol_of_sealing_holds(rows: dict[str, int], expected: int):
    states, wrong, trace = sealing.explore(rows=rows)
    assert wrong is None, trace
    assert states == expected  # fewer: something is no longer explored
