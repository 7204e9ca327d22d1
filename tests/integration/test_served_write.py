"""The page that writes a job, over a real broker: from a topic to rows in a table."""

import html
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from tests.kafka_tools import create_topic, produce
from tests.served import ended, kill_jobs, serving, wait_for
from tests.unit.cli.test_commands import invoke

from ashore.fleet.records.server_files import ServerFiles
from ashore_lab.services.kafka import Kafka

RECORDS = 200
BAD = b"not JSON"


@pytest.fixture
def topic(kafka: Kafka) -> str:
    """Return a topic of two partitions with JSON of today and yesterday, and one bad record."""
    name = f"write_{uuid4().hex[:10]}"
    create_topic(kafka.bootstrap_servers, name, 2)
    now_ms = int(time.time() * 1000)
    for partition in range(2):
        values = [
            json.dumps({"id": each, "ts": now_ms - partition * 86_400_000}).encode()
            for each in range(RECORDS // 2)
        ]
        produce(kafka.bootstrap_servers, name, values, partition=partition)
    produce(kafka.bootstrap_servers, name, [BAD], partition=0)
    return name


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "jobs"
    directory.mkdir()
    yield directory
    kill_jobs(ServerFiles.of(directory))


class WritePage:
    """The form of the page, and what it answers."""

    def __init__(self, client: httpx.Client, **fields: str) -> None:
        self.client = client
        self.fields = {"text": "", **fields}
        page = client.get("/ui/write").text
        self.fields["csrf"] = page.partition('name="csrf" value="')[2].partition('"')[0]

    def press(self, button: str) -> str:
        """Press a button; the text of the job file is kept as the page shows it then."""
        answer = self.client.post("/ui/write", data={**self.fields, "do": button})
        page = answer.raise_for_status().text
        area = re.search(r"<textarea[^>]*>(.*?)</textarea>", page, re.DOTALL)
        assert area is not None
        self.fields["text"] = html.unescape(area[1])
        return page


def rows_of(page: str) -> list[str]:
    body = page.partition('aria-label="Rows of')[2].partition("</table>")[0]
    return re.findall(r'<tr><td class="code">([^<]+)</td>', body)


@pytest.mark.thirds("a server of real jobs")
def test_a_topic_becomes_a_job_that_lands_as_the_preview_showed(
    kafka: Kafka, topic: str, jobs: Path, tmp_path: Path
) -> None:
    lake = f"file://{tmp_path}/lake"
    with serving(jobs, "--root", str(tmp_path)) as (client, _server):
        given = {"servers": kafka.bootstrap_servers, "topics": topic, "database": "ods"}
        write = WritePage(client, **given, lake=lake, name=topic)
        page = write.press("propose")
        assert "The job file can be run" in page
        text = write.fields["text"]
        assert "id BIGINT, ts BIGINT" in text
        out = tmp_path / "init.yaml"
        options = ("--servers", kafka.bootstrap_servers, "--lake", lake, "--out", out)
        code, _, err = invoke("init", topic, "--job", topic, *options)
        assert code == 0, err
        assert text == out.read_text(), "`ashore init` proposes the same"

        page = write.press("preview")
        places = rows_of(page)
        assert 0 < len(places) <= 100
        assert {each.partition("/")[0] for each in places} == {f"ods.{topic}"}
        assert len(set(places)) == 2, "yesterday's land in another partition than today's"
        assert BAD.decode() in page.partition("Dead letters")[2]
        assert not (tmp_path / "lake").exists(), "nothing is written for it"

        assert f"Saved as {topic}.yaml" in write.press("save")
        assert (jobs / f"{topic}.yaml").read_text() == text
        client.post(f"/api/jobs/{topic}/start", json={}).raise_for_status()
        wait_for(
            lambda: client.get(f"/api/jobs/{topic}").json()["slices"],
            lambda slices: sum(each["rows"] for each in slices) == RECORDS,
        )
        for place in set(places):
            table, _, partition = place.partition("/")
            name = table.removeprefix("ods.")
            assert list((tmp_path / "lake" / "ods.db" / name / partition).glob("a-*")), place
        asked = client.post(f"/api/jobs/{topic}/operations/verify", json={}).json()["id"]
        result = ended(client, asked)["result"]
        assert (result["status"], result["totals"]["dead"]) == ("ok", 1)
