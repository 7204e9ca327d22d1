"""What the client's errors mean. The words are those of the library and of Hadoop."""

import pytest

from ashore.errors import AnswerUnknown, NotApplied, PathExists, PathMissing, StorageError
from ashore.storage.hdfs import storage_errors

STACK = "\\n\\tat org.apache.hadoop.hdfs.server.namenode.FSNamesystem.mkdirs(FSNamesystem.java)"


def rpc(name: str, text: str) -> RuntimeError:
    return RuntimeError(f'RPCError("org.apache.hadoop.{name}", "{text}{STACK}")')


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (FileExistsError("/a already exists\n\tat org.x.y(Z.java:1)"), PathExists, "/a already"),
        (FileNotFoundError("File does not exist: /a"), PathMissing, "File does not exist: /a"),
        (FileNotFoundError("Path is not a file: /a"), StorageError, "Path is not a file"),
        (OSError("Connection refused (os error 111)"), NotApplied, "Connection refused"),
        (OSError("failed to lookup address information: x"), NotApplied, "failed to lookup"),
        (OSError("RPC listener disconnected"), AnswerUnknown, "RPC listener disconnected"),
        (OSError("Connection reset by peer (os error 104)"), AnswerUnknown, "reset"),
        (rpc("ipc.StandbyException", "Operation category READ"), NotApplied, "category READ"),
        (rpc("ipc.RetriableException", "in safe mode"), NotApplied, "safe mode"),
        (rpc("security.AccessControlException", "/a (is not a directory)"), PathMissing, "/a"),
        (rpc("security.AccessControlException", "denied: user=x"), StorageError, "denied: user=x"),
        (rpc("fs.ParentNotDirectoryException", "/a (is not a directory)"), StorageError, "/a"),
        (
            rpc("IOException", "Source /a and destination /b must both be directories"),
            PathExists,
            "/b",
        ),
        (RuntimeError('DataTransferError("All nodes failed")'), AnswerUnknown, "All nodes"),
    ],
)
def test_what_an_error_means(error: Exception, kind: type[StorageError], words: str) -> None:
    with pytest.raises(StorageError) as caught, storage_errors("move", "a to b"):
        raise error
    assert caught.value.message.startswith("cannot move a ")
    assert type(caught.value) is kind
    assert words in caught.value.message
    assert "at org." not in caught.value.message, "without Java's stack"
    assert caught.value.__cause__ is error


NO_DATANODE = (
    "File /lake/a could only be {} to 0 {} instead of minReplication (=1).  There are 0 "
    "datanode(s) running and 0 node(s) are excluded in this operation."
)


@pytest.mark.parametrize(
    "text",
    [
        NO_DATANODE.format("replicated", "nodes"),  # Hadoop 2
        NO_DATANODE.format("written", "of the 1 minReplication nodes"),
    ],
)
def test_without_a_datanode_nothing_is_applied_and_the_hint_names_them(text: str) -> None:
    with pytest.raises(NotApplied) as caught, storage_errors("write", "a"):
        raise RuntimeError(f'RPCError("java.io.IOException", "{text}{STACK}")')
    assert "start the DataNodes" in caught.value.hint


@pytest.mark.parametrize(
    ("error", "words", "next_step"),
    [
        (
            'GSSAPIError(GSS_S_NO_CRED, 0, "No Kerberos credentials available")',
            "no valid Kerberos ticket: GSSAPIError",
            "kinit -k -t",
        ),
        (
            'GSSAPIError(GSS_S_FAILURE, 2529638944, "Ticket expired")',
            "no valid Kerberos ticket: GSSAPIError",
            "kinit -k -t",
        ),
        (
            'GSSAPIError(GSS_S_FAILURE, 2529638949, "Clock skew too great")',
            "the Kerberos login fails: GSSAPIError",
            "clock",
        ),
    ],
)
def test_a_login_that_fails_names_the_ticket(error: str, words: str, next_step: str) -> None:
    with pytest.raises(AnswerUnknown) as caught, storage_errors("read", "a"):
        raise RuntimeError(error)
    assert words in caught.value.message
    assert next_step in caught.value.hint


def test_a_hint_tells_what_to_do() -> None:
    error = rpc("hdfs.protocol.DSQuotaExceededException", "The DiskSpace quota is exceeded")
    with pytest.raises(StorageError) as caught, storage_errors("write", "a"):
        raise error
    assert "space quota" in caught.value.hint


class PanicException(BaseException):
    """As the library's: no Exception."""


def test_a_panic_of_the_library_is_an_error_and_a_stop_is_not() -> None:
    with pytest.raises(StorageError, match="past end"), storage_errors("read", "a"):
        raise PanicException("Cannot read past end of the file")
    with pytest.raises(KeyboardInterrupt), storage_errors("read", "a"):
        raise KeyboardInterrupt
