"""The doctor asks a real broker for the topics of a checkpoint, and works on a real HDFS."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from tests.checkpoint_files import opened, unpack
from tests.damage import DAMAGES, edit
from tests.plain_spark import COUNTRIES
from tests.unit.cli.test_commands import invoke

from ashore.base.clock import SystemClock
from ashore.queries.state.checkpoint import open_directory
from ashore.queries.state.contents import sum_as_hadoop
from ashore.queries.state.layout import OffsetsFile
from ashore.queries.state.survey import take_survey
from ashore.queries.tools.doctor import DoctorOptions, Repaired, examine, repair
from ashore_lab.services.hdfs import Hdfs
from ashore_lab.services.kafka import Kafka
from ashore_lab.services.producer import Producer, create_topics, replace_topic

RECORDS = 5


def silent(_done: int, _total: int) -> None:
    """Show no progress."""


def test_a_topic_that_was_deleted_and_created_again_is_found(kafka: Kafka, tmp_path: Path) -> None:
    brokers, topic = kafka.bootstrap_servers, f"doctor-{uuid4()}"
    create_topics(brokers, {topic: 1})
    with Producer(brokers) as producer:
        for _record in range(RECORDS):
            producer.send(topic, 0, b"{}")
    root, copy = unpack("no-keys", tmp_path), tmp_path / "copy"

    def read_it(data: bytes) -> bytes:
        offsets = OffsetsFile.parse(data, "offsets")
        end = json.dumps({topic: {"0": RECORDS}})
        return replace(offsets, sources=(replace(offsets.sources[0], end=end),)).write()

    for batch in (9, 10, 11):
        file = root / f"offsets/{batch}"
        edit(file, read_it)
        file.with_name(f".{batch}.crc").write_bytes(sum_as_hadoop([file.read_bytes()]))
    asked = (root, "--brokers", brokers)
    code, out, err = invoke("checkpoint", "doctor", *asked)
    assert (code, err) == (0, ""), out
    assert "not looked at: topics" not in out

    replace_topic(brokers, topic, 1)

    code, out, _ = invoke("checkpoint", "doctor", *asked, "--json")
    (finding,) = json.loads(out)["findings"]
    assert (code, finding["code"], finding["file"]) == (4, "topic_recreated", "offsets/11")
    assert invoke("checkpoint", "doctor", *asked, "--to", copy, "--no-trial")[0] == 0
    repaired = OffsetsFile.parse((copy / "offsets/11").read_bytes(), "offsets")
    assert json.loads(repaired.sources[0].end or "") == {topic: {"0": 0}}
    assert invoke("checkpoint", "doctor", copy, "--brokers", brokers)[0] == 0


@pytest.mark.long  # on a local disk: tests/spark/test_checkpoint_doctor.py
@pytest.mark.timeout(900)  # HDFS starts, then Spark: 30 s, and ten times that on a busy machine
def test_a_checkpoint_on_hdfs_is_repaired_there(
    steady_hdfs: Hdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(steady_hdfs.conf_dir))
    home, clock = f"{steady_hdfs.uri}/doctor-{uuid4()}", SystemClock()
    damage = DAMAGES["a source that somebody names"]
    root = unpack(damage.case, tmp_path)
    live = open_directory(f"{home}/live", clock)
    files = [each.path for each in take_survey(opened(root)).required.files]
    with ThreadPoolExecutor(len(files)) as pool:  # closing a file takes HDFS a quarter of a second
        put = pool.map(
            lambda file: live.storage.create(f"{live.path}/{file}", (root / file).read_bytes()),
            files,
        )
        list(put)

    asked = DoctorOptions(f"{home}/live", None, f"{home}/copy", damage.sources)
    found = repair(asked, clock, silent)

    assert isinstance(found, Repaired)
    assert [each.code for each in found.examined.findings] == [damage.code]
    assert (found.trial.why_not, found.trial.stores, found.trial.rows) == (None, 2, len(COUNTRIES))
    assert examine(replace(asked, where=f"{home}/copy", to=None), clock).findings == []
