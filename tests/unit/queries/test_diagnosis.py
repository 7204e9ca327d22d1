"""Each finding on a checkpoint that Spark wrote, and a copy that does not have it."""

from pathlib import Path

import pytest
from tests.checkpoint_files import list_paths, opened, unpack
from tests.damage import DAMAGES, LAST, Damage
from tests.marks import but
from tests.unit.cli.test_commands import invoke

from ashore.queries.state.diagnosis.diagnose import diagnose
from ashore.queries.state.diagnosis.findings import MEANINGS, CheckpointFinding, Code
from ashore.queries.state.diagnosis.observation import Observed
from ashore.queries.state.diagnosis.observe import observe
from ashore.queries.state.diagnosis.repair import plan_repair, write_repair
from ashore.queries.state.survey import take_survey

CASES = [
    *("format-2", "hdfs-backed", "join-2", "named-sources", "no-keys", "rocksdb"),
    *("rocksdb-changelog", "stateless"),
]
# The first damage of each code.
EVERY_DAY = {
    *{each.code: name for name, each in reversed(DAMAGES.items())}.values(),
    *("a source that somebody names", "a flipped bit in a snapshot"),
}


def silent(_done: int, _total: int) -> None:
    """Show no progress."""


def contents(root: Path) -> dict[str, bytes]:
    return {path: (root / path).read_bytes() for path in list_paths(root)}


def look(root: Path, sources: int | None = None) -> tuple[Observed, list[CheckpointFinding]]:
    seen = observe(opened(root), sources)
    return seen, diagnose(seen)


@pytest.mark.parametrize("case", but(pytest.mark.slow, CASES, lambda case: case == "format-2"))
def test_nothing_is_found_where_nothing_is_wrong(case: str, tmp_path: Path) -> None:
    seen, findings = look(unpack(case, tmp_path))
    assert findings == []
    assert seen.good is not None
    looked = seen.looked
    assert looked.batches == 2 * (seen.done + 1)
    assert looked.files == len(list_paths(tmp_path / case))
    assert looked.checksums >= len(seen.good.files) - 1
    assert bool(looked.tables) == (case not in {"hdfs-backed", "named-sources", "stateless"})


@pytest.mark.parametrize("name", but(pytest.mark.slow, DAMAGES, lambda name: name in EVERY_DAY))
def test_each_damage_is_found_and_a_copy_does_not_have_it(name: str, tmp_path: Path) -> None:
    damage = DAMAGES[name]
    root = unpack(damage.case, tmp_path)
    damage.happen(root)
    before = contents(root)

    seen, findings = look(root, damage.sources)

    found = {each.code: each.file for each in findings}
    assert damage.code in found, findings
    assert found[damage.code].startswith(damage.file)
    plan = plan_repair(seen, findings)
    if damage.batch is None:
        assert plan is None
        return
    assert plan is not None, findings
    assert plan.batch == damage.batch
    copy = tmp_path / "copy"
    write_repair(opened(root), opened(copy), plan, silent, lambda: None)
    assert contents(root) == before
    assert look(copy, damage.sources)[1] == []
    assert take_survey(opened(copy)).required.batch == damage.batch


def test_each_code_has_a_damage_and_a_meaning() -> None:
    assert MEANINGS.keys() == set(Code)
    made = {each.code for each in DAMAGES.values()}
    assert made == set(Code) - {Code.TOPIC_RECREATED}  # that one needs a broker


@pytest.mark.parametrize("name", ["a missing change", "no schema"])
def test_the_command_repairs_or_says_why_not(name: str, tmp_path: Path) -> None:
    damage: Damage = DAMAGES[name]
    root = unpack(damage.case, tmp_path)
    damage.happen(root)
    copy = tmp_path / "copy"
    assert invoke("checkpoint", "doctor", root, "--explain")[0] == 4
    assert invoke("checkpoint", "doctor", root, "--explain", "--to", copy, "--no-trial")[0] == 4
    assert not copy.exists()
    code, out, err = invoke("checkpoint", "doctor", root, "--to", copy, "--no-trial")
    if damage.batch is None:
        assert (code, copy.exists()) == (4, False)
        assert damage.file in err
        assert "restore a savepoint" in err
    else:
        assert code == 0, err
        assert f"is at batch {damage.batch}" in out
        assert damage.batch < LAST
