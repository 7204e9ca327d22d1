"""A lake on HDFS, through one NameNode. The one home of `hdfs_native`.

What it is: the storage seam over HDFS, without a JVM.
What it promises: nothing is overwritten, also not under a race; a failure is reported by its
meaning: NotApplied (no active NameNode took the call), AnswerUnknown (the answer was lost), an
answer.
"""

import logging
import os
import posixpath
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from hdfs_native import Client, WriteOptions
from hdfs_native import FileStatus as HdfsFileStatus

from ashore.errors import (
    AnswerUnknown,
    NotApplied,
    PathExists,
    PathMissing,
    StorageError,
    check,
)
from ashore.storage.base import (
    FileStat,
    FileWriter,
    GuardedWriter,
    Staged,
    build_temporary_path,
    check_path,
)
from ashore.storage.hdfs_conf import HdfsConf

_log = logging.getLogger(__name__)

_KNOWN_MAX = 4096
_FAILOVER = "dfs.client.failover."
# A client of its own for calls: it knows one NameNode and answers at once what that one says.
# Left alone, the library asks a standby fifteen times, for three minutes.
_ONE_TRY = {f"{_FAILOVER}max.attempts": "0"}
# An open file outlives a failover: its client knows all NameNodes, and asks them again and again.
_PAUSE_S = 0.5
_PAUSE_MAX_S = 1.5 * _PAUSE_S  # as the library strews it
_NO_OBSERVERS = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
# The library starts as many threads as there are cores, for each client.
_CLIENT_THREADS = "2"


# What a NameNode says that is not active, or not yet: the call was turned away.
_TURNED_AWAY = {"StandbyException", "RetriableException", "SafeModeException"}
# No connection was made. One that breaks later says so in other words.
_UNREACHABLE = (
    "Connection refused",
    "Host is unreachable",
    "Network is unreachable",
    "No route to host",
    "failed to lookup address",
)
_HINTS = {
    "AccessControlException": "give the user of the process permission there",
    "NSQuotaExceededException": "raise the name quota of the directory",
    "DSQuotaExceededException": "raise the space quota of the directory",
    "InvalidPathException": "HDFS does not allow a colon in a name",
}
# No DataNode took a block: none is up, or none has space. A later try may find one.
_NO_DATANODE = re.compile(r"could only be (?:replicated|written) to 0 ")
_DATANODE_HINT = "start the DataNodes, and check that they have space: `hdfs dfsadmin -report`"
# The library logs in by GSSAPI. It has no error of its own for a ticket.
_LOGIN = ("GSSAPIError", "SASLError", "NoSASLMechanism")
_NO_TICKET = re.compile(r"credential|expired|no kerberos ticket", re.IGNORECASE)
_TICKET_HINT = (
    "get a ticket as the user of this process: `kinit`, or `kinit -k -t KEYTAB PRINCIPAL`; `klist` "
    "shows until when it is valid"
)
_LOGIN_HINT = "check the ticket with `klist`, the KDC, and the clock of this machine"
_BELOW_A_FILE = "(is not a directory)"
_NOT_A_FILE = "Path is not a file"
_FILE_ONTO_DIRECTORY = "must both be directories"
_JAVA_ERROR = re.compile(r'(?:Fatal)?RPCError\("(?:[\w$]+\.)*([\w$]+)", "(.*)', re.DOTALL)


class RawWriter(Protocol):
    """The library's raw writer. The one around it finishes a file that is collected as garbage."""

    def write(self, buf: memoryview) -> int:
        """Send bytes on their way."""
        ...

    def hsync(self) -> None:
        """Wait until the block being written is on the disks of its DataNodes."""
        ...

    def close(self) -> None:
        """Finish the file. Once only: a second call finishes it without its last block."""
        ...


class HdfsStorage:
    """A Storage on HDFS as one NameNode serves it.

    Arguments:
        conf: all NameNodes, and how files are made.
        namenode: the id of the one that is asked.
        root: an absolute path, or nothing.
        patience_s: how long a call for a file being written waits for a NameNode to be active.

    """

    def __init__(self, conf: HdfsConf, namenode: str, root: str, patience_s: float = 20.0) -> None:
        self._conf = conf
        self._patience_s = patience_s
        self._namenode = namenode
        self._root = root
        self._lock = threading.Lock()
        self._calls: Client | None = None
        self._files: Client | None = None
        self._known: set[str] = set()  # directories that were there; each spares a call
        self._turns: dict[str, threading.Lock] = {}  # of those who make one directory

    def create(self, path: str, data: bytes) -> None:
        """See Storage. If interrupted: a temporary file may stay; the target is whole or absent."""
        target = self._resolve(path)
        temporary = build_temporary_path(path)
        try:
            writer = self.open_write(temporary)
            writer.write(data)
            writer.close()
        except (AnswerUnknown, PathExists, PathMissing) as error:
            # Whatever became of the temporary file: `path` was not touched.
            raise NotApplied(error.message, hint=error.hint, path=path) from error
        try:
            with storage_errors("create", path):
                self._rename(self._resolve(temporary), target)
        except PathMissing as error:
            # No other process knows the temporary name: a call of ours has renamed it, or a janitor
            # of another age has taken it.
            raise AnswerUnknown(f"{temporary} is gone: {error.message}", path=path) from error
        except PathExists:
            self._discard(temporary)
            raise

    def open_write(self, path: str) -> FileWriter:
        """See Storage. The file survives a failover while it is open."""
        target = self._resolve(path)
        options = WriteOptions(
            block_size=self._conf.block_size,
            replication=self._conf.replication,
            permission=self._conf.file_mode,
            create_parent=True,
        )
        with storage_errors("create", path):
            file = self._file_client().inner.create(target, options)
        self._remember(posixpath.dirname(target))
        return HdfsWriter(file, path, self._conf.block_size if self._conf.is_synced else None)

    def publish(self, staged: Staged, final: str) -> None:
        """See Storage. If interrupted: nothing happened, or it is done."""
        check(staged.path != final, f"{final} is published as itself")
        source_path, target_path = self._resolve(staged.path), self._resolve(final)
        with storage_errors("move", f"{staged} to {final}"):
            self._make_directory(posixpath.dirname(target_path))
            try:
                self._rename(source_path, target_path)
            except FileNotFoundError:
                if self._look(source_path) is None:
                    raise
                # The target's directory was removed since it was made.
                self._make_directory(posixpath.dirname(target_path), is_new=True)
                self._rename(source_path, target_path)

    def stat(self, path: str) -> FileStat | None:
        """See Storage."""
        with storage_errors("look at", path):
            found = self._look(self._resolve(path))
        return None if found is None else _to_file_stat(path, found)

    def list(self, directory: str) -> list[FileStat]:
        """See Storage."""
        root = self._resolve(directory)
        try:
            with storage_errors("list", directory):
                found = list(self._call_client().list_status(root))
        except PathMissing:
            return []
        return sorted(
            _to_file_stat(posixpath.join(directory, posixpath.basename(each.path)), each)
            for each in found
            if each.path != root  # a file is listed as itself
        )

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """See Storage."""
        check(start >= 0 and (length is None or length >= 0), f"{path}: a range below zero")
        with storage_errors("read", path):
            reader = self._call_client().read(self._resolve(path))
            end = len(reader) if length is None else min(start + length, len(reader))
            return reader.read_range(start, end - start) if start < end else b""

    def delete(self, path: str) -> None:
        """See Storage. Whether anything is in a directory, the NameNode looks itself."""
        target = self._resolve(path)
        with storage_errors("delete", path):
            if self._look(target) is None or not self._call_client().delete(target):
                raise FileNotFoundError("it does not exist")

    def sync(self, directories: Sequence[str]) -> None:
        """See Storage. Names are durable on HDFS; looks only for directories not seen before."""
        for directory in sorted({self._resolve(each) for each in directories} - self._known):
            with storage_errors("sync", directory):
                found = self._look(directory)
                if found is None or not found.isdir:
                    raise FileNotFoundError("the directory does not exist")
                self._remember(directory)

    def confirm(self, path: str) -> None:
        """See Confirms: sets the times of the nearest directory above `path` to what they are.

        The answer comes once the journal has it. A NameNode that was replaced cannot write there,
        and ends itself.
        """
        directory = posixpath.dirname(self._resolve(path))
        with storage_errors("confirm", path):
            found = self._look(directory)
            while found is None and directory != "/":
                directory = posixpath.dirname(directory)
                found = self._look(directory)
            if found is not None:
                times = found.modification_time, found.access_time
                self._call_client().set_times(directory, *times)

    def describe(self) -> str:
        """See Storage."""
        return f"{self._conf.uri}{self._root}"

    def _resolve(self, path: str) -> str:
        check_path(path)
        return f"{self._root}/{path}"

    def _look(self, path: str) -> HdfsFileStatus | None:
        try:
            return self._call_client().get_file_info(path)
        except FileNotFoundError:
            return None
        except RuntimeError as error:
            if _is_below_a_file(error):
                return None
            raise

    def _rename(self, source: str, target: str) -> None:
        self._call_client().rename(source, target, overwrite=False)

    def _discard(self, temporary: str) -> None:
        try:
            with storage_errors("delete", temporary):
                self._call_client().delete(self._resolve(temporary))
        except StorageError as error:
            _log.warning("a temporary file is left behind, a janitor may delete it: %s", error)

    def _make_directory(self, directory: str, *, is_new: bool = False) -> None:
        """Make a directory and what is above it, unless it is known to be there."""
        with self._turn(directory):  # many files move into a new directory at once
            if directory in self._known and not is_new:
                return
            try:
                with storage_errors("make", directory):
                    mode = self._conf.directory_mode
                    self._call_client().mkdirs(directory, mode, create_parent=True)
            except AnswerUnknown as error:  # may be repeated, and nothing has been moved
                raise NotApplied(error.message, hint=error.hint) from error
            except (PathExists, PathMissing) as error:
                raise StorageError(error.message) from error  # no answer to a move: a file is there
            self._remember(directory)

    def _turn(self, directory: str) -> threading.Lock:
        with self._lock:
            return self._turns.setdefault(directory, threading.Lock())

    def _remember(self, directory: str) -> None:
        if len(self._known) >= _KNOWN_MAX:
            self._known, self._turns = set(), {}
        self._known.add(directory)

    def _call_client(self) -> Client:
        with self._lock:
            if self._calls is None:
                self._calls = self._connect([self._namenode], _ONE_TRY)
            return self._calls

    def _file_client(self) -> Client:
        """Return the client of files being written. Closing ends with the NameNode active then."""
        with self._lock:
            if self._files is None:
                others = [each for each in self._conf.namenodes if each != self._namenode]
                rounds = int(self._patience_s / _PAUSE_MAX_S)
                patient = {
                    f"{_FAILOVER}max.attempts": str(rounds * len(self._conf.namenodes)),
                    f"{_FAILOVER}sleep.base.millis": str(round(_PAUSE_S * 1000)),
                    f"{_FAILOVER}sleep.max.millis": str(round(_PAUSE_S * 1000)),
                }
                self._files = self._connect([self._namenode, *others], patient)
            return self._files

    def _connect(self, namenodes: Sequence[str], settings: dict[str, str]) -> Client:
        os.environ.setdefault("TOKIO_WORKER_THREADS", _CLIENT_THREADS)
        ours = {
            **self._conf.client_settings(namenodes),
            **settings,
            f"{_FAILOVER}random.order": "false",
            f"{_FAILOVER}proxy.provider.{self._conf.authority}": _NO_OBSERVERS,
        }
        with storage_errors("reach", self._conf.uri):
            return Client(self._conf.uri, ours)


class HdfsWriter(GuardedWriter):
    """A FileWriter on an open HDFS file.

    Arguments:
        file: what the library writes to.
        path: for messages.
        synced_block_size: None, or how many bytes a block has whose DataNodes are to sync it.

    """

    def __init__(self, file: RawWriter, path: str, synced_block_size: int | None) -> None:
        super().__init__(path)
        self._file: RawWriter | None = file
        self._synced_block_size = synced_block_size
        self._size = 0

    def _append(self, data: memoryview) -> None:
        with _file_errors("write", self._path):
            while data:
                piece = data[: self._room()]
                self._open_file().write(piece)
                self._size += len(piece)
                data = data[len(piece) :]
                if self._synced_block_size and self._size % self._synced_block_size == 0:
                    # A sync reaches the last block only: each is synced before the next begins.
                    self._open_file().hsync()

    def _finish(self) -> None:
        with _file_errors("close", self._path):
            if self._synced_block_size and self._size % self._synced_block_size:
                self._open_file().hsync()
            self._open_file().close()
        self._file = None

    def _release(self) -> None:
        # Never closed: a file of which a part may be missing would look finished. Its lease runs
        # out, and a janitor deletes it.
        self._file = None

    def _room(self) -> int | None:
        """Return how many bytes the block being written still takes; None: no matter."""
        size = self._synced_block_size
        return None if size is None else size - self._size % size

    def _open_file(self) -> RawWriter:
        if self._file is None:
            raise StorageError(f"{self._path} is not open", path=self._path)
        return self._file


@contextmanager
def _file_errors(action: str, path: str) -> Iterator[None]:
    """Turn errors of an open file into the tree. None says that the file may be gone on with."""
    try:
        with storage_errors(action, path):
            yield
    except NotApplied as error:
        raise AnswerUnknown(error.message, hint=error.hint, path=path) from error


def _to_file_stat(path: str, found: HdfsFileStatus) -> FileStat:
    return FileStat(path, found.length, found.modification_time, found.isdir)


@contextmanager
def storage_errors(action: str, path: str) -> Iterator[None]:
    """Turn an error of the client into the error tree."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        raise _translate(error, action, path) from error
    except BaseException as error:
        # A panic of the library is not an Exception.
        if type(error).__name__ != "PanicException":
            raise
        raise _build(StorageError, f"cannot {action} {path}: {error}", path) from error


def _is_below_a_file(error: Exception) -> bool:
    """Return whether a NameNode said that a part of the path is a file."""
    return _BELOW_A_FILE in str(error)


def _translate(error: OSError | RuntimeError, action: str, path: str) -> StorageError:
    name, text = _read(str(error))
    kind, hint = _classify(error, name, text), _HINTS.get(name, "")
    if _NO_DATANODE.search(text):
        kind, hint = NotApplied, _DATANODE_HINT
    elif text.startswith(_LOGIN):
        has_none = _NO_TICKET.search(text) is not None
        hint = _TICKET_HINT if has_none else _LOGIN_HINT
        text = f"{'no valid Kerberos ticket' if has_none else 'the Kerberos login fails'}: {text}"
    return _build(kind, f"cannot {action} {path}: {text}", path, hint)


def _classify(error: OSError | RuntimeError, name: str, text: str) -> type[StorageError]:
    if isinstance(error, FileExistsError) or _FILE_ONTO_DIRECTORY in text:
        return PathExists
    if isinstance(error, FileNotFoundError):
        return StorageError if _NOT_A_FILE in text else PathMissing
    if isinstance(error, OSError):
        return NotApplied if text.startswith(_UNREACHABLE) else AnswerUnknown
    if name in _TURNED_AWAY:
        return NotApplied
    if name == "AccessControlException" and _BELOW_A_FILE in text:
        return PathMissing
    # What a NameNode refused it will refuse again. All else is trouble with DataNodes.
    return StorageError if name else AnswerUnknown


def _read(text: str) -> tuple[str, str]:
    """Return the name of the Java exception, if it is one, and the message without its stack."""
    match = _JAVA_ERROR.match(text)
    name, message = (match[1], match[2]) if match else ("", text)
    return name, re.split(r"(?:\\n|\n)\s*(?:\\t|\t)at ", message)[0].removesuffix('")')


def _build(kind: type[StorageError], message: str, path: str, hint: str = "") -> StorageError:
    return kind(message, hint=hint, path=path)
