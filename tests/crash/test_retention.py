"""An old partition is dropped whole, whatever call of storage or catalog a fault strikes."""

import re
from collections.abc import Sequence

import pytest
from tests.crash import retention_job
from tests.crash.harness import FAULTS, find_failures, require_none_fails
from tests.crash.retention_job import SCENARIOS

from ashore.topics.loop.retention import RetirePartition, Retirer, delete_files

# Files of two batches, and a success file where the partition was sealed.
DELETES = {
    "by itself": 3,
    "by itself, files gone": 1,
    "by command": 2,
    "by command, files gone": 0,
}
EVERYDAY = {
    ("by itself", "fails before"),
    ("by itself", "stops after"),
    ("by itself, files gone", "late at the end"),
    ("by command", "stops after"),
}


@pytest.fixture(autouse=True)
def looks(monkeypatch: pytest.MonkeyPatch) -> None:
    retention_job.look_at_each_turn(monkeypatch)


@pytest.mark.parametrize("name", SCENARIOS)
def test_it_makes_every_kind_of_call(name: str) -> None:
    kinds = [call.kind for call in SCENARIOS[name].number_calls()]
    assert kinds.count("drop_partitions") == 1
    assert kinds.count("delete") == DELETES[name]


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        pytest.param(name, fault, marks=[] if (name, fault) in EVERYDAY else pytest.mark.long)
        for name in SCENARIOS
        for fault in FAULTS
    ],
)
def test_every_call(name: str, fault: str) -> None:
    require_none_fails(SCENARIOS[name].cases(FAULTS[fault]))


# ---- a suite that cannot turn red proves nothing


def delete_before_the_entry(patch: pytest.MonkeyPatch) -> None:
    begin = Retirer.begin

    def hasty(self: Retirer, plan: Sequence[RetirePartition]) -> bool:
        delete_files(self._storage, [path for each in plan for path in each.files])
        return begin(self, plan)

    patch.setattr(Retirer, "begin", hasty)


def forget_last(patch: pytest.MonkeyPatch) -> None:
    """Let the catalog forget partitions when their files are gone."""
    apply = Retirer.apply

    def late(self: Retirer, plan: Sequence[RetirePartition]) -> int:
        deleted = delete_files(self._storage, [path for each in plan for path in each.files])
        apply(self, plan)
        return deleted

    patch.setattr(Retirer, "apply", late)


def say_first(patch: pytest.MonkeyPatch) -> None:
    """Append the entry before the catalog has forgotten a partition without files."""
    begin, apply = Retirer.begin, Retirer.apply

    def hasty(self: Retirer, plan: Sequence[RetirePartition]) -> bool:
        marks = [path for each in plan if not each.has_data for path in each.files]
        delete_files(self._storage, marks)
        return True

    def late(self: Retirer, plan: Sequence[RetirePartition]) -> int:
        begin(self, plan)
        return apply(self, plan)

    patch.setattr(Retirer, "begin", hasty)
    patch.setattr(Retirer, "apply", late)


MUTATIONS = {
    "delete before the entry": (delete_before_the_entry, "by itself", "stops after", "gone before"),
    "forget last": (forget_last, "by itself", "stops after", "the catalog lists"),
    "say first": (say_first, "by itself, files gone", "stops after", "left of|the catalog lists"),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_broken_rule_is_found(mutation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate, name, fault, finds = MUTATIONS[mutation]
    mutate(monkeypatch)
    found = next(find_failures(SCENARIOS[name].cases(FAULTS[fault])), "nothing was found")
    assert re.search(finds, found), found
