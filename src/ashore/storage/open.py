"""From a lake's address to its storage.

What it is: the one door through which jobs, commands and executors get a storage.
What it promises: every call has a deadline, safe calls are repeated; opening touches no lake, so
that an executor opens its own from the address, the options and its HADOOP_CONF_DIR.
"""

import functools
import posixpath
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from ashore.base.clock import Clock, SystemClock
from ashore.errors import JobFileInvalid, NotInstalled
from ashore.storage import azure_conf, gcs_conf, s3_conf
from ashore.storage.base import Storage
from ashore.storage.bucket_conf import BucketConf, find_store
from ashore.storage.bucket_conf import resolve_options as resolve_bucket_options
from ashore.storage.calls import Backoff, DeadlineStorage, RetryingStorage
from ashore.storage.failover import ActiveServer, FailoverStorage
from ashore.storage.hdfs_conf import HdfsConf, load_conf, resolve_options
from ashore.storage.local import LocalStorage

_PAUSE_S = 0.2  # between two tries: a server that is being started listens after a moment

if TYPE_CHECKING:
    from ashore.storage.hdfs import HdfsStorage
    from ashore.storage.objects import ObjectStorage

_FILE = "file://"
_HDFS = "hdfs://"
_BUCKETS = {"s3": s3_conf.load_conf, "azure": azure_conf.load_conf, "gcs": gcs_conf.load_conf}
_SYSTEM_CLOCK = SystemClock()
_FAILOVER_POLL_S = 2.0  # how often an HDFS without an active NameNode is asked again
# Which NameNode is active, by their addresses: the next task of this process need not find out.
_ACTIVE: dict[tuple[str, ...], ActiveServer] = {}


@dataclass(frozen=True, slots=True)
class LakeAddress:
    """Where a lake is and how it is reached: what an executor needs to open it."""

    uri: str
    deadline_s: float = 60.0
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # they may hold secrets
    active: int = 0  # the NameNode that a process asks first which knows no better

    def open(self, clock: Clock = _SYSTEM_CLOCK) -> Storage:
        """Return the storage there. Raises JobFileInvalid, NotInstalled."""
        if self.active:
            _ACTIVE.setdefault(_find_namenodes(self), ActiveServer(self.active))
        options = dict(self.options)
        return open_storage(self.uri, deadline_s=self.deadline_s, clock=clock, options=options)

    def check(self) -> None:
        """Raise JobFileInvalid where no storage can be at the address. No server is called."""
        if self.uri.startswith(_HDFS):
            _find_namenodes(self)
        elif find_store(self.uri):
            _load_bucket(self.uri, dict(self.options))

    def find_unreachable(self, within_s: float) -> tuple[str, ...]:
        """Return why no server of the lake can be reached, each with its address.

        Empty: one listens, or the lake has no servers. Who asks waits for `within_s` at most.
        """
        if not self.uri.startswith(_HDFS):
            return ()
        return find_unreachable(_find_namenodes(self), within_s, _SYSTEM_CLOCK)

    def with_active(self) -> "LakeAddress":
        """Return the address with the NameNode that serves, as far as this process knows.

        Where one is dead, each new worker of an executor would wait for it once.
        """
        if not self.uri.startswith(_HDFS):
            return self
        known = _ACTIVE.get(_find_namenodes(self))
        return replace(self, active=known.index) if known else self


@functools.lru_cache(maxsize=16)  # asked for each batch: not a look at Hadoop's files each time
def _find_namenodes(lake: LakeAddress) -> tuple[str, ...]:
    authority, _ = _parse_hdfs_root(lake.uri, lake.uri.removeprefix(_HDFS))
    return tuple(load_conf(authority, dict(lake.options)).namenodes.values())


def lake_address(uri: str, deadline_s: float, options: Mapping[str, str]) -> LakeAddress:
    """Return an address that holds on any machine. Raises JobFileInvalid.

    Arguments:
        uri: as in `open_storage`.
        deadline_s: how long a call may take.
        options: of HDFS or a bucket, see `load_conf` of each; the files that they name are read
            here and now.

    """
    if find_store(uri):
        resolved = resolve_bucket_options(options)
        return LakeAddress(uri, deadline_s, tuple(sorted(resolved.items())))
    if not uri.startswith(_HDFS):
        return LakeAddress(uri, deadline_s)
    return LakeAddress(uri, deadline_s, tuple(sorted(resolve_options(options).items())))


def open_storage(
    uri: str,
    *,
    deadline_s: float = 60.0,
    clock: Clock = _SYSTEM_CLOCK,
    options: Mapping[str, str] | None = None,
) -> Storage:
    """Return the storage at `uri`. Raises JobFileInvalid, NotInstalled.

    Arguments:
        uri: `file:///absolute/path`, `hdfs://nameservice/path`, `hdfs://host:port/path`,
            `s3://bucket/path`, `gs://bucket/path`, `abfs://container@account.HOST/path` or
            `az://container/path`, taken as it is written: `%` is a character like any other.
        deadline_s: how long a call may take, with all NameNodes that are asked.
        clock: for the waits between tries.
        options: of HDFS or a bucket: see `load_conf` of each. Without: what the environment says.

    """
    scheme, separator, rest = uri.partition("://")
    if not separator:
        path = posixpath.abspath(uri) if uri else "/data/lake"
        raise _invalid(uri, "has no scheme", f"write it as {_FILE}{path}")
    if scheme == "file":
        root = _parse_local_root(uri, rest)
        return RetryingStorage(DeadlineStorage(_open_local(root), deadline_s), clock)
    if scheme == "hdfs":
        authority, root = _parse_hdfs_root(uri, rest)
        storage = _open_hdfs(load_conf(authority, options), root, deadline_s)
        backoff = Backoff(max_s=_FAILOVER_POLL_S, within_s=deadline_s)
        return RetryingStorage(storage, clock, backoff=backoff)
    if find_store(uri):
        conf, build = _load_bucket(uri, options), _load_objects()
        # What is waited for below the deadline must end before it: else the reason is lost.
        objects = build(conf, deadline_s * 2 / 3)
        backoff = Backoff(within_s=deadline_s)
        return RetryingStorage(DeadlineStorage(objects, deadline_s), clock, backoff=backoff)
    raise _invalid(uri, f"has the scheme {scheme}", f"use {_FILE}/..., {_HDFS}... or s3://...")


@functools.lru_cache(maxsize=16)
def _open_local(root: str) -> LocalStorage:
    """Return the one storage of a process there: it knows which names are durable already."""
    return LocalStorage(root)


def _open_hdfs(conf: HdfsConf, root: str, deadline_s: float) -> FailoverStorage:
    """Return a storage that asks one NameNode after the other, all within the deadline."""
    build = _load_hdfs()
    each_s = deadline_s / len(conf.namenodes)

    def opener(namenode: str) -> Callable[[], Storage]:
        # What is waited for below the deadline must end before it: else the reason is lost.
        return lambda: DeadlineStorage(build(conf, namenode, root, each_s * 2 / 3), each_s)

    active = _ACTIVE.setdefault(tuple(conf.namenodes.values()), ActiveServer())
    return FailoverStorage([opener(namenode) for namenode in conf.namenodes], active)


def _load_hdfs() -> "type[HdfsStorage]":
    try:
        from ashore.storage.hdfs import HdfsStorage  # noqa: PLC0415  # its package is optional
    except ModuleNotFoundError as error:
        if error.name != "hdfs_native":
            raise
        raise NotInstalled(
            "a lake on HDFS needs the package hdfs-native", hint="pip install 'ashore[hdfs]'"
        ) from error
    return HdfsStorage


def _load_objects() -> "type[ObjectStorage]":
    try:
        from ashore.storage.objects import ObjectStorage  # noqa: PLC0415  # its package is optional
    except ModuleNotFoundError as error:
        if error.name != "obstore":
            raise
        raise NotInstalled(
            "a lake in a bucket needs the package obstore", hint="pip install 'ashore[s3]'"
        ) from error
    return ObjectStorage


def _load_bucket(uri: str, options: Mapping[str, str] | None) -> BucketConf:
    scheme, _, rest = uri.partition("://")
    authority, _, path = rest.partition("/")
    if not authority.partition("@")[0]:
        raise _invalid(uri, "has no bucket", f"write {scheme}://BUCKET{authority}/{path}")
    _refuse_going_up(uri, f"{scheme}://{authority}", f"/{path}")
    plain = posixpath.normpath(path.strip("/"))
    load = _BUCKETS[find_store(uri) or ""]
    return load(authority, "" if plain == "." else plain, options, scheme=scheme)


def _parse_local_root(uri: str, root: str) -> str:
    if not root.startswith("/"):
        raise _invalid(uri, "names a host", f"a path has three slashes: {_FILE}/{root}")
    _refuse_going_up(uri, _FILE, root)
    return root


def _parse_hdfs_root(uri: str, rest: str) -> tuple[str, str]:
    """Return nameservice or host:port, and the path without a slash at its end."""
    authority, _, path = rest.partition("/")
    if not authority:
        raise _invalid(uri, "has no nameservice", f"write {_HDFS}NAMESERVICE/{path}")
    if ":" in path:
        raise _invalid(uri, "has a colon in its path", "HDFS does not allow a colon in a name")
    _refuse_going_up(uri, f"{_HDFS}{authority}", f"/{path}")
    plain = posixpath.normpath(path.strip("/"))
    return authority, "" if plain == "." else f"/{plain}"


def _refuse_going_up(uri: str, before: str, path: str) -> None:
    if ".." in path.split("/"):
        raise _invalid(uri, "has '..' in its path", f"write {before}{posixpath.normpath(path)}")


def _invalid(uri: str, what: str, hint: str) -> JobFileInvalid:
    return JobFileInvalid(f"the lake {uri!r} {what}", hint=hint, uri=uri)


def find_unreachable(addresses: Sequence[str], within_s: float, clock: Clock) -> tuple[str, ...]:
    """Return why none of `host:port` can be reached, one reason each; empty: one of them listens.

    All are tried side by side, again and again for `within_s`; a connection is made and closed, and
    nothing is sent. Looking up a name may hang: its
    thread is abandoned then.
    """
    reached: SimpleQueue[bool] = SimpleQueue()
    reasons = dict.fromkeys(addresses, f"no answer within {within_s:g} s")
    deadline_s = clock.monotonic_s() + within_s
    for address in addresses:
        attempt = _Attempt(address, clock, deadline_s, reasons, reached)
        threading.Thread(target=attempt.run, daemon=True).start()
    for _ in addresses:
        try:
            if reached.get(timeout=max(0.0, deadline_s - clock.monotonic_s()) + _PAUSE_S):
                return ()
        except Empty:
            break
    return tuple(f"{address}: {reason}" for address, reason in list(reasons.items()))


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One address, tried until a server listens there or the time is over."""

    address: str
    clock: Clock
    deadline_s: float
    reasons: dict[str, str]
    reached: "SimpleQueue[bool]"

    def run(self) -> None:
        host, _, port = self.address.rpartition(":")
        while (left_s := self.deadline_s - self.clock.monotonic_s()) > 0:
            try:
                socket.create_connection((host.strip("[]"), int(port)), timeout=left_s).close()
            except TimeoutError:
                break
            except (OSError, ValueError, OverflowError) as error:
                reason = getattr(error, "strerror", None) or str(error)
                self.reasons[self.address] = reason.strip()
                self.clock.sleep(min(_PAUSE_S, left_s))
            else:
                self.reached.put(True)
                return
        self.reached.put(False)
