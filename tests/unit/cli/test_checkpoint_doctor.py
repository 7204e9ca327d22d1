"""`ashore checkpoint doctor`: its answers, and a job that goes on with a repaired checkpoint."""

import json
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.checkpoint_files import list_paths, opened, unpack
from tests.damage import DAMAGES, edit
from tests.unit.cli.test_checkpoint_commands import JOB
from tests.unit.cli.test_commands import invoke

from ashore.errors import CheckpointUnfit
from ashore.log.names import SliceName, checkpoint_directory
from ashore.queries.state.attempts import Attempts
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.diagnosis.diagnose import diagnose
from ashore.queries.state.diagnosis.findings import Code
from ashore.queries.state.diagnosis.observation import TopicEnds
from ashore.queries.state.diagnosis.observe import observe
from ashore.queries.state.diagnosis.repair import plan_repair
from ashore.queries.state.layout import BatchLog, OffsetsFile
from ashore.storage import LocalStorage
from ashore.topics.open_job import open_job

QUERY = ("--query", "ods.small")
SLICE = SliceName("clicks", "ods__small")


def doctor(*arguments: object, code: int = 0) -> dict[str, Any]:
    found, out, err = invoke("checkpoint", "doctor", *arguments, "--json")
    assert (found, err) == (code, "")
    document: dict[str, Any] = json.loads(out)
    return document


def contents(root: Path) -> dict[str, bytes]:
    return {path: (root / path).read_bytes() for path in list_paths(root)}


def codes(found: dict[str, Any]) -> list[str]:
    return [each["code"] for each in found["findings"]]


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "job.yaml"
    path.write_text(JOB.format(lake=tmp_path / "lake"))
    return path


def attempts_of(job: Path) -> Attempts:
    lake = job.parent / "lake"
    lake.mkdir(exist_ok=True)
    path = checkpoint_directory(SLICE)
    return Attempts(LocalStorage(str(lake)), path, f"file://{lake}/{path}")


def begin(job: Path, name: str) -> Path:
    """Let the job's newest attempt be a damaged checkpoint; return its root."""
    attempts, damage = attempts_of(job), DAMAGES[name]
    with open_job(job) as opened:  # attempts are called by the epochs of its log
        opened.log(SLICE).open()
    root = job.parent / "lake" / attempts.take(1, is_mine=False).path
    root.parent.mkdir(parents=True, exist_ok=True)
    unpack(damage.case, root.parent).rename(root)
    damage.happen(root)
    return root


def newest(job: Path) -> Checkpoint:
    found = attempts_of(job).newest()
    assert found is not None
    return found


def test_a_finding_has_a_code_a_file_a_sentence_and_a_repair(tmp_path: Path) -> None:
    root = unpack("rocksdb", tmp_path)
    assert doctor(root, "--explain")["findings"] == []
    DAMAGES["a snapshot that is cut off"].happen(root)
    found = doctor(root, "--explain", code=4)
    (finding,) = found["findings"]
    assert finding.keys() == {"code", "file", "sentence", "repair", "repairable"}
    assert (finding["code"], finding["file"]) == ("damaged_file", "state/0/0/12.zip")
    assert finding["sentence"].startswith("state/0/0/12.zip is not an archive")
    assert (found["batch"], found["done"]) == (10, False)


def test_what_was_not_looked_at_is_said(tmp_path: Path) -> None:
    root = unpack("no-keys", tmp_path)
    read_topics(root)
    found = doctor(root, code=6)
    unproven, unsummed, unasked = found["not_looked_at"]
    assert unasked.startswith("topics: ")
    assert unsummed.startswith("3 files have no checksum")
    assert found["unproven"] == [unproven]
    assert unproven.startswith("1 texts ")


def test_a_job_goes_on_with_a_repaired_attempt_and_back(job: Path) -> None:
    root = begin(job, "half-done repartition")
    before = contents(root)
    found = codes(doctor(job, *QUERY, "--explain", code=4))
    assert found == ["half_done_repartition", "stale_partitions"]  # it had written some state
    assert newest(job).uri == root.as_uri()

    found = doctor(job, *QUERY, "--repair", "--no-trial", "--take-over")

    assert found["done"]
    assert found["copy"] == newest(job).uri.removeprefix("file://") != str(root)
    assert contents(root) == before
    assert diagnose(observe(newest(job))) == []
    assert doctor(job, *QUERY)["findings"] == []  # without --deep: the copy has `.crc` files
    undone = doctor(job, *QUERY, "--undo", "--take-over")
    assert undone == {"batch": 11, "done": True}
    assert 12 in newest(job).list_batches(BatchLog.OFFSETS)
    assert contents(root) == before


def test_the_checkpoint_of_a_job_does_not_go_back_alone(job: Path) -> None:
    root = begin(job, "a missing change")
    before = contents(root)
    error = doctor(job, *QUERY, "--repair", "--no-trial", "--take-over", code=4)["error"]
    assert "--to-batch 10" in error["hint"]
    assert newest(job).uri == root.as_uri()
    assert contents(root) == before


def test_nothing_is_undone_where_batches_have_run_since(job: Path) -> None:
    begin(job, "half-done repartition")
    assert "no previous checkpoint" in doctor(job, *QUERY, "--undo", code=4)["error"]["message"]
    doctor(job, *QUERY, "--repair", "--no-trial", "--take-over")
    repaired = Path(newest(job).uri.removeprefix("file://"))
    for log in ("offsets", "commits"):
        (repaired / log / "12").write_bytes((repaired / log / "11").read_bytes())
    assert "batches have run" in doctor(job, *QUERY, "--undo", code=4)["error"]["message"]


def with_topic(data: bytes, end: int) -> bytes:
    offsets = OffsetsFile.parse(data, "offsets")
    text = json.dumps({"clicks": {"0": end, "1": 4}, "other": {"0": 2}})
    return replace(offsets, sources=(replace(offsets.sources[0], end=text),)).write()


def read_topics(root: Path) -> None:
    """Let the newest batches have read topics, not files."""
    for batch, end in ((9, 2), (10, 3), (11, 9)):
        edit(root / f"offsets/{batch}", partial(with_topic, end=end))


@pytest.mark.parametrize(
    ("now", "text"),
    [
        (TopicEnds({"0": 0, "1": 0}, {"0": 3, "1": 4}), "clicks/0 ends at offset 3"),
        (TopicEnds({"0": 0}, {"0": 30}), "no longer has partition 1"),
        (None, "topic clicks does not exist"),
    ],
)
def test_a_topic_that_was_created_again_begins_anew(
    now: TopicEnds | None, text: str, tmp_path: Path
) -> None:
    root = unpack("no-keys", tmp_path)
    read_topics(root)
    other = TopicEnds({"0": 0}, {"0": 2})
    topics = {"other": other} if now is None else {"other": other, "clicks": now}
    seen = replace(observe(opened(root)), topics=topics)
    (finding,) = diagnose(seen)
    assert finding.code is Code.TOPIC_RECREATED
    assert text in finding.sentence
    plan = plan_repair(seen, [finding])
    if now is None:
        assert plan is None
        return
    assert plan is not None
    end = json.loads(plan.offsets[11].sources[0].end or "")
    assert end == {"clicks": now.first, "other": {"0": 2}}
    assert plan.offsets[10].sources == plan.offsets[11].sources  # or the copy would go back


def test_topics_that_follow_are_no_finding(tmp_path: Path) -> None:
    root = unpack("no-keys", tmp_path)
    read_topics(root)
    topics = {"clicks": TopicEnds({"0": 9, "1": 0}, {"0": 9, "1": 40})}
    topics["other"] = TopicEnds({"0": 0}, {"0": 2})
    assert diagnose(replace(observe(opened(root)), topics=topics)) == []


class Growing(LocalStorage):
    """A storage under a query that plans a batch whenever somebody lists its state."""

    def list(self, path: str) -> Any:
        found = super().list(path)
        if path.endswith("/state"):
            directory = f"{path.removesuffix('/state')}/offsets"
            last = max(
                int(Path(each.path).name)
                for each in super().list(directory)
                if Path(each.path).name.isdigit()
            )
            self.create(f"{directory}/{last + 1}", self.read(f"{directory}/{last}"))
        return found


def test_a_checkpoint_that_is_written_all_the_time_is_refused(tmp_path: Path) -> None:
    root = unpack("no-keys", tmp_path)
    with pytest.raises(CheckpointUnfit, match="a query writes"):
        observe(Checkpoint(Growing(str(tmp_path)), root.name, root.as_uri()))


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["{here}/nothing"], 4, "does not exist"),
        (["{root}", "--to", "{here}"], 4, "{here} is not empty"),
        (["{root}", "--repair"], 2, "is a directory: "),
        (["{root}", "--undo"], 2, "nothing to undo"),
    ],
)
def test_what_cannot_be_done_is_said(
    arguments: list[str], code: int, text: str, tmp_path: Path
) -> None:
    root = unpack("stateless", tmp_path)
    before = contents(root)
    names = {"root": root, "here": tmp_path}
    found, _, err = invoke("checkpoint", "doctor", *[each.format(**names) for each in arguments])
    assert found == code
    assert text.format(**names) in " ".join(err.split())
    assert contents(root) == before


def test_a_checkpoint_in_which_no_batch_is_done_is_not_called_whole(tmp_path: Path) -> None:
    root = unpack("stateless", tmp_path)
    shutil.rmtree(root / "commits")
    found = doctor(root, code=4)
    assert codes(found) == ["log_gap"]
    assert any(each.startswith("state: no batch") for each in found["not_looked_at"])
