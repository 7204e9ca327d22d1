"""docs/operate/upgrade.md, played by two installed releases: up, back, and one too far.

A release is a copy of the package with another version; the later one also writes a newer format.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kafka_tools import produce
from tests.served import SCRIPT, ServedJob
from typer.testing import CliRunner

import ashore
from ashore.cli.app import app

PACKAGE = Path(ashore.__file__).parent
NEWER = (
    ("FORMAT_VERSION = 1", "FORMAT_VERSION = 2"),
    ("version != FORMAT_VERSION:", "version not in (1, FORMAT_VERSION):"),
)


class ThisRelease:
    """The release of these tests: its commands run in this process, which has loaded them."""

    def run(self, *arguments: object) -> tuple[int, str]:
        """Run a command; return its exit code and all that it printed."""
        result = CliRunner().invoke(app, [*map(str, arguments)])
        return result.exit_code, result.output


class Release:
    """A release that is installed in a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @classmethod
    def made(cls, directory: Path, version: str, edits: tuple[tuple[str, str], ...]) -> "Release":
        """Return a release that is made from this one."""
        there = directory / "ashore"
        shutil.copytree(PACKAGE, there, ignore=shutil.ignore_patterns("__pycache__"))
        edit(there / "__init__.py", (('__version__ = "0.1.0"', f'__version__ = "{version}"'),))
        edit(there / "log" / "entries" / "frame.py", edits)
        return cls(directory)

    def run(self, *arguments: object) -> tuple[int, str]:
        """Run a command; return its exit code and all that it printed."""
        environment = {**os.environ, "PYTHONPATH": str(self.directory)}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, *map(str, arguments)],
            cwd=self.directory, env=environment, capture_output=True, text=True, check=False,
            timeout=120,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr


def edit(path: Path, edits: tuple[tuple[str, str], ...]) -> None:
    text = path.read_text("utf-8")
    for before, after in edits:
        assert text.count(before) == 1, f"{path} has changed: {before}"
        text = text.replace(before, after)
    path.write_text(text, "utf-8")


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ThisRelease | Release]:
    made = tmp_path_factory.mktemp("releases")
    return {
        "old": ThisRelease(),
        "next": Release.made(made / "next", "0.2.0", ()),
        "newer": Release.made(made / "newer", "0.3.0", NEWER),
    }


@pytest.mark.thirds("slow by itself")
def test_an_upgrade_its_rollback_and_a_format_too_new(
    site: ServedJob, releases: dict[str, ThisRelease | Release]
) -> None:
    job_file = site.jobs / "landing.yaml"

    def land(name: str) -> int:
        produce(site.bootstrap, site.topic, [json.dumps({"id": site.sent}).encode()], partition=0)
        site.sent += 1
        code, said = releases[name].run("run", job_file, "--available-now")
        assert code in (0, 4), said
        return code

    assert land("old") == 0
    assert land("next") == 0, "the upgrade"
    assert land("old") == 0, "the rollback: the formats are the same"
    assert land("newer") == 0
    log = next(job_file.parent.parent.glob("**/landing/main/log"))
    before = sorted(path.name for path in log.iterdir())

    for command in (
        ("run", job_file, "--available-now"),
        ("verify", job_file),
        ("doctor", job_file),
    ):
        code, said = releases["old"].run(*command)
        assert code == 4, (command, said)
        assert "a later release of Ashore has written it" in said, (command, said)
        assert "backup" not in said, command
    assert sorted(path.name for path in log.iterdir()) == before, "nothing was changed"

    assert land("newer") == 0, "it continues where it was"
    code, said = releases["newer"].run("verify", job_file)
    assert code == 0, said
