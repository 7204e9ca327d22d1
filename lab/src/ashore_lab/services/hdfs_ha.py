"""Which NameNode is active, and making it so.

What it is: the two calls of Hadoop's `HAServiceProtocol` that `hdfs haadmin` makes, and the
NameNode's own page about itself; the quota of a directory, as `hdfs dfsadmin` sets it; and a delete
as a client asks for it, as one call.
What it promises: every call has a deadline; what did not answer is an error, never a guess.
"""

import json
import urllib.error
import urllib.request
from enum import StrEnum
from typing import NamedTuple

from ashore.errors import ServiceError
from ashore_lab.services.hdfs_rpc import call, field, number
from ashore_lab.services.ports import LOOPBACK

PROTOCOL = "org.apache.hadoop.ha.HAServiceProtocol"
CLIENT_PROTOCOL = "org.apache.hadoop.hdfs.protocol.ClientProtocol"
QUOTA_AS_IT_IS = (1 << 63) - 1
NO_QUOTA = (1 << 64) - 1  # -1, as a varint holds it
BEANS = "http://{host}:{port}/jmx?qry=Hadoop:service=NameNode,name={name}"


class NameNodeRole(StrEnum):
    """What a NameNode says that it is."""

    ACTIVE = "active"
    STANDBY = "standby"
    INITIALIZING = "initializing"


class NameNodeState(NamedTuple):
    """What a NameNode says of itself. One that was frozen may say what is no longer true."""

    role: NameNodeRole
    since_ms: int  # 0 for what it was at its start
    is_safe_mode: bool
    live_datanodes: int


def load_state(http_port: int, *, deadline_s: float = 5) -> NameNodeState:
    """Ask a NameNode for its state. Raises ServiceError if it does not answer."""
    status = _load_bean(http_port, "NameNodeStatus", deadline_s)
    system = _load_bean(http_port, "FSNamesystemState", deadline_s)
    return NameNodeState(
        role=NameNodeRole(str(status["State"])),
        since_ms=int(str(status["LastHATransitionTime"])),
        is_safe_mode=system["FSState"] != "Operational",
        live_datanodes=int(str(system["NumLiveDataNodes"])),
    )


def transition(rpc_port: int, role: NameNodeRole, *, deadline_s: float = 30) -> None:
    """Make a NameNode active or standby. One that is so already stays so.

    Raises ServiceError if it refuses or does not answer: then what it is now is not known.
    """
    method = "transitionToActive" if role is NameNodeRole.ACTIVE else "transitionToStandby"
    by_user = field(1, number(1, 0))  # reqInfo {reqSource: REQUEST_BY_USER}
    call(rpc_port, PROTOCOL, method, by_user, deadline_s=deadline_s)


def set_space_quota(
    rpc_port: int, path: str, size_bytes: int | None, *, deadline_s: float = 30
) -> None:
    """Let a directory take `size_bytes`, replicas counted; None: any number. Raises ServiceError.

    The NameNode has to be active.
    """
    space = NO_QUOTA if size_bytes is None else size_bytes
    message = field(1, path.encode()) + number(2, QUOTA_AS_IT_IS) + number(3, space)
    call(rpc_port, CLIENT_PROTOCOL, "setQuota", message, deadline_s=deadline_s)


def delete_tree(rpc_port: int, path: str, *, deadline_s: float = 30) -> None:
    """Delete what is at a path, with all below it; nothing there: nothing happens.

    Raises ServiceError if it is refused or not answered: then it may be done later.
    """
    message = field(1, path.encode()) + number(2, 1)  # recursive
    call(rpc_port, CLIENT_PROTOCOL, "delete", message, deadline_s=deadline_s)


def _load_bean(http_port: int, name: str, deadline_s: float) -> dict[str, object]:
    url = BEANS.format(host=LOOPBACK, port=http_port, name=name)
    try:
        with urllib.request.urlopen(url, timeout=deadline_s) as answer:  # noqa: S310 -- ours, http
            beans: list[dict[str, object]] = json.load(answer)["beans"]
    except (OSError, ValueError, urllib.error.URLError) as error:
        raise ServiceError(f"NameNode at port {http_port} does not answer: {error}") from error
    if not beans:
        raise ServiceError(f"NameNode at port {http_port} is not ready yet")
    return beans[0]
