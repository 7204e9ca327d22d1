"""The certificate of a server, as its connections use it.

What it is: `ServerCertificate`, which makes the context of TLS and reads its files again.
What it promises: TLS 1.2 or later. What is wrong with the files is an error that says which; no one
is asked for a password. Files that are renewed apply to the next connection, without a restart; as
long as they cannot be used, the ones before do.
"""

import ssl
import sys
from pathlib import Path

from ashore.errors import RequestInvalid
from ashore.fleet.machine.background import Background
from ashore.fleet.records.store import FileMark, mark_of

LOOK_S = 30.0
PASSWORD = "ASHORE_TLS_KEY_PASSWORD"  # noqa: S105 - the name of a variable
_Mark = tuple[FileMark, ...]


class ServerCertificate:
    """A certificate with its key.

    Arguments:
        certificate: the file, with the certificates of its issuers, if any.
        key: the file of its key; None: the certificate's file has it too.
        password: of the key; empty: it has none.

    """

    def __init__(self, certificate: Path, key: Path | None, password: str = "") -> None:
        self._certificate = certificate
        self._key = key
        self._password = password
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._mark: _Mark = ()
        self._thread = Background("certificate", self._look)

    def open(self) -> ssl.SSLContext:
        """Return the context. Raises RequestInvalid where the files cannot be used."""
        self._mark = self._read_mark()
        _load(self._context, self._certificate, self._key, self._password)
        return self._context

    def start(self) -> None:
        """Begin to look whether the files were renewed."""
        self._thread.start()

    def end(self) -> None:
        """End that."""
        self._thread.end()

    def renew(self) -> bool:
        """Read the files again if they have changed; return whether they have, and are used.

        Raises RequestInvalid where they cannot be: the ones before are used until they change.
        """
        mark = self._read_mark()
        if mark == self._mark:
            return False
        self._mark = mark
        trial = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # a pair that is half written harms none
        _load(trial, self._certificate, self._key, self._password)
        _load(self._context, self._certificate, self._key, self._password)
        return True

    def _look(self) -> float:
        try:
            self.renew()
        except RequestInvalid as error:
            warning = f"warning the certificate was not renewed: {error.message}. {error.hint}\n"
            sys.stderr.write(warning)
        return LOOK_S

    def _read_mark(self) -> _Mark:
        return tuple(mark_of(each) for each in (self._certificate, self._key) if each is not None)


def _load(context: ssl.SSLContext, certificate: Path, key: Path | None, password: str) -> None:
    """Have a context use a certificate. Raises RequestInvalid."""
    is_asked = False

    def answer() -> str:
        nonlocal is_asked
        is_asked = True
        return password

    named = key or certificate
    try:
        context.load_cert_chain(certificate, key, answer)
    except ssl.SSLError as error:
        if is_asked:
            why = "does not open it" if password else "is not set"
            raise RequestInvalid(
                f"the key in {named} is encrypted, and its password {why}",
                hint=f"set {PASSWORD} in the environment of the server",
            ) from None
        if error.reason == "KEY_VALUES_MISMATCH":
            raise RequestInvalid(
                f"the key in {named} is not that of the certificate in {certificate}",
                hint="name the files that belong together: --tls-certificate, --tls-key; the "
                "server's own certificate comes first in its file",
            ) from None
        if key is None:
            raise RequestInvalid(
                f"{certificate} has no certificate with its key",
                hint="name the file of the key: --tls-key",
            ) from None
        raise RequestInvalid(
            f"{certificate} has no certificate, or {key} has no key, in PEM",
            hint="are the two options exchanged? `openssl x509 -in FILE -noout -text` shows what "
            "is in a file",
        ) from None
    except OSError as error:
        raise RequestInvalid(
            f"certificate and key cannot be read: {error}",
            hint="the server's user has to be able to read both files",
        ) from None
