"""Teams: roles on jobs by their labels, asked for every route; who tries to get around them."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute
from tests.served import wait_for
from tests.unit.cli.test_commands import invoke
from tests.unit.fleet.conftest import Served, serving_app
from tests.unit.fleet.test_access import OPEN, all_routes

from ashore.errors import NotAllowed, ServerRefused
from ashore.fleet.access.guard import Admits, GuardedRoute, TrustedProxy
from ashore.fleet.access.permissions import JOBS, OPERATIONS, OWN, Reach
from ashore.fleet.access.tokens import UserRole
from ashore.fleet.records.journal import Happened
from ashore.fleet.records.server_files import desired_name
from ashore.fleet.records.store import read_lines
from ashore.fleet.server.pages.frame import PageRoute
from ashore_lab.testing.simulation import write_simulated_job

JOB = (
    "job: {name}\nlake: file://{jobs}/lake\n"
    'source: {{kafka: {{bootstrap_servers: "127.0.0.1:1"}}}}\n'
    'tables: [{{topic: {name}, table: ods.{name}, schema: "id BIGINT"}}]\nspark: none\n{more}'
)
JOB_OF_SQL = (
    "job: {name}\nlake: file://{jobs}/lake\n"
    'source: {{kafka: {{bootstrap_servers: "127.0.0.1:1"}}}}\n'
    'tables: [{{topic: {name}, table: ods.{name}, schema: "id BIGINT"}}, '
    '{{table: ods.big_{name}, schema: "id BIGINT"}}]\n'
    "sql: {{file: {file}}}\nlabels: {{team: {team}}}\n"
)
SQL = "INSERT INTO ods.big_{name} SELECT id FROM {name};"


@dataclass
class Asker:
    """Somebody whom the proxy names, with a browser and a client."""

    served: Served
    user: str
    groups: str = ""
    word: str = field(init=False, default="")

    @property
    def headers(self) -> dict[str, str]:
        return {"x-forwarded-user": self.user, "x-forwarded-groups": self.groups}

    def ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        return self.served.client.request(method, path, json=body, headers=self.headers)

    def send(self, path: str, **fields: str) -> httpx.Response:
        """Send a form, with the word that pages of theirs have."""
        if not self.word:
            page = self.ask("GET", "/ui/jobs").text
            found = re.search(r'name="csrf" value="([0-9a-f]+)"', page)
            assert found is not None, page
            self.word = found[1]
        data = {"csrf": self.word, **fields}
        return self.served.client.post(path, data=data, headers=self.headers)

    def deploy(self, name: str, more: str = "", **beside: str) -> httpx.Response:
        text = JOB.format(name=name, jobs=self.served.files.jobs, more=more)
        files = {key.replace("__", "."): value for key, value in beside.items()}
        return self.ask("PUT", f"/api/jobs/{name}", {"file": text, "beside": files})


@pytest.fixture(scope="module")
def teams(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with a job of each of two teams, one without labels and one that is not valid."""
    jobs = tmp_path_factory.mktemp("teams") / "jobs"
    jobs.mkdir()
    write_simulated_job(jobs, "payouts", labels="{team: payments}")
    write_simulated_job(jobs, "returns", labels="{team: orders}")
    write_simulated_job(jobs, "damaged").write_text("job: damaged\nlabels: {team: payments}\n")
    proxy = TrustedProxy((ip_network("127.0.0.0/8"),), "x-forwarded-user", "x-forwarded-groups")
    with serving_app(jobs, proxy=proxy) as served:
        tokens = served.context.access.tokens
        for role in UserRole:
            for team in ("payments", "orders"):
                tokens.allow("group", f"{team}-{role}", role, f"team={team}")
        tokens.allow("group", "not-orders", UserRole.OPERATE, "team!=orders")
        tokens.allow("group", "nothing", UserRole.READ, "team=no-such-team")
        tokens.allow("group", "everybody", UserRole.READ)
        tokens.allow("user", "admin", UserRole.OPERATE)  # last: who is waited for below
        admin = Asker(served, "admin")
        for _ in range(600):
            if admin.ask("GET", "/api/jobs").status_code == 200:
                break
            served.context.supervisor.wait_looked()
        yield served


@pytest.fixture
def reader(teams: Served) -> Asker:
    return Asker(teams, "ria", "payments-read")


@pytest.fixture
def operator(teams: Served) -> Asker:
    return Asker(teams, "otto", "payments-operate")


@pytest.fixture
def admin(teams: Served) -> Asker:
    return Asker(teams, "admin")


def validate(admin: Asker, job: str) -> str:
    """Begin an operation of a job, once one that was begun before has ended; return its id."""
    path = f"/api/jobs/{job}/operations/validate"
    answer = wait_for(lambda: admin.ask("POST", path, {}), lambda each: each.status_code == 202)
    found: str = answer.json()["id"]
    return found


def routes_of(served: Served) -> list[tuple[str, APIRoute]]:
    found = [each for each in all_routes(served.app.routes) if isinstance(each, APIRoute)]
    return [(method, each) for each in found for method in sorted(each.methods or ())]


def address(path: str, job: str, operation: str) -> str:
    values = {"name": job, "job": job, "id": operation, "id_": operation, "number": "0"}
    return re.sub(r"{(\w+)}", lambda each: values.get(each[1], "x"), path)


# ---- each route


def test_each_route_asks_the_guard_of_jobs(teams: Served) -> None:
    """Red where a route is added that asks for no role, or whose job the guard does not see."""
    for method, route in routes_of(teams):
        is_open = isinstance(route, PageRoute) and route.admits is Admits.ANYBODY
        assert is_open or isinstance(route, GuardedRoute | PageRoute), route.path
        reach = Reach.of(method, route.path)
        has_job = {"{job}", "{name}"} & set(re.findall(r"{\w+}", route.path)) and not is_open
        assert bool(has_job) == (reach in {Reach.JOB, Reach.DEPLOY}), route.path
        has_operation = {"{id}", "{id_}"} & set(re.findall(r"{\w+}", route.path))
        assert bool(has_operation) == (reach is Reach.OPERATION), route.path
    known = {route.path for _, route in routes_of(teams)}
    assert known >= OWN
    assert {*JOBS, *OPERATIONS} <= known
    deploys = [each for each in routes_of(teams) if Reach.of(each[0], each[1].path) is Reach.DEPLOY]
    assert [(method, each.path) for method, each in deploys] == [("PUT", "/api/jobs/{job}")]


@pytest.mark.parametrize("job", ["returns", "damaged", "no-such-job"])
@pytest.mark.parametrize("role", list(UserRole))
def test_no_route_lets_a_team_at_another_job(
    teams: Served, admin: Asker, role: UserRole, job: str
) -> None:
    """Each route, asked by somebody of another team, for a job that is there, broken, or not."""
    made = validate(admin, "returns")
    asker = Asker(teams, "eve", f"payments-{role}")
    asker.send("/ui/logout")  # which finds the word of forms
    before = {each: each.read_text() for each in teams.files.jobs.glob("*.yaml")}
    asked = 0
    for method, route in routes_of(teams):
        reach = Reach.of(method, route.path)
        if reach is Reach.OWN or (method, route.path) in OPEN or reach is Reach.DEPLOY:
            continue
        path = address(route.path, job, made)
        is_form = method == "POST" and isinstance(route, PageRoute)
        found = asker.send(path) if is_form else asker.ask(method, path, {})
        assert found.status_code == 403, f"{method} {path}: {found.status_code} {found.text[:300]}"
        assert "may only read" in found.text or "have the role" in found.text, found.text
        asked += 1
    assert asked > 70
    if job != "no-such-job":
        assert asker.deploy(job, "labels: {team: payments}\n").status_code == 403
    assert {each: each.read_text() for each in teams.files.jobs.glob("*.yaml")} == before
    assert not (teams.files.state / desired_name("returns")).exists()


def test_refusals_name_the_role_and_the_job_and_are_written_down(
    teams: Served, reader: Asker, operator: Asker
) -> None:
    found = operator.ask("GET", "/api/jobs/returns").json()
    assert "`read` on job returns" in found["detail"]
    assert "--jobs" in found["hint"]
    assert (found["code"], found["status"]) == ("not-allowed", 403)
    found = reader.ask("POST", "/api/jobs/payouts/stop", {}).json()
    assert found["detail"] == "`ria` may only read"
    found = operator.ask("GET", "/metrics").json()
    assert "`read` on all jobs" in found["detail"]
    newest = list(read_lines(teams.files.refused))[-3:]
    assert [(each["by"], each["path"]) for each in newest] == [
        ("otto", "/api/jobs/returns"),
        ("ria", "/api/jobs/payouts/stop"),
        ("otto", "/metrics"),
    ]


def test_audit_lines_name_the_user_and_the_rule(teams: Served, operator: Asker) -> None:
    assert operator.ask("POST", "/api/jobs/payouts/stop", {}).status_code == 200
    assert operator.send("/ui/jobs/payouts/do/stop").status_code == 303
    assert operator.deploy("later", "labels: {team: payments}\n").status_code == 200
    assert operator.ask("DELETE", "/api/jobs/later").status_code == 204
    lines = list(read_lines(teams.files.audit))[-4:]
    rule = "group payments-operate: operate on team=payments"
    assert [(each["by"], each["rule"]) for each in lines] == [("otto", rule)] * 4
    admin = Asker(teams, "admin", "payments-read")
    assert admin.ask("POST", "/api/jobs/payouts/stop", {}).status_code == 200
    line = list(read_lines(teams.files.audit))[-1]
    assert line["rule"].startswith("user admin: operate ")


# ---- lists


def test_lists_show_what_the_caller_may_read(teams: Served, reader: Asker, admin: Asker) -> None:
    for job in ("payouts", "returns"):
        validate(admin, job)
        teams.context.journal.take(Happened("changed", job, 1, {}))
    listed = reader.ask("GET", "/api/jobs")
    assert [each["name"] for each in listed.json()["jobs"]] == ["payouts"]
    assert {each["name"] for each in admin.ask("GET", "/api/jobs").json()["jobs"]} >= {
        *("payouts", "returns", "clicks", "orders", "damaged"),
    }
    for tag in (listed.headers["etag"], admin.ask("GET", "/api/jobs").headers["etag"]):
        headers = {**reader.headers, "if-none-match": tag}
        found = teams.client.get("/api/jobs", headers=headers)
        if found.status_code == 200:
            assert [each["name"] for each in found.json()["jobs"]] == ["payouts"]
        else:
            assert tag.partition("-")[2] == listed.headers["etag"].partition("-")[2] != ""
    found = reader.ask("GET", "/api/operations").json()["operations"]
    assert {each["job"] for each in found} == {"payouts"}
    for path in ("/api/events", "/api/history"):
        events = reader.ask("GET", f"{path}?limit=1000").json()["events"]
        assert {each["job"] for each in events} == {"payouts"}, path
        assert {"payouts", "returns"} <= {
            each["job"] for each in admin.ask("GET", f"{path}?limit=1000").json()["events"]
        }
        assert reader.ask("GET", f"{path}?job=returns").status_code == 403
        assert reader.ask("GET", f"{path}?job=payouts").status_code == 200
    assert reader.ask("GET", "/api/operations?job=returns").status_code == 403
    assert reader.ask("GET", "/api/server").json()["jobs"] == 1


def test_pages_show_what_the_caller_may_read(teams: Served, reader: Asker, admin: Asker) -> None:
    others = re.compile(r"returns|clicks|damaged")
    for path in ("/ui/jobs", "/ui/jobs?sort=name", "/ui/jobs?q=returns", "/ui/operations"):
        admin.ask("GET", path)  # what is kept for one is not shown to another
        page = reader.ask("GET", path).text.replace('value="returns"', "").replace("q=returns", "")
        assert others.search(page) is None, (path, others.search(page))
    assert "payouts" in reader.ask("GET", "/ui/jobs").text
    assert "team=payments" in reader.ask("GET", "/ui/jobs").text
    assert "1 jobs" in reader.ask("GET", "/ui/jobs").text
    empty = Asker(teams, "xenia", "nothing").ask("GET", "/ui/jobs").text
    assert "you may read" in empty
    assert "/ui/drills" not in empty
    page = reader.ask("GET", "/ui/jobs/payouts").text
    assert "/do/start" not in page
    assert "may only read" in page
    page = Asker(teams, "otto", "payments-operate,everybody").ask("GET", "/ui/jobs/payouts").text
    assert "/do/stop" in page or "/do/start" in page
    page = Asker(teams, "otto", "payments-operate,everybody").ask("GET", "/ui/jobs/returns").text
    assert "may only read" in page


def test_streams_tell_nothing_of_other_jobs(teams: Served, reader: Asker, admin: Asker) -> None:
    made, own = validate(admin, "returns"), validate(admin, "payouts")
    for query in ("job=returns", "job=no-such-job", f"command={made}", "command=no-such-one"):
        with teams.client.stream("GET", f"/ui/events?{query}", headers=reader.headers) as stream:
            assert stream.status_code == 403, query
    with teams.client.stream("GET", "/ui/events?command=*", headers=reader.headers) as stream:
        line = next(each for each in stream.iter_lines() if each.startswith("data: "))
    assert own in line
    assert made not in line


def test_a_write_page_shows_no_other_job(reader: Asker, operator: Asker) -> None:
    assert reader.ask("GET", "/ui/write?job=returns").status_code == 403
    assert "payouts" in reader.ask("GET", "/ui/write?job=payouts").text
    text = JOB.format(name="returns", jobs="/x", more="labels: {team: payments}\n")
    found = operator.send("/ui/write", do="save", name="returns", text=text)
    assert "the role <code>operate</code> on job returns" in found.text


def test_a_write_page_offers_brokers_and_lakes_of_jobs_that_may_be_read(
    teams: Served, reader: Asker
) -> None:
    page = reader.ask("GET", "/ui/write").text
    assert '<option value="127.0.0.1:1">' in page
    assert re.search(r'<option value="file://[^"]*/lake">', page)
    assert "<option" not in Asker(teams, "xenia", "nothing").ask("GET", "/ui/write").text


# ---- deploying


def test_labels_of_both_files_count(teams: Served, operator: Asker, admin: Asker) -> None:
    """Neither out of a team nor into one, neither a job without labels nor by `!=`."""
    own, foreign, none = "labels: {team: payments}\n", "labels: {team: orders}\n", ""
    for name, more in (
        *(("new", foreign), ("new", none), ("payouts", foreign), ("payouts", none)),
        *(("returns", own), ("returns", foreign), ("clicks", own), ("damaged", own)),
    ):
        found = operator.deploy(name, more)
        assert found.status_code == 403, (name, more, found.text)
        assert "the role `operate` on job" in found.json()["detail"]
    assert "new file (team=orders)" in operator.deploy("new", foreign).json()["detail"]
    assert operator.deploy("payouts", own + "batch: {interval: 5s}\n").status_code == 200
    both = Asker(teams, "bea", "payments-operate,orders-operate")
    assert both.deploy("payouts", foreign).status_code == 200
    assert operator.ask("GET", "/api/jobs/payouts").status_code == 403, "it is of the other team"
    assert both.deploy("payouts", own).status_code == 200
    assert operator.ask("GET", "/api/jobs/payouts").status_code == 200


def test_a_name_that_was_a_job_is_not_taken_over(
    teams: Served, operator: Asker, admin: Asker
) -> None:
    """Its log and its history would be read by who takes the name."""
    assert admin.deploy("secret", "labels: {team: orders}\n").status_code == 200
    admin.ask("POST", "/api/jobs/secret/operations/validate", {})
    assert admin.ask("DELETE", "/api/jobs/secret").status_code == 204
    found = operator.deploy("secret", "labels: {team: payments}\n")
    assert found.status_code == 403
    assert "job secret before" in found.json()["detail"]


def test_a_file_that_changes_while_it_is_checked_is_not_replaced(teams: Served) -> None:
    """Else labels that were checked would not be those of the file that is replaced."""
    path = write_simulated_job(teams.files.jobs, "raced", labels="{team: payments}")
    text = path.read_text()
    theirs = text.replace("payments", "orders")
    with pytest.raises(ServerRefused, match="has changed meanwhile"):
        teams.context.verbs.deploy("raced", text, permit=lambda _job: write_anew(path, theirs))
    assert path.read_text() == theirs
    path.unlink()


def write_anew(path: Path, text: str) -> None:
    path.unlink()
    path.write_text(text)


def test_a_file_beside_another_team_s_job_is_neither_written_nor_named(
    teams: Served, operator: Asker, admin: Asker
) -> None:
    (teams.files.jobs / "stray.sql").write_text(SQL)

    def body(name: str, team: str, file: str, sent: dict[str, str]) -> dict[str, object]:
        text = JOB_OF_SQL.format(name=name, jobs=teams.files.jobs, file=file, team=team)
        return {"file": text, "beside": sent}

    theirs = body("totals", "orders", "theirs.sql", {"theirs.sql": SQL.format(name="totals")})
    found = admin.ask("PUT", "/api/jobs/totals", theirs)
    assert found.status_code == 200, found.text
    own = {"own.sql": SQL.format(name="mine")}
    for file, sent in (
        *(("theirs.sql", {}), ("theirs.sql", {"theirs.sql": own["own.sql"]}), ("stray.sql", {})),
        *(("own.sql", {**own, "theirs.sql": "x"}), (f"{teams.files.jobs}/theirs.sql", {})),
    ):
        found = operator.ask("PUT", "/api/jobs/mine", body("mine", "payments", file, sent))
        assert found.status_code == 403, (file, sent, found.text)
        assert (teams.files.jobs / "theirs.sql").read_text() == SQL.format(name="totals")
    for _ in range(2):  # it may be written again
        found = operator.ask("PUT", "/api/jobs/mine", body("mine", "payments", "own.sql", own))
        assert found.status_code == 200, found.text


@pytest.mark.parametrize(
    "name", ["../returns", "..%2Freturns", "%2e%2e%2freturns", ".ashore%2Ftokens", "returns.yaml"]
)
def test_names_that_are_paths_reach_no_file(teams: Served, operator: Asker, name: str) -> None:
    before = (teams.files.jobs / "returns.yaml").read_text()
    body = {"file": JOB.format(name="x", jobs="/x", more="labels: {team: payments}\n")}
    assert operator.ask("PUT", f"/api/jobs/{name}", body).status_code in {403, 404, 405, 422}
    for path in (f"/api/jobs/{name}", f"/ui/jobs/{name}", f"/api/jobs/{name}/log"):
        assert operator.ask("GET", path).status_code in {403, 404}
    assert (teams.files.jobs / "returns.yaml").read_text() == before


def test_who_may_only_read_a_job_names_no_path(teams: Served, reader: Asker) -> None:
    path = "/api/jobs/payouts/operations"
    body = {"to": f"{teams.files.jobs}/returns.yaml"}
    found = reader.ask("POST", f"{path}/checkpoint/diff", body)
    assert found.status_code == 403
    assert "of other jobs" in found.json()["detail"]
    assert reader.ask("POST", f"{path}/validate", {}).status_code == 202


# ---- rules


def test_a_rule_by_inequality_holds_for_jobs_whose_labels_are_known(teams: Served) -> None:
    asker = Asker(teams, "nora", "not-orders")
    names = {each["name"] for each in asker.ask("GET", "/api/jobs").json()["jobs"]}
    assert {"payouts", "clicks", "orders"} <= names, "jobs without labels are not of that team"
    assert not {"returns", "damaged"} & names
    assert asker.ask("GET", "/api/jobs/damaged").status_code == 403


def test_the_most_that_any_rule_allows(teams: Served) -> None:
    asker = Asker(teams, "otto", "everybody, payments-operate")
    assert asker.ask("GET", "/api/jobs/returns").status_code == 200
    assert asker.ask("POST", "/api/jobs/returns/stop", {}).status_code == 403
    assert asker.ask("POST", "/api/jobs/payouts/stop", {}).status_code == 200
    assert asker.ask("GET", "/metrics").status_code == 200


def test_selectors_of_requests_and_commands(
    teams: Served, admin: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def names(selector: str) -> set[str]:
        found = teams.client.get(
            "/api/jobs", params={"selector": selector}, headers=admin.headers
        ).json()
        return {each["name"] for each in found["jobs"]}

    assert names("team=orders,!tier") >= {"returns"}
    assert "payouts" not in names("team=orders")
    assert not {"returns", "payouts", "damaged"} & names("!team")
    found = admin.ask("GET", "/api/jobs?selector=team%3D%3D%3Dx")
    assert (found.status_code, found.json()["code"]) == (422, "request-invalid")
    token = teams.context.access.tokens.add("prog", UserRole.OPERATE, "team=payments")
    monkeypatch.setenv("ASHORE_SERVER", str(teams.client.base_url))
    monkeypatch.setenv("ASHORE_TOKEN", token)
    for _ in range(600):
        code, out, err = invoke("jobs", "--selector", "team=payments,tier!=test", "--json")
        if code == 0:
            break
        teams.context.supervisor.wait_looked()
    assert "payouts" in {each["name"] for each in json.loads(out)["jobs"]}, err
    assert "team=payments" in invoke("jobs")[1]
    code, out, _ = invoke("stop", "--all", "--selector", "team=payments", "--json")
    stopped = {each["name"] for each in json.loads(out)["jobs"]}
    assert (code, "payouts" in stopped, "returns" in stopped) == (0, True, False)
    assert (
        json.loads(invoke("stop", "--all", "--selector", "team=orders", "--json")[1])["jobs"] == []
    )
    code, _, err = invoke("start", "--all", "--selector", "team=")
    assert code == 0
    code, _, err = invoke("jobs", "--selector", "team in (")
    assert code == 2
    assert "cannot be read at" in err
    assert invoke("start", "payouts", "--selector", "team=x")[0] == 2


def test_a_rule_that_breaks_while_the_server_runs_is_said(
    teams: Served, reader: Asker, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody is admitted by the rules before: one may have been changed to take a right away."""
    path = teams.files.tokens
    kept = path.read_text()
    try:
        path.write_text(kept.replace('"team=payments"', '"team payments"'))
        for _ in range(600):
            found = reader.ask("GET", "/api/jobs")
            if found.status_code != 200:
                break
            teams.context.supervisor.wait_looked()
        assert "selector 'team payments' cannot" in found.json()["detail"]
        assert "no caller is admitted" in caplog.text
    finally:
        path.write_text(kept)
    for _ in range(600):
        if reader.ask("GET", "/api/jobs").status_code == 200:
            return
        teams.context.supervisor.wait_looked()
    raise AssertionError("they are admitted again")


def test_rules_that_are_not_valid_admit_nobody(tmp_path: Path) -> None:
    """A selector or a key that is mistyped must not make a rule hold for all jobs."""
    with serving_app(tmp_path) as served:
        path = served.files.tokens
        document = json.loads(path.read_text())
        for item in (
            {"group": "a", "role": "operate", "jobs": "team===a"},
            {"group": "a", "role": "operate", "jobs": ""},
            {"group": "a", "role": "operate", "jobs": None},
            {"group": "a", "role": "operate", "job": "team=a"},
            {"group": "a", "user": "b", "role": "read"},
            {"role": "read"},
            {"group": "a", "role": "admin"},
        ):
            path.write_text(json.dumps({**document, "users": [item]}))
            tokens = type(served.context.access.tokens)(path)
            with pytest.raises(NotAllowed, match="item 1 of `users`"):
                tokens.open()
