"""A real HDFS from jars: two NameNodes (HA), one JournalNode, two DataNodes, each a process.

What it is: a small cluster that fails as large ones do: NameNodes are switched, killed, frozen
(SIGSTOP) and, by a proxy that stands between them and clients only, cut off from clients.
What it promises: nothing fails over by itself; what was killed starts again at its address with its
data; after `stop` no process is left, frozen ones included. There is no fencing but the journal's:
a NameNode that was frozen while another became active ends itself at its next write.
"""

import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from ashore.base.clock import SystemClock
from ashore.errors import ServiceError
from ashore.jobs.jars import SHORT_LIVED, Progress, class_path, find_java
from ashore_lab.services import hdfs_settings as settings
from ashore_lab.services import proxy
from ashore_lab.services.guard import GuardedServers
from ashore_lab.services.hdfs_audit import AuditEntry, parse_log
from ashore_lab.services.hdfs_ha import (
    NameNodeRole,
    NameNodeState,
    delete_tree,
    load_state,
    set_space_quota,
    transition,
)
from ashore_lab.services.hdfs_rpc import server_user
from ashore_lab.services.ports import choose_ports, is_free, is_listening
from ashore_lab.services.process import Command, ServerProcess

CLOCK = SystemClock()
POLL_S = 0.1
STANDBY_DEADLINE_S = 5
SERVER = "org.apache.hadoop.hdfs."
NAMENODE = f"{SERVER}server.namenode.NameNode"
JOURNALNODE = f"{SERVER}qjournal.server.JournalNode"
DATANODE = f"{SERVER}server.datanode.DataNode"
REGISTERED = "successfully registered with NN"  # what a DataNode says

JAVA_OPTIONS = (*SHORT_LIVED, "-Duser.timezone=UTC")


# Empty: the jar has no pages for people, and from there a server takes seconds to unpack nothing.
WEB_PAGES = ("hdfs", "journal", "datanode", "static")


@dataclass(frozen=True, slots=True)
class HdfsOptions:
    """How large the cluster is. One NameNode means no HA and no JournalNode."""

    namenodes: int = 2
    datanodes: int = 2
    settings: Mapping[str, str] = field(default_factory=dict)  # of servers and clients; they win
    heap: str = "256m"  # of each process
    start_deadline_s: float = 120


class Hdfs(GuardedServers):
    """One HDFS in one directory. As a context manager it is up inside and gone after."""

    name = "hdfs"

    def __init__(
        self,
        directory: Path,
        options: HdfsOptions | None = None,
        *,
        progress: Progress | None = None,
    ) -> None:
        self.directory = directory.absolute()
        self.options = options or HdfsOptions()
        self.progress = progress
        self._proxy = ServerProcess("proxy", self.directory)
        self._journals = [ServerProcess("jn", self.directory)] if self._is_ha else []
        self._namenodes = [
            ServerProcess(settings.namenode_name(index), self.directory)
            for index in range(self.options.namenodes)
        ]
        self._datanodes = [
            ServerProcess(f"dn{index}", self.directory) for index in range(self.options.datanodes)
        ]

    @property
    def processes(self) -> list[ServerProcess]:
        """Return the proxy, JournalNode, NameNodes and DataNodes."""
        return [self._proxy, *self._journals, *self._namenodes, *self._datanodes]

    @property
    def uri(self) -> str:
        """Return the file system's address."""
        return settings.build_uri(self._ports())

    @property
    def conf_dir(self) -> Path:
        """Return the directory with the clients' core-site.xml and hdfs-site.xml."""
        return self.directory / "client"

    @property
    def superuser(self) -> str:
        """Return the user who may do everything: the one that the servers run as."""
        return server_user()

    def client_options(self) -> dict[str, str]:
        """Return the clients' settings, as hdfs-native takes them."""
        return {**settings.build_client(self._ports()), **self._common()}

    def endpoint(self) -> dict[str, str]:
        """Return what clients need."""
        return {"uri": self.uri, "conf_dir": str(self.conf_dir)}

    def start(self) -> None:
        """Start what is not running, see to it that a NameNode is active, wait until all can serve.

        The first start formats. Raises ServiceError if a port is taken or a process does not come
        up. If interrupted: everything is stopped.
        """
        try:
            self.write_client_conf()
            self._start_proxy()
            for journal in self._journals:
                self._start_journal(journal)
            self._format()
            with ThreadPoolExecutor() as pool:
                tasks = [
                    pool.submit(start, index)
                    for start, processes in (
                        (self.start_namenode, self._namenodes),
                        (self.start_datanode, self._datanodes),
                    )
                    for index, process in enumerate(processes)
                    if not process.is_alive()
                ]
                for task in tasks:
                    task.result()
            if self.active() is None:
                self.switch()
            self._wait_until_serving()
        except BaseException:
            self.stop()
            raise

    def write_client_conf(self) -> None:
        """Write what clients need to `conf_dir`: they may read it before there is an HDFS."""
        self.conf_dir.mkdir(parents=True, exist_ok=True)
        text = settings.to_xml(self.client_options())
        for name in ("core-site.xml", "hdfs-site.xml"):
            (self.conf_dir / name).write_text(text, "utf-8")

    def stop(self) -> None:
        """End all processes, frozen ones too. Data and ports are kept."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(ServerProcess.stop, self.processes))

    def active(self) -> int | None:
        """Return which NameNode is active, None if none is (or it does not answer).

        Of two that say so (one was frozen, and does not know yet) the one that became so last.
        """
        found = [
            (state.since_ms, index)
            for index in range(len(self._namenodes))
            if (state := self.state(index)) is not None and state.role is NameNodeRole.ACTIVE
        ]
        return max(found)[1] if found else None

    def state(self, index: int) -> NameNodeState | None:
        """Return what NameNode `index` says of itself, None if it does not answer."""
        namenode = self._namenode(index)
        if not namenode.is_alive() or namenode.is_frozen():
            return None
        try:
            return load_state(self._ports().namenodes[index].http)
        except ServiceError:
            return None

    def switch(self, to: int | None = None) -> int:
        """Make another NameNode active (`to`, else the next that answers) and return which.

        As `hdfs haadmin -failover --forcefence` does: the active one is asked to become standby;
        whether it does or not, the other becomes active, and from then on the journal refuses the
        first one. Raises ServiceError if there is no other, or it cannot become active.
        """
        was = self.active()
        if to is None:
            states = {index: self.state(index) for index in range(len(self._namenodes))}
            others = [index for index, state in states.items() if state and index != was]
            if not others:
                raise ServiceError(
                    "no other NameNode answers", hint="start it or let it continue first"
                )
            to = others[0]
        self._namenode(to)
        for index in range(len(self._namenodes)):
            if index != to and self.state(index) is not None:
                self._step_down(index)
        rpc = self._ports().namenodes[to].rpc
        transition(rpc, NameNodeRole.ACTIVE, deadline_s=self.options.start_deadline_s)
        return to

    def kill_namenode(self, index: int) -> None:
        """Kill NameNode `index` with SIGKILL."""
        self._namenode(index).kill()

    def start_namenode(self, index: int) -> None:
        """Start NameNode `index` after it ended, and wait until it answers. It comes as standby."""
        namenode, own = self._namenode(index), self._ports().namenodes[index]
        self._start_java(
            namenode,
            NAMENODE,
            lambda _: is_listening(own.rpc) and self._is_reachable(index),
            ports=(own.rpc, own.http),
        )

    def freeze_namenode(self, index: int) -> None:
        """Freeze NameNode `index` (SIGSTOP): connections stay open, without answers."""
        self._namenode(index).freeze()

    def thaw_namenode(self, index: int) -> None:
        """Let NameNode `index` continue where it was frozen."""
        self._namenode(index).thaw()

    def black_hole(self, index: int) -> None:
        """Cut NameNode `index` off from clients: nothing comes through, nothing is closed."""
        self._set_mode(index, proxy.Mode.BLACK_HOLE)

    def drop_answers(self, index: int, count: int | None = None) -> None:
        """Let NameNode `index` do what clients ask, and drop its answers (`count`, else all)."""
        self._set_mode(index, proxy.Mode.DROP_ANSWER, count)

    def restore(self, index: int) -> None:
        """Let clients reach NameNode `index` again. What waits in a black hole arrives now."""
        self._set_mode(index, proxy.Mode.PASS)

    def modes(self) -> list[proxy.Mode]:
        """Return what the proxy does, by NameNode."""
        return proxy.load_modes(self._ports().control)

    def describe(self) -> dict[str, str]:
        """Return what each NameNode is and what the proxy does, for people: `active, black_hole`.

        What does not answer is `frozen`, `silent` or `down`.
        """
        found = {}
        for index, (namenode, mode) in enumerate(zip(self._namenodes, self.modes(), strict=True)):
            state = self.state(index)
            if state:
                what = state.role.value
            elif namenode.is_alive():
                what = "frozen" if namenode.is_frozen() else "silent"
            else:
                what = "down"
            found[namenode.name] = what if mode is proxy.Mode.PASS else f"{what}, {mode}"
        return found

    def stop_datanode(self, index: int) -> None:
        """Stop DataNode `index`. The NameNodes take 12 s to call it dead."""
        self._datanodes[index].stop()

    def start_datanode(self, index: int) -> None:
        """Start DataNode `index`, at first or after a stop, and wait until it has registered."""
        self._start_java(
            self._datanodes[index],
            DATANODE,
            lambda log: REGISTERED in log,
            ports=(self._ports().datanodes[index],),
        )

    def set_space_quota(self, path: str, size_bytes: int | None) -> None:
        """Let a directory take `size_bytes`, replicas counted; None: any number.

        A block is counted whole while it is written. Raises ServiceError.
        """
        active = self.active()
        if active is None:
            raise ServiceError("no NameNode is active", hint="switch to one first")
        set_space_quota(self._ports().namenodes[active].rpc, path, size_bytes)

    def delete_tree(self, index: int, path: str, *, deadline_s: float) -> None:
        """Ask NameNode `index`, and no other, to delete a path with all below it, as a client does.

        It goes through the proxy: what holds calls holds this one. Raises ServiceError.
        """
        self._namenode(index)
        delete_tree(self._ports().namenodes[index].proxy, path, deadline_s=deadline_s)

    def audit_entries(self, since_ms: int = 0) -> list[AuditEntry]:
        """Return what the NameNodes answered from `since_ms` on (wall time), in that order."""
        found: list[AuditEntry] = []
        for index, namenode in enumerate(self._namenodes):
            path = self.directory / namenode.name / "audit.log"
            text = path.read_text("utf-8") if path.exists() else ""
            found += parse_log(text, index, since_ms)
        return sorted(found, key=lambda each: each.time_ms)

    @property
    def _is_ha(self) -> bool:
        return self.options.namenodes > 1

    def _namenode(self, index: int) -> ServerProcess:
        if not 0 <= index < len(self._namenodes):
            raise ServiceError(f"no NameNode {index}", hint=f"there are {len(self._namenodes)}")
        return self._namenodes[index]

    def _ports(self) -> settings.Ports:
        """Return the ports, which are chosen once for a directory."""
        nodes = range(self.options.namenodes)
        keys = [f"nn{index}_{use}" for index in nodes for use in ("rpc", "http", "proxy")]
        keys += [f"dn{index}" for index in range(self.options.datanodes)]
        keys += ["jn_rpc", "jn_http", "control"]
        known = choose_ports(self.directory / "hdfs.json", tuple(keys))
        return settings.Ports(
            namenodes=tuple(
                settings.NameNodePorts(
                    known[f"nn{index}_rpc"], known[f"nn{index}_http"], known[f"nn{index}_proxy"]
                )
                for index in nodes
            ),
            datanodes=tuple(known[f"dn{index}"] for index in range(self.options.datanodes)),
            journal_rpc=known["jn_rpc"],
            journal_http=known["jn_http"],
            control=known["control"],
        )

    def _common(self) -> dict[str, str]:
        """Return the settings of both servers and clients."""
        replication = min(2, self.options.datanodes)
        return {"dfs.replication": str(replication), **self.options.settings}

    def _write_server(self, process: ServerProcess) -> Path:
        """Write the configuration of a server and return the directory that it runs in."""
        home, ports = self.directory / process.name, self._ports()
        log4j = settings.LOG4J
        if process in self._namenodes:
            index = self._namenodes.index(process)
            own = settings.build_namenode(ports, index, home / "name")
            log4j += settings.AUDIT_LOG4J
        elif process in self._datanodes:
            index = self._datanodes.index(process)
            own = settings.build_datanode(ports, index, home / "data")
        else:
            own = settings.build_journalnode(ports, home / "edits")
        conf = home / "conf"
        for page in WEB_PAGES:
            (conf / "webapps" / page).mkdir(parents=True, exist_ok=True)
        text = settings.to_xml({**own, **self._common()})
        for name in ("core-site.xml", "hdfs-site.xml"):
            (conf / name).write_text(text, "utf-8")
        (conf / "log4j.properties").write_text(log4j, "utf-8")
        return home

    def _java(self, process: ServerProcess, main_class: str) -> Command:
        home = self._write_server(process)
        command = (
            str(find_java()),
            f"-Xmx{self.options.heap}",
            *JAVA_OPTIONS,
            "-cp",
            f"{home / 'conf'}:{class_path('hdfs', progress=self.progress)}",
            main_class,
        )
        return Command(process.name, command, home, {"HADOOP_USER_NAME": server_user()})

    def _start_java(
        self,
        process: ServerProcess,
        main_class: str,
        is_ready: Callable[[str], bool],
        *,
        ports: Sequence[int],
    ) -> None:
        self._check_ports(process, ports)
        command = self._java(process, main_class)
        process.start(command, is_ready, deadline_s=self.options.start_deadline_s)

    def _check_ports(self, process: ServerProcess, ports: Sequence[int]) -> None:
        taken = [port for port in ports if not is_free(port)]
        if taken and not process.is_alive():
            raise ServiceError(f"port {taken[0]} of {self.directory} is used by another process")

    def _start_proxy(self) -> None:
        if self._proxy.is_alive():
            return
        ports = self._ports()
        routes = [proxy.Route(namenode.proxy, namenode.rpc) for namenode in ports.namenodes]
        self._check_ports(self._proxy, (ports.control,))
        self._proxy.start(
            Command("proxy", proxy.command(ports.control, routes), self.directory),
            lambda _: is_listening(ports.control),
            deadline_s=self.options.start_deadline_s,
        )

    def _start_journal(self, journal: ServerProcess) -> None:
        if not journal.is_alive():
            used = (self._ports().journal_rpc, self._ports().journal_http)
            self._start_java(
                journal, JOURNALNODE, lambda _: all(map(is_listening, used)), ports=used
            )

    def _format(self) -> None:
        """Make an empty file system, once: the others get the first NameNode's image.

        If interrupted: it is made again, as long as a DataNode lacks it.
        """
        done = self.directory / "formatted"
        if done.exists():
            return
        command = self._java(self._namenodes[0], NAMENODE)
        answer = subprocess.run(
            (*command.arguments, "-format", "-nonInteractive", "-force"),
            cwd=command.directory,
            capture_output=True,
            text=True,
            check=False,
        )
        if answer.returncode:
            raise ServiceError(f"hdfs namenode -format failed: {answer.stdout}{answer.stderr}")
        for namenode in self._namenodes[1:]:
            target = self.directory / namenode.name / "name"
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(command.directory / "name", target)
        done.touch()

    def _step_down(self, index: int) -> None:
        """Ask a NameNode to become standby. It may not hear, or take too long."""
        try:
            rpc = self._ports().namenodes[index].rpc
            transition(rpc, NameNodeRole.STANDBY, deadline_s=STANDBY_DEADLINE_S)
        except ServiceError as error:
            if self.progress:
                self.progress(f"hdfs: NameNode {index} does not become standby: {error.message}")

    def _wait_until_serving(self) -> None:
        """Wait until a NameNode is active, and each that answers is ready to serve.

        Ready: out of safe mode, with all DataNodes. A standby too: it has to stand in at any time.
        """
        deadline = CLOCK.monotonic_s() + self.options.start_deadline_s
        while True:
            states = [self.state(index) for index in range(len(self._namenodes))]
            answering = [state for state in states if state is not None]
            is_active = any(state.role is NameNodeRole.ACTIVE for state in answering)
            if is_active and all(self._is_ready(state) for state in answering):
                return
            if CLOCK.monotonic_s() > deadline:
                raise ServiceError(f"hdfs is not ready: {states}", hint=f"see {self.directory}")
            CLOCK.sleep(POLL_S)

    def _is_ready(self, state: NameNodeState) -> bool:
        return not state.is_safe_mode and state.live_datanodes >= len(self._datanodes)

    def _is_reachable(self, index: int) -> bool:
        """Return whether the NameNode answers and the proxy has seen that."""
        return self.state(index) is not None and is_listening(self._ports().namenodes[index].proxy)

    def _set_mode(self, index: int, mode: proxy.Mode, answers: int | None = None) -> None:
        self._namenode(index)
        proxy.set_mode(self._ports().control, index, mode, answers=answers)


def _run(
    action: Callable[[Hdfs, int], object],
) -> Callable[[Path, Sequence[str]], dict[str, str]]:
    """Return what `ashore services hdfs` does for an action on one node."""

    def run(directory: Path, arguments: Sequence[str]) -> dict[str, str]:
        cluster = Hdfs(directory)
        if len(arguments) != 1 or not arguments[0].isdecimal():
            raise ServiceError(
                f"expected the number of a node, got {' '.join(arguments) or 'nothing'}"
            )
        action(cluster, int(arguments[0]))
        return cluster.describe()

    return run


def _switch(directory: Path, arguments: Sequence[str]) -> dict[str, str]:
    cluster = Hdfs(directory)
    if arguments:
        return _run(Hdfs.switch)(directory, arguments)
    cluster.switch()
    return cluster.describe()


def _show(directory: Path, _: Sequence[str]) -> dict[str, str]:
    return Hdfs(directory).describe()


ACTIONS = {
    "show": _show,
    "switch": _switch,
    "kill": _run(Hdfs.kill_namenode),
    "start": _run(Hdfs.start_namenode),
    "freeze": _run(Hdfs.freeze_namenode),
    "thaw": _run(Hdfs.thaw_namenode),
    "black-hole": _run(Hdfs.black_hole),
    "drop-answers": _run(Hdfs.drop_answers),
    "restore": _run(Hdfs.restore),
    "stop-datanode": _run(Hdfs.stop_datanode),
    "start-datanode": _run(Hdfs.start_datanode),
}
