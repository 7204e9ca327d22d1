"""The command line as a shell sees it: exit codes, stdout and stderr, `--json`."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ashore import __version__
from ashore.cli.app import COMMANDS, app, load
from ashore.errors import AshoreError, ExitCode
from ashore.jobs.file import parse_job
from ashore.topics import open_job
from ashore_lab import demo
from ashore_lab.demo import Demo, DemoFormat

JOB = """\
job: clicks
lake: file://{lake}
source:
  kafka:
    bootstrap_servers: 127.0.0.1:1
tables:
  - topic: clicks
    table: ods.clicks
    schema: "id BIGINT, ts BIGINT"
    event_time: {{column: ts}}
"""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_job, "SOURCE_TIMEOUT_S", 0.3)


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    path = tmp_path / "job.yaml"
    path.write_text(JOB.format(lake=tmp_path / "lake"))
    (tmp_path / "lake").mkdir()
    return path


def invoke(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    return result.exit_code, result.stdout, result.stderr


def every_error(root: type[AshoreError] = AshoreError) -> list[type[AshoreError]]:
    return [root, *(found for child in root.__subclasses__() for found in every_error(child))]


def test_commands_are_listed_with_the_first_sentence_of_their_help() -> None:
    for listed in COMMANDS:
        command = load(listed)
        assert (command.name, listed.help) == (listed.name, command.get_short_help_str(200))


def test_every_error_has_a_code_of_its_own_and_a_documented_exit_code() -> None:
    errors = every_error()
    codes = [error.code for error in errors]
    assert len(set(codes)) == len(codes)
    assert {error.exit_code for error in errors} <= set(ExitCode)


def test_a_bad_job_file_names_line_key_and_what_to_write(job_file: Path) -> None:
    job_file.write_text(job_file.read_text().replace("schema:", "shema:"))
    code, out, err = invoke("status", job_file)
    assert code == 2
    assert out == ""
    assert "job.yaml:9" in err
    assert "shema" in err
    assert "schema" in err
    assert "Traceback" not in err


def test_errors_as_json_are_one_document(job_file: Path) -> None:
    job_file.write_text(job_file.read_text().replace("id BIGINT", "id BIGINTT"))
    code, out, _ = invoke("status", job_file, "--json")
    document = json.loads(out)
    assert code == document["exit_code"] == 2
    assert document["error"]["code"] == "job-file-invalid"
    assert document["error"]["problems"][0]["line"] == 9


def test_a_missing_job_file_is_an_error_of_the_command_line(tmp_path: Path) -> None:
    code, _, err = invoke("run", tmp_path / "nothing.yaml")
    assert code == 2
    assert "nothing.yaml" in err


def test_an_unreachable_broker_is_reported_before_spark_starts(job_file: Path) -> None:
    code, _, err = invoke("run", job_file)
    assert code == 7
    assert "127.0.0.1:1" in err


@pytest.mark.parametrize("lake", ["file://", "file:///proc/nowhere"])
def test_what_keeps_a_run_from_starting_is_one_line_of_json(job_file: Path, lake: str) -> None:
    job_file.write_text(job_file.read_text().replace("file://", lake))
    code, out, _ = invoke("run", job_file, "--json")
    (line,) = out.splitlines()
    reported = json.loads(line)
    assert reported["event"] == "error"
    assert reported["exit_code"] == code in {1, 7}


def test_the_version_needs_no_command() -> None:
    code, out, _ = invoke("--version")
    assert (code, out) == (0, f"ashore {__version__}\n")


@pytest.mark.parametrize("records", [-1, 0])
def test_a_demo_without_records_is_refused(records: int) -> None:
    code, _, err = invoke("demo", "--records", records)
    assert code == 2
    assert "--records" in err


def test_a_lake_that_cannot_be_written_is_reported_with_its_line(job_file: Path) -> None:
    job_file.write_text(job_file.read_text().replace("file://", "file:///proc/nowhere"))
    code, _, err = invoke("run", job_file)
    assert code == 1
    assert "job.yaml:2" in err


def test_recover_and_clean_of_a_job_that_never_ran_do_nothing(job_file: Path) -> None:
    assert invoke("recover", job_file, "--explain")[:2] == (0, "nothing to do\n")
    code, out, _ = invoke("recover", job_file, "--json")
    assert (code, json.loads(out)) == (0, {"moved": 0, "already_moved": 0})
    code, out, _ = invoke("clean", job_file, "--explain")
    assert (code, out.splitlines()[-1]) == (0, "nothing to delete")


def test_reland_and_accept_loss_exclude_each_other(job_file: Path) -> None:
    assert invoke("recover", job_file, "--reland", "--accept-loss")[0] == 2


def test_debug_shows_the_traceback(job_file: Path) -> None:
    code, _, err = invoke("run", job_file, "--debug")
    assert code == 7
    assert "Traceback" in err


def test_an_unknown_service_is_refused_with_those_that_are_known() -> None:
    code, _, err = invoke("services", "up", "kafak")
    assert code == 7
    assert "kafka" in err


def test_the_demo_takes_a_directory_that_is_relative() -> None:
    assert Demo(Path("demo"), 1).lake == Path.cwd() / "demo" / "lake"


@pytest.mark.parametrize("table_format", DemoFormat)
def test_the_demo_has_tables_of_a_format(table_format: DemoFormat) -> None:
    text = demo.JOB.format(lake="/lake", servers="127.0.0.1:1", max_records=1, format=table_format)
    assert {item.format for item in parse_job(text).tables} == {table_format}


def test_the_demo_wants_a_directory_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "something").write_text("here")
    code, _, err = invoke("demo", "--directory", tmp_path)
    assert code == 7
    assert "not empty" in err
