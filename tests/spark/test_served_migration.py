"""A server over a real query: its checkpoint on the page, a migration through the pages, undone.

The SQL is checked, applied and undone by the operations that the forms start; each of them starts
Spark.
"""

import json
import re
import time

import httpx
import pytest
from tests.served import ended, serving
from tests.spark.site import Site
from tests.spark.sql_jobs import (
    PER_MINUTE,
    PER_MINUTE_TABLE,
    clicks,
    encode,
    read_only,
    run,
    sql_job,
)

WITHIN_S = 600.0
WIDER = PER_MINUTE.replace("sum(id) AS ids", "sum(id) AS ids, max(id) AS newest")


def wait_page(client: httpx.Client, path: str) -> str:
    """Return a page of the job, once the server has looked at its lake."""
    for _ in range(100):
        answer = client.get(path)
        if answer.status_code == 200:
            return answer.text
        time.sleep(0.2)
    raise AssertionError(answer.text)


def send(client: httpx.Client, path: str, page: str, **fields: str) -> httpx.Response:
    """Send a form as the page that has it would."""
    (csrf,) = set(re.findall(r'name="csrf" (?:content|value)="([^"]+)"', page))
    answer = client.post(
        path, data={**fields, "csrf": csrf}, headers={"origin": str(client.base_url)}
    )
    assert answer.status_code == 200, answer.text
    return answer


def end_of(client: httpx.Client, operation: str, code: int = 0) -> None:
    found = ended(client, operation, WITHIN_S)
    assert found["exit_code"] == code, found


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_query_is_migrated_and_the_migration_undone_through_the_pages(site: Site) -> None:
    topic = site.topic(1)
    job_file = sql_job(site, PER_MINUTE, read_only(topic), PER_MINUTE_TABLE)
    site.produce(topic, encode(clicks(0, 100)))
    run(site, job_file)
    before = job_file.read_text("utf-8")
    content = json.loads(before)
    content["sql"]["text"] = WIDER
    after = json.dumps(content, indent=1)
    with serving(site.directory) as (client, _server):
        page = wait_page(client, "/ui/jobs/landing/checkpoints")
        text = re.sub(r"<[^>]+>", " ", page)
        for each in ("stateStoreSave", "the largest partition has", "ods.per_minute"):
            assert each in text, text

        page = wait_page(client, "/ui/jobs/landing/migrate")
        checked = send(client, "/ui/jobs/landing/migrate", page, text=after)
        check = str(checked.url.params["check"])
        draft = checked.url.path.rsplit("/", 1)[1]
        end_of(client, check, code=4)  # somebody has to agree that the maximum begins now
        verdict = client.get(f"{checked.url.path}?check={check}")
        assert "max(id)" in verdict.text
        page = client.get(f"/ui/jobs/landing/migrate/{draft}/apply?check={check}").text
        fields = {"check": check, "agreed": "yes", "why": "a test"}
        applied = send(client, f"/ui/jobs/landing/migrate/{draft}/apply", page, **fields)
        end_of(client, applied.url.path.rsplit("/", 1)[1])
        deadline_s = time.monotonic() + 60
        while "newest" not in job_file.read_text("utf-8"):  # the job file follows
            assert time.monotonic() < deadline_s
            time.sleep(0.2)

        page = wait_page(client, "/ui/jobs/landing/migrate/undo")
        undone = send(client, "/ui/jobs/landing/migrate/undo", page, why="a test")
        end_of(client, undone.url.path.rsplit("/", 1)[1])
        log = re.sub(r"<[^>]+>", " ", client.get("/ui/jobs/landing/versions").text)
        assert "version" in log
    job_file.write_text(before)
    site.produce(topic, encode(clicks(100, 100)))
    run(site, job_file)
