import pytest
from tests.strategies import Chain

from ashore.log.plan_clean import StagedFile, plan_clean

NOW_MS, TTL_MS = 1_000_000, 1_000
OLD_MS = NOW_MS - TTL_MS


def staged(epoch: int, batch: int, unique: str = "f" * 16, modified_ms: int = OLD_MS) -> StagedFile:
    return StagedFile(f"{epoch}/{batch}-{unique}", epoch, batch, unique, 10, modified_ms)


@pytest.fixture
def chain() -> Chain:
    """Epoch 2 owns the slice; batch 0 is closed, batch 1, prepared by epoch 1, is not."""
    chain = Chain.started()
    chain.prepare()
    chain.prepare()
    chain.open()
    return chain


def deleted(chain: Chain, *files: StagedFile) -> list[StagedFile]:
    steps = plan_clean(chain.fold, files, NOW_MS, TTL_MS)
    assert all(step.why for step in steps)
    return [step.file for step in steps]


@pytest.mark.parametrize(
    ("epoch", "batch", "is_deleted_unclosed", "is_deleted_closed"),
    [
        (1, 0, True, True),  # an older epoch
        (1, 1, True, True),
        (1, 2, True, True),
        (2, 0, True, True),  # a closed batch
        (2, 1, False, True),  # the unclosed batch: a `reland` may be under way
        (2, 2, False, False),  # the next batch: being written
        (2, 3, False, False),
        (3, 0, False, False),  # an epoch that this fold does not know yet
        (3, 2, False, False),
    ],
)
def test_what_is_deleted(chain, epoch, batch, is_deleted_unclosed, is_deleted_closed):
    file = staged(epoch, batch)
    assert deleted(chain, file) == ([file] if is_deleted_unclosed else [])
    chain.commit()
    assert deleted(chain, file) == ([file] if is_deleted_closed else [])


def test_a_file_that_the_unclosed_entry_names_is_never_deleted(chain: Chain):
    for file in chain.fold.unclosed.body.files:
        for epoch in (0, 1, 2):
            for batch in (0, 1, 2):
                assert deleted(chain, staged(epoch, batch, file.unique)) == []


def test_a_relanded_file_is_never_deleted_and_the_lost_one_may_be(chain: Chain):
    (lost,) = chain.fold.unclosed.body.files
    chain.add(chain.reland(lost))
    (again,) = chain.fold.unclosed.body.files
    assert deleted(chain, staged(2, 1, again.unique)) == []
    assert deleted(chain, staged(1, 1, lost.unique)) != []


def test_a_young_file_is_left_to_its_slow_task(chain: Chain):
    assert deleted(chain, staged(1, 0, modified_ms=OLD_MS + 1)) == []
    assert deleted(chain, staged(1, 0, modified_ms=OLD_MS)) != []


def test_no_clock_makes_a_wanted_file_go(chain: Chain):
    (named,) = chain.fold.unclosed.body.files
    files = [staged(1, 1, named.unique, 0), staged(2, 2, modified_ms=0)]
    assert plan_clean(chain.fold, files, 10**15, 0) == ()


def test_an_old_fold_deletes_nothing_that_a_newer_one_keeps(chain: Chain):
    """A janitor may be frozen for long between its fold and its deletes."""
    old = chain.fold
    chain.prepare()
    chain.open()
    chain.commit()
    uniques = ["f" * 16, *(file.unique for file in old.unclosed.body.files)]
    files = [staged(e, b, u) for e in range(5) for b in range(5) for u in uniques]
    newer = deleted(chain, *files)
    steps = plan_clean(old, files, NOW_MS, TTL_MS)
    assert steps
    assert all(step.file in newer for step in steps)
