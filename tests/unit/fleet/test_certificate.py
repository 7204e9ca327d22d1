"""The certificate of a server: what is wrong with it, what it admits, and how it is renewed."""

import socket
import ssl
import subprocess
import threading
from pathlib import Path

import pytest

from ashore.errors import RequestInvalid
from ashore.fleet.server.certificate import PASSWORD, ServerCertificate
from ashore.fleet.server.serve import ServerSettings, serve


def make(directory: Path, name: str, password: str = "") -> tuple[Path, Path]:
    """Make a certificate and its key."""
    certificate, key = directory / f"{name}.pem", directory / f"{name}-key.pem"
    hidden = f"-passout pass:{password}" if password else "-nodes"
    command = f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 {hidden} -days 2"
    files = ["-keyout", str(key), "-out", str(certificate), "-subj", f"/CN={name}"]
    subprocess.run([*command.split(), *files], check=True, capture_output=True)
    return certificate, key


def served_name(context: ssl.SSLContext, trusted: Path, version: ssl.TLSVersion) -> str:
    """Shake hands with a context once; return the name of the certificate that it shows."""
    ours, theirs = socket.socketpair()

    def answer() -> None:
        try:
            with context.wrap_socket(theirs, server_side=True):
                pass
        except (ssl.SSLError, OSError):
            return

    thread = threading.Thread(target=answer)
    thread.start()
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    asking.check_hostname = False
    asking.load_verify_locations(trusted)
    asking.minimum_version = asking.maximum_version = version
    try:
        with asking.wrap_socket(ours) as wrapped:
            found = wrapped.getpeercert() or {}
            subject: tuple[tuple[tuple[str, str], ...], ...] = found["subject"]
            return subject[0][0][1]
    finally:
        ours.close()
        theirs.close()
        thread.join()


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    (one, key), (_, other) = make(tmp_path, "one"), make(tmp_path, "other")
    _, hidden = make(tmp_path, "hidden", "secret")
    for certificate, key_, password, words in (
        (one, other, "", "of the certificate"),
        (one, None, "", "no certificate with"),
        (key, one, "", "in PEM"),
        (one, hidden, "", "encrypted, .*is not set"),
        (one, hidden, "wrong", "encrypted, .*does not open"),
        (tmp_path / "missing.pem", key, "", "cannot be read"),
    ):
        with pytest.raises(RequestInvalid, match=words):
            ServerCertificate(certificate, key_, password).open()
    with pytest.raises(RequestInvalid, match="there is no certificate"):
        serve(ServerSettings(tmp_path, port=0, certificate_key=key), lambda _url: None)


def test_a_key_with_a_password_is_opened(tmp_path: Path) -> None:
    certificate, key = make(tmp_path, "hidden", "secret")
    context = ServerCertificate(certificate, key, "secret").open()
    assert served_name(context, certificate, ssl.TLSVersion.TLSv1_3) == "hidden"
    assert PASSWORD == "ASHORE_TLS_KEY_PASSWORD", "docs/operate/serve.md names it"


def test_files_that_are_renewed_apply_to_the_next_connection(tmp_path: Path) -> None:
    (one, key), (two, second) = make(tmp_path, "one"), make(tmp_path, "two")
    certificate = ServerCertificate(one, key)
    context = certificate.open()
    assert served_name(context, one, ssl.TLSVersion.TLSv1_2) == "one"
    assert not certificate.renew(), "nothing has changed"
    one.write_bytes(two.read_bytes())
    with pytest.raises(RequestInvalid, match="of the certificate"):
        certificate.renew()
    assert not certificate.renew(), "it is said once"
    key.write_bytes(second.read_bytes())
    assert certificate.renew()
    assert served_name(context, two, ssl.TLSVersion.TLSv1_3) == "two"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_older_versions_are_refused(tmp_path: Path, version: ssl.TLSVersion) -> None:
    certificate, key = make(tmp_path, "one")
    context = ServerCertificate(certificate, key).open()
    with pytest.raises((ssl.SSLError, OSError)):
        served_name(context, certificate, version)
