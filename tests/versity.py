"""Another server with the API of S3, versitygw over a directory, which shares no code with s3proxy.

`make versitygw` builds it.
"""

import sys
from pathlib import Path

from ashore.errors import ServiceError
from ashore_lab.services.ports import LOOPBACK, is_listening
from ashore_lab.services.process import Command
from ashore_lab.services.s3 import BUCKET, KEY_ID, S3, SECRET_KEY

PROGRAM = Path(sys.prefix, "versitygw", "versitygw")


class Versity(S3):
    """One server in one directory, with the bucket and the keys of S3."""

    name = "versitygw"

    def start(self) -> None:
        """See S3."""
        port = self._port()
        self._check_port(port)
        if not PROGRAM.exists():
            raise ServiceError("versitygw is not built", hint="make versitygw")
        data, attributes = self.directory / "data", self.directory / "attributes"
        for each in (data / BUCKET, attributes):
            each.mkdir(parents=True, exist_ok=True)
        command = (
            *(str(PROGRAM), "--access", KEY_ID, "--secret", SECRET_KEY, "--quiet"),
            *("--port", f"{LOOPBACK}:{port}", "posix", "--sidecar", str(attributes), str(data)),
        )
        self.process.start(
            Command(self.name, command, self.directory), lambda _: is_listening(port), deadline_s=30
        )
