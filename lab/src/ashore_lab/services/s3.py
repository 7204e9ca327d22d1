"""A real server with the API of S3, s3proxy over a directory, on the loopback address.

What it is: one server with one bucket, data and port kept in one directory.
What it promises: after `stop` or `kill`, `start` comes back on the same port with the same objects.
Of writers that create one object at once, one succeeds: other servers fail at that.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ashore.jobs.jars import SHORT_LIVED, Progress, class_path, find_java
from ashore_lab.services.ports import LOOPBACK, is_listening
from ashore_lab.services.process import Command
from ashore_lab.services.single import SingleServer

MAIN = "org.gaul.s3proxy.Main"
BUCKET = "lake"
KEY_ID, SECRET_KEY = "ashore", "ashore-secret"

LOGBACK = """\
<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d %level %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="out"/></root>
</configuration>
"""


@dataclass(frozen=True, slots=True)
class S3Options:
    """How to run the server."""

    heap: str = "256m"
    start_deadline_s: float = 60


class S3(SingleServer):
    """One server in one directory. As a context manager it is up inside and gone after."""

    name = "s3"

    def __init__(
        self,
        directory: Path,
        options: S3Options | None = None,
        *,
        progress: Progress | None = None,
    ) -> None:
        super().__init__(directory)
        self.options = options or S3Options()
        self.progress = progress

    @property
    def port(self) -> int:
        """Return the port that the server listens on."""
        return self._port()

    @property
    def uri(self) -> str:
        """Return the bucket's address."""
        return f"s3://{BUCKET}"

    def client_options(self) -> dict[str, str]:
        """Return the options of `s3` in a job file."""
        return {
            "endpoint": f"http://{LOOPBACK}:{self._port()}",
            "region": "us-east-1",
            "access_key_id": KEY_ID,
            "secret_access_key": SECRET_KEY,
        }

    def endpoint(self) -> dict[str, str]:
        """Return what clients need."""
        return {"uri": self.uri, **self.client_options()}

    def start(self) -> None:
        """Start the server and wait until it listens. The first start makes the bucket."""
        port = self._port()
        self._check_port(port)
        (self.directory / "data" / BUCKET).mkdir(parents=True, exist_ok=True)
        (self.directory / "logback.xml").write_text(LOGBACK, "utf-8")
        settings = "".join(f"{key}={value}\n" for key, value in self._settings().items())
        (self.directory / "s3proxy.conf").write_text(settings, "utf-8")
        command = (
            str(find_java()),
            f"-Xmx{self.options.heap}",
            *SHORT_LIVED,
            "-Dlogback.configurationFile=logback.xml",
            "-cp",
            class_path("s3", progress=self.progress),
            MAIN,
            *("--properties", "s3proxy.conf"),
        )
        self.process.start(
            Command(self.name, command, self.directory),
            lambda _: is_listening(port),
            deadline_s=self.options.start_deadline_s,
        )

    def _settings(self) -> Mapping[str, str]:
        return {
            "s3proxy.endpoint": f"http://{LOOPBACK}:{self._port()}",
            "s3proxy.authorization": "aws-v2-or-v4",
            "s3proxy.identity": KEY_ID,
            "s3proxy.credential": SECRET_KEY,
            "jclouds.provider": "filesystem-nio2",
            "jclouds.filesystem.basedir": str(self.directory / "data"),
        }
