"""A PostgreSQL of a test's own, where the machine has one.

What it is: `run_postgresql`, which makes a server in a directory of its user's.
What it promises: the server listens on the loopback address only while `running`; its directory is
removed at the end.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ashore_lab.services.ports import find_free_ports

SECRET = "not-shown"


@dataclass
class PostgreSql:
    """A server of its own, in a directory of its user's."""

    directory: Path
    port: int

    @property
    def url(self) -> str:
        return f"postgresql+psycopg://ashore:{SECRET}@127.0.0.1:{self.port}/postgres"

    def make(self) -> None:
        self.run("initdb", "-D", "data", "-U", "ashore", "-A", "trust", "--no-sync")

    @contextmanager
    def running(self) -> "Iterator[subprocess.Popen[str]]":
        options = ["-c", "fsync=off", "-c", "listen_addresses=127.0.0.1", "-k", str(self.directory)]
        command = ["postgres", "-D", "data", "-p", str(self.port), *options]
        with self.start(command) as server:
            try:
                self.run("pg_isready", "-h", "127.0.0.1", "-p", str(self.port), again=600)
                yield server
            finally:
                server.send_signal(signal.SIGINT)  # it ends connections
                server.wait(60)

    def run(self, *command: str, again: int = 1) -> None:
        for _ in range(again):
            with self.start(list(command)) as process:
                output = process.communicate(timeout=120)[0]
            if process.returncode == 0:
                return
        raise AssertionError(output)

    def start(self, command: list[str]) -> "subprocess.Popen[str]":
        """Start a program; as root it does not run, so then as who owns the directory."""
        user = {} if os.geteuid() else {"user": "postgres", "group": "postgres", "extra_groups": []}
        to = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return subprocess.Popen(command, cwd=self.directory, **to, **user)  # type: ignore[call-overload]


@contextmanager
def make_postgresql() -> Iterator[PostgreSql | None]:
    """Yield a server that does not run yet; None where the machine has no PostgreSQL."""
    if shutil.which("postgres") is None or shutil.which("initdb") is None:
        yield None
        return
    directory = Path(tempfile.mkdtemp(prefix="ashore-pg"))  # short: its socket is there
    directory.chmod(0o755)
    if os.geteuid() == 0:
        owner = pwd.getpwnam("postgres")
        os.chown(directory, owner.pw_uid, owner.pw_gid)
    made = PostgreSql(directory, find_free_ports(1)[0])
    try:
        made.make()
        yield made
    finally:
        shutil.rmtree(directory)
