"""Tokens from the command line, and what the client does with secrets."""

import json
import secrets
import stat
import threading
from pathlib import Path

import pytest
from tests.unit.fleet.conftest import Served
from typer.testing import CliRunner

from ashore.cli.app import app
from ashore.errors import NotAllowed, RequestInvalid
from ashore.fleet.access.tokens import TokenFile, UserRole
from ashore.fleet.records.server_files import ServerFiles


def run(*arguments: object) -> tuple[int, str]:
    found = CliRunner().invoke(app, [str(each) for each in arguments])
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    return found.exit_code, found.output


def test_tokens_are_listed_added_and_revoked_while_a_server_runs(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = served.files.jobs
    code, output = run("token", "add", jobs, "deployer", "--role", "operate", "--json")
    assert code == 0, output
    made = json.loads(output)["token"]
    assert made not in served.files.tokens.read_text()
    assert stat.S_IMODE(served.files.tokens.stat().st_mode) == 0o600
    code, output = run("token", "list", jobs)
    assert "token deployer role operate" in output
    assert made not in output
    monkeypatch.setenv("ASHORE_SERVER", str(served.client.base_url))
    monkeypatch.setenv("ASHORE_TOKEN", made)
    wait_for_code("jobs", 0)
    assert run("token", "add", jobs, "deployer")[0] == RequestInvalid.exit_code, "it is there"
    assert run("token", "add", jobs, "a b")[0] == RequestInvalid.exit_code
    assert run("token", "revoke", jobs, "deployer")[0] == 0
    assert run("token", "revoke", jobs, "deployer")[0] == RequestInvalid.exit_code
    wait_for_code("jobs", NotAllowed.exit_code)


def wait_for_code(command: str, wanted: int) -> None:
    for _ in range(600):
        code, output = run(command)
        if code == wanted:
            return
        threading.Event().wait(0.05)
    raise AssertionError(output)


def test_tokens_that_are_added_at_once_are_all_there(tmp_path: Path) -> None:
    file = TokenFile(ServerFiles.of(tmp_path).tokens)
    file.path.parent.mkdir()
    names = [f"t{each}" for each in range(8)]
    threads = [
        threading.Thread(target=TokenFile(file.path).add, args=(name, UserRole.READ))
        for name in names
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert {each.name for each in file.open().callers.values()} == {*names, "read", "operate"}


# ---- the client


@pytest.mark.parametrize("is_file", [False, True])
@pytest.mark.parametrize(
    "secret",
    [
        "w\N{LATIN SMALL LETTER O WITH DIAERESIS}rd-{}",
        "two words-{}",
        "two\nlines-{}",
        "\N{SNOWMAN}{}",
        "x{}" * 500,
        '{{"tokens": [{{"token": "{}"}}], "key": "{}"}}',
    ],
)
def test_what_is_no_token_is_refused_and_never_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secret: str, *, is_file: bool
) -> None:
    word = secrets.token_hex(8)
    text = secret.replace("{{", "{").replace("}}", "}").replace("{}", word)
    monkeypatch.setenv("ASHORE_SERVER", "http://127.0.0.1:1")
    if is_file:
        path = tmp_path / "token"
        path.write_text(text, "utf-8")
        monkeypatch.setenv("ASHORE_TOKEN_FILE", str(path))
    else:
        monkeypatch.setenv("ASHORE_TOKEN", text)
    for command in (["jobs"], ["jobs", "--json"], ["jobs", "--debug"], ["verify", "clicks"]):
        code, output = run(*command)
        assert code == NotAllowed.exit_code, output
        assert word not in output
        assert "Traceback" not in output or "--debug" in command


def test_the_server_s_file_of_tokens_is_named_as_such(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASHORE_SERVER", str(served.client.base_url))
    monkeypatch.setenv("ASHORE_TOKEN_FILE", str(served.files.tokens))
    code, output = run("jobs")
    assert code == NotAllowed.exit_code
    assert "with all its tokens" in output.replace("\n", " ")
    content = json.loads(served.files.tokens.read_text())
    for each in [content["key"], *(one["token"] for one in content["tokens"] if "token" in one)]:
        assert each not in output


def test_a_password_in_an_address_is_refused_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASHORE_SERVER", "http://anna:hidden-word@127.0.0.1:1")
    code, output = run("jobs")
    assert code == RequestInvalid.exit_code
    assert "hidden-word" not in output


def test_an_address_that_is_none_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASHORE_SERVER", "http://[x")
    code, output = run("jobs")
    assert code != 0
    assert "no server answers" in output
