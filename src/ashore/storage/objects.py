"""A lake in a bucket: of S3 or a store with its API, of Azure or of Google. The home of `obstore`.

What it is: the storage seam over objects, which have no directories and cannot be renamed.
What it promises: nothing is overwritten, also not under a race: each write is conditional on that
its name is free, which the server checks. A reader sees a whole object or none. A failure is
reported by its meaning: NotApplied (no server took the call), AnswerUnknown, an answer.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import AzureStore, GCSStore, S3Store

from ashore.base.clock import Clock, SystemClock
from ashore.errors import (
    AnswerUnknown,
    JobFileInvalid,
    NotApplied,
    PathExists,
    PathMissing,
    StorageError,
    check,
)
from ashore.storage.base import FileStat, FileWriter, GuardedWriter, Staged, check_path
from ashore.storage.bucket_conf import BucketConf

if TYPE_CHECKING:
    from obstore import ObjectMeta, WritableFile
    from obstore.store import ObjectStore

PART_BYTES = 8 << 20  # a file up to this size is one request
OBJECT_BYTES_MAX = 5 << 30  # of a copy in one piece
_SYSTEM_CLOCK = SystemClock()
_PAUSE_S = 0.2  # between two looks at a copy
_TRIES = 3  # of a write that a server has put off in favour of another one
_PATIENT_TRIES = 5

_STORES = {"s3": S3Store, "azure": AzureStore, "gcs": GCSStore}
_DIRECTORY_MARK = "hdi_isfolder"  # of an object that stands for a directory of Azure

_STATUS = re.compile(r"(?:status code|\(code): (\d{3})")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_DEBUG = re.compile(r"\n\s*\nDebug source:.*", re.DOTALL)
_XML = re.compile(r": \ufeff?<\?xml.*?<Message>([^<\n]*).*", re.DOTALL)
# No connection was made, or a server says that it has not begun.
_UNREACHABLE = (
    "Connection refused",
    "Host is unreachable",
    "Network is unreachable",
    "No route to host",
    "failed to lookup address",
    "dns error",
)
_TURNED_AWAY = {429, 503}
_CONFLICT = 409
_OUT_OF_RANGE = 416
_BEYOND_END = "Wanted range starting at"  # where a server sends what it has instead
_MISSING_BUCKETS = {"NoSuchBucket", "ContainerNotFound"}
# Of a client without credentials, which asks the machine that it runs on for an identity.
_TOKEN_REQUEST = "performing token request"  # noqa: S105 - a message
_HINTS = {
    **dict.fromkeys(_MISSING_BUCKETS, "create the bucket, or correct `lake`"),
    **dict.fromkeys(
        ("InvalidAccessKeyId", "SignatureDoesNotMatch", "AuthenticationFailed"),
        "correct the credentials in the job file or in the environment",
    ),
    "ExpiredToken": "renew the credentials",
    "RequestTimeTooSkewed": "correct this machine's clock",
    "AccessDenied": "allow the credentials of the job to read, create and delete objects, and to "
    "list the bucket",
    "NotImplemented": "use a store with conditional writes (If-None-Match)",
}


class ObjectStorage:
    """A Storage in one bucket, below a prefix.

    Arguments:
        conf: the bucket, and how it is reached. Raises JobFileInvalid for what no client takes.
        timeout_s: of one request, and of a copy that the server makes after its answer.
        clock: for the waits for such a copy.

    """

    def __init__(self, conf: BucketConf, timeout_s: float, clock: Clock = _SYSTEM_CLOCK) -> None:
        self._conf = conf
        self._timeout_s = timeout_s
        self._clock = clock
        try:
            # A repeated create would meet its own object: who calls decides what is repeated.
            self._calls = _open_store(conf, timeout_s, max_retries=0)
            # For what may be repeated: reads, deletes, and the write of a file, whose content is
            # compared. A move has many requests: throttled, it would seldom come to its end.
            self._patient = _open_store(conf, timeout_s, max_retries=_PATIENT_TRIES)
        except (BaseError, OSError, ValueError) as error:
            raise JobFileInvalid(
                f"no client can be made for {conf.uri}: {_DEBUG.sub('', str(error)).strip()}",
                hint=f"correct `{conf.store}` in the job file, or the credentials outside of it",
            ) from error

    def create(self, path: str, data: bytes) -> None:
        """See Storage. If interrupted: the whole object is there, or nothing."""
        check_path(path)
        with storage_errors("create", path):
            self._put(self._calls, path, data)

    def open_write(self, path: str) -> FileWriter:
        """See Storage. Nothing is at `path` before the end, which raises PathExists."""
        check_path(path)
        return ObjectWriter(self, path)

    def publish(self, staged: Staged, final: str) -> None:
        """See Storage: a copy, then a delete.

        If interrupted: one name, or both with the same content, never none. A copy that is applied
        late finds its target taken, or its source gone. Azure may answer before it has copied:
        the source is deleted only once its copy is complete.
        """
        check(staged.path != final, f"{final} is published as itself")
        check_path(staged.path)
        check_path(final)
        with storage_errors("move", f"{staged} to {final}"):
            try:
                obstore.copy(self._calls, staged.path, final, overwrite=False)
            except (AlreadyExistsError, PreconditionError):
                self._require_same(staged.path, final)
            else:
                if self._conf.store == "azure":
                    ours, theirs = self._await_copy(staged.path, final)
                    if ours["size"] != theirs["size"]:
                        raise AnswerUnknown(f"{final} is a part of {staged}", path=final)
            obstore.delete(self._patient, staged.path)

    def stat(self, path: str) -> FileStat | None:
        """See Storage. A directory is where anything is below it; it has no time."""
        check_path(path)
        with storage_errors("look at", path):
            found = self._head(path)
            if found is not None:
                return _to_file_stat(found)
            return FileStat(path, 0, 0, is_directory=True) if self._is_filled(path) else None

    def list(self, directory: str) -> list[FileStat]:
        """See Storage."""
        check_path(directory)
        start = f"{directory}/"
        with storage_errors("list", directory):
            found = obstore.list_with_delimiter(self._calls, directory)
        entries = [FileStat(path, 0, 0, is_directory=True) for path in found["common_prefixes"]]
        entries += map(_to_file_stat, found["objects"])
        # Tools mark directories by an object of the directory's own name.
        return sorted(entry for entry in entries if entry.path.startswith(start))

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """See Storage."""
        check_path(path)
        check(start >= 0 and (length is None or length >= 0), f"{path}: a range below zero")
        with storage_errors("read", path):
            if start == 0 and length is None:
                return bytes(obstore.get(self._calls, path).bytes())
            if length == 0:
                obstore.head(self._calls, path)
                return b""
            return self._read_range(path, start, length, self._calls)

    def delete(self, path: str) -> None:
        """See Storage. What is empty is no directory."""
        check_path(path)
        with storage_errors("delete", path):
            if self._head(path) is None:
                if self._is_filled(path):
                    raise StorageError(f"cannot delete {path}: it is not empty", path=path)
                raise FileNotFoundError("it does not exist")
            obstore.delete(self._calls, path)

    def sync(self, directories: Sequence[str]) -> None:
        """See Storage. Does nothing: names are durable, and no directory can be missing."""
        for directory in directories:
            check_path(directory)

    def describe(self) -> str:
        """See Storage."""
        return self._conf.uri

    def finish_file(self, path: str, data: bytes) -> None:
        """Write a whole file, or raise PathExists. What was repeated below is recognized."""
        with storage_errors("write", path):
            try:
                self._put(self._patient, path, data)
            except PathExists:
                if bytes(obstore.get(self._calls, path).bytes()) != data:
                    raise

    def begin_file(self, path: str) -> "WritableFile":
        """Begin a file of several parts, or raise PathExists. A race is not noticed."""
        with storage_errors("create", path):
            if self._head(path) is not None:
                raise PathExists(f"{path} already exists", path=path)
            return obstore.open_writer(
                self._patient, path, buffer_size=PART_BYTES, max_concurrency=1
            )

    def _put(self, store: "ObjectStore", path: str, data: bytes) -> None:
        """Create an object. A conflict with another writer (409) means that nothing was stored."""
        for _ in range(_TRIES):
            try:
                obstore.put(store, path, data, mode="create", use_multipart=False)
            except AlreadyExistsError as error:
                if _status_of(str(error)) != _CONFLICT or self._head(path) is not None:
                    raise PathExists(f"{path} already exists", path=path) from error
                conflict = error
            else:
                return
        raise _build(StorageError, f"cannot create {path}", conflict, path)

    def _require_same(self, staged: str, final: str) -> None:
        """Raise PathExists unless an interrupted move has copied the file already.

        Raises PathMissing where another process has finished it.
        """
        ours, theirs = self._await_copy(staged, final)
        is_same = ours["size"] == theirs["size"]
        position = 0
        while is_same and position < ours["size"]:
            length = min(PART_BYTES, ours["size"] - position)
            pieces = [
                self._read_range(path, position, length, self._patient) for path in (staged, final)
            ]
            is_same, position = pieces[0] == pieces[1], position + length
        if not is_same:
            raise PathExists(f"{final} already exists", path=final)

    def _await_copy(self, staged: str, final: str) -> "tuple[ObjectMeta, ObjectMeta]":
        """Return both objects, once the one at `final` has its content. Raises AnswerUnknown.

        An object that Azure still copies, or has failed to copy, is empty.
        """
        ours = obstore.head(self._patient, staged)
        end_s = self._clock.monotonic_s() + self._timeout_s
        while True:
            theirs = self._head(final, self._patient)
            is_empty = theirs is None or theirs["size"] == 0 < ours["size"]
            if theirs is not None and not (is_empty and self._conf.store == "azure"):
                return ours, theirs
            if theirs is None or self._clock.monotonic_s() >= end_s:
                raise AnswerUnknown(
                    f"{final} is not copied yet",
                    hint=f"if it stays so, delete it: the file is still at {staged}",
                    path=final,
                )
            self._clock.sleep(_PAUSE_S)

    def _read_range(self, path: str, start: int, length: int | None, store: "ObjectStore") -> bytes:
        try:
            if length is not None:
                return bytes(obstore.get_range(store, path, start=start, length=length))
            return bytes(obstore.get(store, path, options={"range": {"offset": start}}).bytes())
        except BaseError as error:
            if _status_of(str(error)) == _OUT_OF_RANGE or _BEYOND_END in str(error):
                return b""
            raise

    def _head(self, path: str, store: "ObjectStore | None" = None) -> "ObjectMeta | None":
        try:
            found = obstore.get(store or self._calls, path, options={"head": True})
        except FileNotFoundError as error:
            _refuse_missing_bucket(error)
            return None
        return None if _DIRECTORY_MARK in found.attributes else found.meta

    def _is_filled(self, directory: str) -> bool:
        """Return whether anything is below a directory."""
        for objects in obstore.list(self._calls, directory, chunk_size=2):
            return any(each["path"] != directory for each in objects)
        return False


class ObjectWriter(GuardedWriter):
    """A FileWriter that keeps its bytes until they are a part of an upload, or the whole file."""

    def __init__(self, storage: ObjectStorage, path: str) -> None:
        super().__init__(path)
        self._storage = storage
        self._kept = bytearray()
        self._upload: WritableFile | None = None
        self._size = 0

    def _append(self, data: memoryview) -> None:
        self._size += len(data)
        if self._size > OBJECT_BYTES_MAX:
            raise StorageError(
                f"{self._path} is larger than 5 GB, which an object store does not move",
                hint="lower `roll.size` of its table",
                path=self._path,
            )
        if self._upload is None and self._size <= PART_BYTES:
            self._kept += data
            return
        if self._upload is None:
            self._upload = self._storage.begin_file(self._path)
            data, self._kept = memoryview(bytes(self._kept) + data), bytearray()
        with storage_errors("write", self._path):
            self._upload.write(data)

    def _finish(self) -> None:
        if self._upload is None:
            self._storage.finish_file(self._path, bytes(self._kept))
        else:
            with storage_errors("close", self._path):
                self._upload.close()
        self._release()

    def _release(self) -> None:
        # An upload that is not completed is no file. It stays until a rule of the bucket ends it.
        self._upload, self._kept = None, bytearray()


def _open_store(conf: BucketConf, timeout_s: float, max_retries: int) -> "ObjectStore":
    timeout = timedelta(seconds=timeout_s)
    store: ObjectStore = _STORES[conf.store](
        conf.bucket,
        prefix=conf.prefix or None,
        config=dict(conf.store_settings),
        client_options={**conf.client_settings, "timeout": timeout},
        retry_config={"max_retries": max_retries, "retry_timeout": timeout},
    )
    return store


def _to_file_stat(found: "ObjectMeta") -> FileStat:
    return FileStat(found["path"], found["size"], _to_ms(found["last_modified"]), False)


def _to_ms(time: datetime) -> int:
    return round(time.timestamp() * 1000)


@contextmanager
def storage_errors(action: str, path: str) -> Iterator[None]:
    """Turn an error of the library into the error tree."""
    try:
        yield
    except (BaseError, OSError, ValueError) as error:
        raise _build(_classify(error), f"cannot {action} {path}", error, path) from error
    except BaseException as error:
        # A panic of the library is not an Exception.
        if type(error).__name__ != "PanicException":
            raise
        raise StorageError(f"cannot {action} {path}: {error}", path=path) from error


def _classify(error: Exception) -> type[StorageError]:
    """Return what an error means. Who creates a name knows a conflict of its own."""
    text = str(error)
    status = _status_of(text)
    if isinstance(error, FileNotFoundError):
        return StorageError if _code_of(text) in _MISSING_BUCKETS else PathMissing
    if status in _TURNED_AWAY or any(each in text for each in _UNREACHABLE):
        return NotApplied
    if isinstance(error, ValueError) or (status is not None and 400 <= status < 500):
        return StorageError
    return AnswerUnknown


def _refuse_missing_bucket(error: FileNotFoundError) -> None:
    if _code_of(str(error)) in _MISSING_BUCKETS:
        raise error


def _status_of(text: str) -> int | None:
    found = _STATUS.search(text)
    return int(found[1]) if found else None


def _code_of(text: str) -> str:
    found = _CODE.search(text)
    return found[1] if found else ""


def _build(kind: type[StorageError], what: str, error: Exception, path: str) -> StorageError:
    text = str(error)
    reason = _XML.sub(r": \1", _DEBUG.sub("", text)).strip()
    by_status = {403: "AccessDenied", 501: "NotImplemented"}.get(_status_of(text) or 0, "")
    hint = _HINTS.get(_code_of(text)) or _HINTS.get(by_status, "")
    if _TOKEN_REQUEST in text:
        hint = "name credentials in the job file, or set the variables of the store's environment"
    return kind(f"{what}: {reason}", hint=hint, path=path)
