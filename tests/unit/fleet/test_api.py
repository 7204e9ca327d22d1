"""The API of a server over simulated jobs: who may ask, what is answered, what is refused."""

import json
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.shares import share_of
from tests.unit.cli.test_commands import invoke
from tests.unit.fleet.conftest import Served

from ashore.cli.app import load_all
from ashore.fleet.operate.commands import BY_NAME, COMMANDS, INSTEAD
from ashore.fleet.server.doorway import BODY_BYTES_MAX
from ashore.fleet.server.serve import describe_api
from ashore_lab.testing.simulation import write_simulated_job

ROOT = Path(__file__).parents[3]


def wait_for(served: Served, job: str, phase: str) -> dict[str, Any]:
    for _ in range(600):
        found: dict[str, Any] = served.ask("GET", f"/api/jobs/{job}").json()
        if found["phase"] == phase:
            return found
        served.context.supervisor.wait_looked()
    raise AssertionError(found)


def test_a_job_is_started_restarted_paused_and_stopped(served: Served) -> None:
    assert served.ask("POST", "/api/jobs/clicks/start", {"why": "a test"}).status_code == 200
    first = wait_for(served, "clicks", "running")
    assert first["desired"] | {"at_ms": 0} == {
        "state": "running", "by": "operate", "at_ms": 0, "why": "a test", "until_ms": None,
    }  # fmt: skip
    served.ask("POST", "/api/jobs/clicks/start")
    assert wait_for(served, "clicks", "running")["process"] == first["process"], "it runs already"
    served.ask("POST", "/api/jobs/clicks/restart")
    for _ in range(600):
        again = wait_for(served, "clicks", "running")
        if again["process"]["pid"] != first["process"]["pid"]:
            break
    assert again["process"]["pid"] != first["process"]["pid"]
    served.ask("POST", "/api/jobs/clicks/pause", {"for_ms": 10_000_000})
    assert wait_for(served, "clicks", "paused")["until_ms"] is not None
    refused = served.ask("DELETE", "/api/jobs/clicks")
    assert (refused.status_code, refused.json()["code"]) == (409, "server-refused")
    served.ask("POST", "/api/jobs/clicks/stop")
    assert wait_for(served, "clicks", "stopped")["last"]["code"] == 0
    events = served.ask("GET", "/api/history?job=clicks&event=started").json()["events"]
    assert len(events) == 2
    metrics = served.ask("GET", "/metrics").text
    assert 'ashore_server_starts_total{ashore_job="clicks",reason="first"} 1' in metrics


def test_all_jobs_that_are_selected_are_started_and_stopped(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASHORE_SERVER", str(served.client.base_url))
    monkeypatch.setenv("ASHORE_TOKEN", served.operate["authorization"].split()[1])

    def states(*command: str) -> dict[str, str]:
        code, out, err = invoke(*command, "--json")
        assert code == 0, err
        return {each["name"]: each["phase"] for each in json.loads(out)["jobs"]}

    states("stop", "--all")
    assert list(states("start", "--all", "--name", "cl*")) == ["clicks"]
    wait_for(served, "clicks", "running")
    assert list(states("start", "--all", "--state", "stopped", "--name", "[a-p]*")) == ["orders"]
    wait_for(served, "orders", "running")
    stopped = states("stop", "--all", "--name", "[co]*", "--why", "a test")
    assert stopped == {"clicks": "stopped", "orders": "stopped"}, "it waits for their ends"
    assert states("stop", "--all", "--state", "no-such-state") == {}
    for wrong in (("start",), ("start", "clicks", "--all"), ("start", "clicks", "--name", "x")):
        assert invoke(*wrong)[0] == 2, wrong


def test_a_job_file_is_deployed_checked_as_a_whole_and_removed(served: Served) -> None:
    lake = served.files.jobs / "lake"
    text = write_simulated_job(served.files.state, "made", lake).read_text()
    made = served.ask("PUT", "/api/jobs/made", {"file": text})
    assert made.status_code == 200, made.text
    assert (served.files.jobs / "made.yaml").read_text() == text
    wrong = served.ask("PUT", "/api/jobs/made", {"file": text.replace("topic", "topik")})
    assert wrong.status_code == 422
    assert wrong.json()["code"] == "job-file-invalid"
    assert "topik" in wrong.json()["detail"]
    assert str(served.files.state) not in wrong.json()["detail"]
    assert (served.files.jobs / "made.yaml").read_text() == text, "the old one is there still"
    other = served.ask("PUT", "/api/jobs/made", {"file": text.replace("job: made", "job: x")})
    assert "named made" in other.json()["detail"]
    outside = text.replace(f"file://{lake}", "file:///etc/lake")
    refused = served.ask("PUT", "/api/jobs/made", {"file": outside})
    assert (refused.status_code, refused.json()["code"]) == (403, "path-not-allowed")
    assert served.ask("DELETE", "/api/jobs/made").status_code == 204
    assert served.ask("GET", "/api/jobs/made").json()["code"] == "job-unknown"


def test_without_a_token_nothing_is_answered_and_read_may_not_change(served: Served) -> None:
    assert stat.S_IMODE(served.files.tokens.stat().st_mode) == 0o600
    for path in ("/api/jobs", "/metrics", "/api/openapi.json", "/api/nothing"):
        assert served.client.get(path).status_code == 401, path
        assert served.client.get(path, headers={"authorization": "Bearer x"}).status_code == 401
    assert served.client.get("/api/jobs", headers=served.read).status_code == 200
    refused = served.client.post("/api/jobs/clicks/start", headers=served.read)
    assert (refused.status_code, refused.json()["code"]) == (403, "not-allowed")
    look = served.client.post("/api/jobs/clicks/operations/verify", json={}, headers=served.read)
    assert look.status_code == 202
    change = served.client.post("/api/jobs/clicks/operations/clean", json={}, headers=served.read)
    assert change.status_code == 403
    written = served.client.post(
        "/api/jobs/clicks/operations/versions/diff", json={"svg": "x.svg"}, headers=served.read
    )
    assert written.status_code == 403, "a look that writes a file is a change"


def test_each_change_leaves_an_audit_line_without_a_secret(served: Served) -> None:
    served.ask("POST", "/api/jobs/orders/stop", {"why": "secret-word"})
    line = json.loads(served.files.audit.read_text().splitlines()[-1])
    assert line["by"] == "operate"
    assert (line["method"], line["path"]) == ("POST", "/api/jobs/orders/stop")
    assert line["status"] == 200
    text = served.files.audit.read_text()
    assert "secret-word" not in text
    assert served.operate["authorization"].split()[1] not in text


def test_bodies_are_bounded(served: Served) -> None:
    big = b"x" * (BODY_BYTES_MAX + 1)
    answer = served.client.put("/api/jobs/clicks", content=big, headers=served.operate)
    assert answer.status_code == 413

    def stream() -> Iterator[bytes]:
        for _ in range(BODY_BYTES_MAX // 65_536 + 2):
            yield b"x" * 65_536

    answer = served.client.put("/api/jobs/clicks", content=stream(), headers=served.operate)
    assert answer.status_code == 413


@pytest.mark.parametrize(
    "path", ["/etc", "../..", "jobs/../../x", "hdfs://other/x", "file:///etc", "/tmp/\x00"]
)
def test_paths_are_confined(served: Served, path: str) -> None:
    asked = {"to": path}
    answer = served.ask("POST", "/api/jobs/clicks/operations/checkpoint/savepoint", asked)
    assert answer.status_code in {403, 422}, answer.text
    inside = served.ask(
        "POST", "/api/jobs/clicks/operations/checkpoint/savepoint", {"to": "savepoints"}
    )
    assert inside.status_code == 202
    line = served.context.operations.get(inside.json()["id"]).request.line
    assert f"--to={served.files.jobs}/savepoints" in line
    assert line[-2:] == ("--", str(served.files.jobs / "clicks.yaml"))


def test_a_link_out_of_the_roots_is_followed_and_refused(served: Served) -> None:
    link = served.files.jobs / "link"
    link.symlink_to("/etc")
    asked = {"to": "link/x"}
    answer = served.ask("POST", "/api/jobs/clicks/operations/checkpoint/savepoint", asked)
    assert answer.json()["code"] == "path-not-allowed"
    link.unlink()


def test_every_command_has_its_twin() -> None:
    def walk(group: Any, before: str = "") -> Iterator[str]:
        for name, command in group.commands.items():
            if hasattr(command, "commands"):
                yield from walk(command, f"{before}{name} ")
            else:
                yield before + name

    known = set(walk(load_all()))
    assert known == BY_NAME.keys() | INSTEAD.keys()
    paths = describe_api()["paths"]
    for each in COMMANDS:
        of_job = f"/api/jobs/{{job}}/operations/{each.route}" in paths
        assert of_job or f"/api/operations/{each.route}" in paths, each.name
    for name, instead in INSTEAD.items():
        method, _, path = instead.partition(" ")
        if method.isupper():
            assert method.lower() in paths[path], name


def test_the_openapi_file_is_what_the_api_says() -> None:
    path = ROOT / "docs" / "reference" / "openapi.json"
    assert json.loads(path.read_text("utf-8")) == json.loads(json.dumps(describe_api()))


@pytest.fixture(scope="module")
def openapi() -> Any:
    described = describe_api()
    paths = share_of(described["paths"].items())
    return schemathesis.openapi.from_dict({**described, "paths": dict(paths)})


# By a fixture: else each worker makes all requests of each operation when it collects the tests.
API = schemathesis.pytest.from_fixture("openapi")


@API.parametrize()
@settings(
    max_examples=examples(8),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
def test_no_request_of_the_api_makes_the_server_fail(
    served: Served, case: schemathesis.Case
) -> None:
    """A shape of request that OpenAPI allows, or nearly, is answered; refusals are problems."""
    if case.path.endswith("/{id}") and case.query:
        case.query.pop("wait_s", None)  # it waits, as it should
    arguments = case.as_transport_kwargs(base_url=str(served.client.base_url))
    arguments["headers"] = {**dict(arguments.get("headers") or {}), **served.operate}
    arguments.pop("cookies", None)
    answer = requests.request(**arguments, timeout=60)
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400:
        assert answer.headers["content-type"].startswith("application/problem+json")
        assert answer.json()["code"]


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_job_file_makes_the_server_fail(served: Served, data: st.DataObject) -> None:
    base = (served.files.jobs / "orders.yaml").read_text()
    at = data.draw(st.integers(0, len(base)))
    end = data.draw(st.integers(at, min(len(base), at + 20)))
    text = base[:at] + data.draw(st.text(max_size=20)) + base[end:]
    if data.draw(st.booleans()):
        text = data.draw(st.text())
    answer = served.ask("PUT", "/api/jobs/fuzzed", {"file": text})
    assert answer.status_code in {200, 403, 422}, answer.text
    (served.files.jobs / "fuzzed.yaml").write_text(text, "utf-8", "surrogatepass")
    served.context.supervisor.wait_looked()
    assert served.ask("GET", "/api/jobs").status_code == 200
    assert served.context.supervisor.is_alive


def test_a_slow_client_holds_up_nobody(served: Served) -> None:
    """A body that does not come keeps no thread: others are answered meanwhile."""
    go_on = threading.Event()

    def slow() -> Iterator[bytes]:
        yield b"{"
        go_on.wait(30)
        yield b"}"

    threads = [
        threading.Thread(
            target=lambda: served.client.post(
                "/api/jobs/orders/stop", content=slow(), headers=served.operate
            )
        )
        for _ in range(3)
    ]
    for each in threads:
        each.start()
    go_on.set()
    assert served.ask("GET", "/api/jobs").status_code == 200
    for each in threads:
        each.join()


def test_a_change_whose_line_of_the_audit_cannot_be_written_says_so(served: Served) -> None:
    """The audit is a device whose disk is always full."""
    audit = served.files.audit
    kept = audit.rename(audit.with_name("kept.jsonl"))
    audit.symlink_to("/dev/full")
    try:
        found = served.ask("POST", "/api/jobs/clicks/stop")
        assert (found.status_code, found.json()["code"]) == (507, "server-disk-failed")
        assert "No space left on device" in found.json()["detail"]
        assert "was done, " in found.json()["detail"]
        assert str(served.files.state) in found.json()["hint"]
        refused = served.ask("POST", "/api/jobs/nobody/stop")
        assert "was not done: " in refused.json()["detail"]
        assert served.ask("GET", "/api/jobs/clicks").status_code == 200
    finally:
        audit.unlink()
        kept.rename(audit)
