"""`ashore versions`, on a log that two starts have written versions to."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.cli.test_commands import invoke

from ashore.cli.versions import list_document, list_lines
from ashore.log.entries import next_version
from ashore.log.names import SliceName
from ashore.log.query import EditsState, MappingEdit
from ashore.log.store.log import LandingLog, LogContext
from ashore.plans.version import (
    JobVersion,
    NamedOperator,
    Releases,
    StateForm,
    read_version,
    write_version,
)
from ashore.proof.status.query_versions import QueryVersions, read_versions
from ashore.storage import LocalStorage
from ashore_lab.testing import FakeClock
from ashore_lab.testing.graph_files import read_graph

JOB = """\
job: clicks
lake: file://{lake}
source: {{kafka: {{bootstrap_servers: "127.0.0.1:1"}}}}
tables:
  - {{topic: clicks, table: ods.clicks, schema: "id BIGINT", land: false, on_invalid: drop}}
  - {{table: ods.big, format: jsonl}}
  - {{table: ods.small, format: jsonl}}
sql: INSERT INTO ods.big SELECT id FROM clicks; INSERT INTO ods.small SELECT id FROM clicks;
"""
NAME = SliceName("clicks", "ods__big")
GRAPHS = Path(__file__).parents[2] / "golden" / "plans"


def golden_graph(name: str) -> str:
    """Return the text of the graph of one of Nexmark's queries."""
    return (GRAPHS / f"{name}.json").read_text("utf-8")


def version_of(graph: str, *sql: str) -> JobVersion:
    """A version with a graph, which is given as its text."""
    return JobVersion(
        job="clicks",
        slice=NAME.slice,
        releases=Releases("0.1.0", "4.2.0", "Spark 4.2.0, graphs 3"),
        sql=sql,
        settings=(("batch.interval", '"10s"'), ("job", '"clicks"')),
        state=StateForm(1, "RocksDBStateStoreProvider", 4, "3"),
        operators=(NamedOperator(0, "3f2a9c1b", "aggregate by bidder"),),
        graph=read_graph(graph),
    )


SESSIONS = golden_graph("q11")
LONGER_SESSIONS = SESSIONS.replace('"gap": "10 seconds"', '"gap": "20 seconds"')
OLD = version_of(SESSIONS, "SELECT bidder,\n  count(*)", "INSERT INTO x")
NEW = replace(
    version_of(LONGER_SESSIONS, "SELECT bidder,\n  sum(price)", "INSERT INTO x"),
    settings=(("batch.interval", '"1m"'), ("job", '"clicks"'), ("sql.keep", '"1h"')),
)


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    storage = LocalStorage(str(tmp_path / "lake"))
    log = LandingLog(LogContext(storage, FakeClock(), lambda: "0" * 16), NAME)
    for version in (OLD, NEW):
        log.open()
        log.append(next_version(log.fold, write_version(version), write_version(version)), None)
    path = tmp_path / "job.yaml"
    path.write_text(JOB.format(lake=tmp_path / "lake"))
    return path


def test_a_version_is_read_as_it_was_written(job_file: Path) -> None:
    assert read_version(write_version(OLD)) == OLD
    storage = LocalStorage(str(job_file.parent / "lake"))
    found = list(read_versions(storage, NAME))
    assert [(each.version, each.batch) for each in found] == [(2, 0), (1, 0)]
    assert [each.content for each in found] == [NEW, OLD]


def test_a_mapping_is_shown_with_the_versions() -> None:
    kept = EditsState(10, "0" * 64, (MappingEdit("3f2a9c1b", "12e4aaaa"),))
    found = [QueryVersions("ods.big", NAME, (), kept)]
    lines = "\n".join(list_lines(found))
    assert "entry 10: pins 3f2a9c1b -> 12e4aaaa" in lines
    document = list_document(found)["queries"][0]
    assert document["edits"]["pinned"] == [["3f2a9c1b", "12e4aaaa"]]


def test_versions_are_listed_by_query(job_file: Path) -> None:
    code, out, _ = invoke("versions", job_file)
    assert code == 0
    big, first, second, small, none = out.splitlines()
    assert (big, small) == ("ods.big", "ods.small")
    assert "from batch 0" in first
    assert "aggregate by bidder" in second
    assert "no version yet" in none
    code, out, _ = invoke("versions", job_file, "--query", "ods.big", "--json")
    (query,) = json.loads(out)["queries"]
    assert [each["version"] for each in query["versions"]] == [1, 2]
    assert query["versions"][0]["sql"] == list(OLD.sql)
    assert invoke("versions", "list", job_file)[0] == 0


def test_two_versions_are_compared(job_file: Path) -> None:
    code, out, _ = invoke("versions", "diff", job_file, 1, 2, "--query", "ods.big")
    assert code == 0
    assert "ods.big: version 1 to 2" in out
    assert "  -  count(*)" in out
    assert 'batch.interval: was "10s", is "1m"' in out
    assert 'sql.keep: was not there, is "1h"' in out
    assert "state: no difference" in out
    assert out == invoke("versions", "diff", job_file, "--query", "ods.big")[1]
    code, out, _ = invoke("versions", "diff", job_file, "--query", "ods.big", "--json")
    document = json.loads(out)
    changes = [(each["change"], (each["after"] or each["before"])["kind"])
               for each in document["operators"]]  # fmt: skip
    assert ("same", "source") in changes
    assert ("changed", "aggregate") in changes
    back = json.loads(invoke("versions", "diff", job_file, 2, 1, "--query", "ods.big", "--json")[1])
    assert (back["before"], back["after"]) == (2, 1)
    assert {each["change"] for each in back["operators"]} == {"same", "changed"}


def test_what_is_not_there_is_told(job_file: Path) -> None:
    code, _, err = invoke("versions", "diff", job_file)
    assert code != 0
    assert "has 2 queries: ods.big, ods.small" in err
    code, _, err = invoke("versions", "diff", job_file, 1, 3, "--query", "ods.big")
    assert code != 0
    assert "ods.big has no version 3; " in err
    code, _, err = invoke("versions", job_file, "--query", "ods.bigg")
    assert code != 0
    assert "not a sink table" in err
