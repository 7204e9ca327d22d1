"""Services that stay up until they are stopped: what `ashore services` calls.

What it is: `up`, `down` and `status` over one directory, with a directory below for each service.
What it promises: any later process can stop what an earlier one started; a service that died, or a
machine that was restarted, is seen as such and cleaned up; a service that is up is left alone.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from ashore.base.suggest import suggest
from ashore.errors import ServiceError
from ashore.jobs.jars import Progress, locked
from ashore_lab.services import hdfs
from ashore_lab.services.hdfs import Hdfs
from ashore_lab.services.hive import Hive, HiveOptions
from ashore_lab.services.kafka import Kafka
from ashore_lab.services.process import ServerProcess
from ashore_lab.services.s3 import S3
from ashore_lab.services.spark_cluster import SparkCluster
from ashore_lab.services.zookeeper import ZooKeeper


class Service(Protocol):
    """Real servers in one directory."""

    @property
    def processes(self) -> list[ServerProcess]:
        """Return the server processes, running or not."""
        ...

    def endpoint(self) -> dict[str, str]:
        """Return what clients need."""
        ...

    def start(self) -> None:
        """Start all processes and wait until they serve."""
        ...

    def stop(self) -> None:
        """End all processes; what is down already is no error."""
        ...


class ServiceState(StrEnum):
    """What the processes of a service are doing."""

    UP = "up"
    PARTLY = "partly"  # some processes died
    DIED = "died"  # it was up, and ended without `down`
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """One server process."""

    name: str
    pid: int | None
    is_alive: bool
    is_frozen: bool
    log: Path


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """One service: what `ashore services status` shows."""

    name: str
    state: ServiceState
    endpoint: dict[str, str]  # empty unless it is up
    processes: tuple[ProcessStatus, ...]
    directory: Path

    @property
    def pids(self) -> tuple[int, ...]:
        """Return the ids of the processes that run."""
        return tuple(each.pid for each in self.processes if each.is_alive and each.pid is not None)

    def to_dict(self) -> dict[str, object]:
        """Return the status as `--json` prints it."""
        return {
            "state": self.state.value,
            "endpoint": self.endpoint,
            "processes": {each.name: each.pid for each in self.processes if each.is_alive},
            "frozen": [each.name for each in self.processes if each.is_frozen],
            "logs": [str(each.log) for each in self.processes],
            "directory": str(self.directory),
        }


# Hive finds files on HDFS if that came up before it.
KNOWN: dict[str, Callable[[Path, Progress | None], Service]] = {
    "kafka": lambda directory, progress: Kafka(directory, progress=progress),
    "hdfs": lambda directory, progress: Hdfs(directory, progress=progress),
    "hive": lambda directory, _: Hive(
        directory, HiveOptions(hadoop_conf=Hdfs(directory.parent / "hdfs").conf_dir)
    ),
    "s3": lambda directory, progress: S3(directory, progress=progress),
    "spark": lambda directory, _: SparkCluster(directory),
    "zookeeper": lambda directory, _: ZooKeeper(directory),
}
PLANNED = ("bookkeeper",)

# What can be done to a service that is up: by service, then by action.
Action = Callable[[Path, Sequence[str]], dict[str, str]]
ACTIONS: dict[str, Mapping[str, Action]] = {"hdfs": hdfs.ACTIONS}


def home_directory() -> Path:
    """Return where services live: $ASHORE_HOME/services, else ~/.local/state/ashore/services."""
    own = os.environ.get("ASHORE_HOME")
    return (Path(own) if own else Path.home() / ".local" / "state" / "ashore") / "services"


def up(
    names: Sequence[str], directory: Path | None = None, progress: Progress | None = None
) -> dict[str, dict[str, str]]:
    """Bring services up and return the endpoint of each. One that is up already is left alone.

    Raises ServiceError if one does not come up; those before it stay up.
    If interrupted: `down` and a further `up` clean up.
    """
    home = directory or home_directory()
    say = progress or _say_nothing
    _check_names(names)
    endpoints = {}
    with locked(home, say):
        for name in names:
            service = KNOWN[name](home / name, progress)
            state = _status(name, service, home / name).state
            if state is not ServiceState.UP:
                say(f"{name}: starting")
                service.stop()
                service.start()
            endpoints[name] = service.endpoint()
            say(f"{name}: up {' '.join(endpoints[name].values())}")
    return endpoints


def down(
    names: Iterable[str] = (), directory: Path | None = None, progress: Progress | None = None
) -> list[str]:
    """Stop services (all, unless named) and return which had processes. Their data is kept."""
    home = directory or home_directory()
    say = progress or _say_nothing
    chosen = list(names) or list(KNOWN)
    _check_names(chosen)
    stopped = []
    with locked(home, say):
        for name in chosen:
            service = KNOWN[name](home / name, progress)
            was = _status(name, service, home / name).state
            service.stop()
            if was in (ServiceState.UP, ServiceState.PARTLY):
                stopped.append(name)
                say(f"{name}: down")
    return stopped


def status(directory: Path | None = None) -> dict[str, ServiceStatus]:
    """Return the status of every known service. Changes nothing, waits for nothing."""
    home = directory or home_directory()
    return {
        name: _status(name, make(home / name, None), home / name) for name, make in KNOWN.items()
    }


def command(
    name: str, action: str, arguments: Sequence[str] = (), directory: Path | None = None
) -> dict[str, str]:
    """Do something to a service that is up, and return what it is like then.

    Raises ServiceError if the service is not up or does not know the action.
    """
    home = directory or home_directory()
    _check_names([name])
    known = ACTIONS.get(name, {})
    if action not in known:
        raise ServiceError(
            f"service {name!r} has no action {action!r}",
            hint=suggest(action, known, f"it has: {', '.join(known) or '-'}"),
        )
    with locked(home, _say_nothing):
        state = _status(name, KNOWN[name](home / name, None), home / name).state
        if state not in (ServiceState.UP, ServiceState.PARTLY):
            raise ServiceError(f"{name} is {state}", hint=f"ashore services up {name}")
        return known[action](home / name, arguments)


def _status(name: str, service: Service, directory: Path) -> ServiceStatus:
    processes = []
    for process in service.processes:
        known = process.id()
        is_alive = known is not None and known.is_alive()
        pid = known.pid if known else None
        is_frozen = known is not None and known.is_frozen()
        processes.append(ProcessStatus(process.name, pid, is_alive, is_frozen, process.log_path))
    if all(each.is_alive for each in processes):
        state = ServiceState.UP
    elif any(each.is_alive for each in processes):
        state = ServiceState.PARTLY
    else:
        state = ServiceState.DIED if any(each.pid for each in processes) else ServiceState.DOWN
    endpoint = service.endpoint() if state is ServiceState.UP else {}
    return ServiceStatus(name, state, endpoint, tuple(processes), directory)


def _check_names(names: Iterable[str]) -> None:
    for name in names:
        if name in PLANNED:
            raise ServiceError(
                f"service {name!r} is not in this release",
                hint=f"known: {', '.join(KNOWN)}",
            )
        if name not in KNOWN:
            known = f"the services are {', '.join(KNOWN)}"
            raise ServiceError(f"unknown service {name!r}", hint=suggest(name, KNOWN, known))


def _say_nothing(_: str) -> None:
    pass
