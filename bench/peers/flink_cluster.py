"""Flink in a virtual machine of its own, driven from here.

What it is: `FlinkCluster`, Flink's own MiniCluster, its settings and SQL against it.
What it promises: the virtual machine ends when this process does.
What it must not know: what is run on it.
"""

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JError

from ashore.jobs.jars import find_java, find_pyspark_home
from bench.peers.packages import WHEEL, ensure_bench_jars
from bench.peers.settings import JVM_HEAP

LOG4J = """\
rootLogger.level = WARN
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.target = SYSTEM_ERR
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %m (%c)%n%throwable
"""
# What Flink's own scripts open for Java 17: reflection of its serializers.
OPENED = ("java.lang", "java.net", "java.io", "java.nio", "java.text", "java.time", "java.util")


def _connect(directory: Path, sets: Sequence[str]) -> JavaGateway:
    """Start the virtual machine; it ends when this process does."""
    (directory / "log4j2.properties").write_text(LOG4J, "utf-8")
    jars = sorted((WHEEL / "pyflink" / "lib").glob("*.jar"))
    jars += [jar for name in sets for jar in ensure_bench_jars(name)]
    options = [f"-Xmx{JVM_HEAP}", f"-Dlog4j.configurationFile={directory}/log4j2.properties"]
    options += [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
    (py4j,) = (find_pyspark_home() / "jars").glob("py4j-*.jar")
    port, token = launch_gateway(
        jarpath=str(py4j),
        classpath=":".join(map(str, jars)),
        javaopts=options,
        die_on_exit=True,
        java_path=str(find_java()),
        redirect_stderr=sys.stderr,
        enable_auth=True,
    )
    return JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))


class FlinkCluster:
    """One task manager with a slot for each core. A context manager.

    Arguments:
        directory: for logs and temporary files.
        cores: slots.
        settings: of the cluster.
        jars: sets of jars beside those of the wheel.

    """

    def __init__(
        self,
        directory: Path,
        cores: int,
        settings: Mapping[str, str] | None = None,
        *,
        jars: Sequence[str] = ("flink",),
    ) -> None:
        self._cores = cores
        self._gateway = _connect(directory, jars)
        self._flink = self._gateway.jvm.org.apache.flink
        self._cluster = self._start(directory, settings or {})

    def environment(self, settings: Mapping[str, str]) -> Any:
        """Return an environment for streaming SQL, whose jobs run on this cluster."""
        address = self._cluster.getRestAddress().get()
        configuration = self._configuration(
            {
                "parallelism.default": str(self._cores),
                **settings,
                "execution.target": "remote",
                "rest.address": address.getHost(),
                "rest.port": str(address.getPort()),
            }
        )
        mode = self._flink.table.api.EnvironmentSettings.newInstance().inStreamingMode()
        built = mode.withConfiguration(configuration).build()
        return self._flink.table.api.TableEnvironment.create(built)

    def wait(self, result: Any) -> None:
        """Wait until the job of an INSERT has ended. Raises RuntimeError if it has failed."""
        found = self._cluster.requestJobResult(_job_of(result)).get()
        if not found.isSuccess():
            raise RuntimeError(f"Flink's job failed: {found.getSerializedThrowable().get()}")

    def cancel(self, result: Any) -> None:
        """Cancel the job of an INSERT."""
        self._cluster.cancelJob(_job_of(result)).get()

    def _configuration(self, values: Mapping[str, str]) -> Any:
        configuration = self._flink.configuration.Configuration()
        for key, value in values.items():
            configuration.setString(key, value)
        return configuration

    def _start(self, directory: Path, settings: Mapping[str, str]) -> Any:
        values = {
            "rest.address": "127.0.0.1",
            "rest.bind-address": "127.0.0.1",
            "rest.bind-port": "0",
            "io.tmp.dirs": str(directory / "tmp"),
            **settings,
        }
        (directory / "tmp").mkdir(exist_ok=True)
        self._load_file_systems(values)
        mini = self._flink.runtime.minicluster
        builder = getattr(mini, "MiniClusterConfiguration$Builder")()
        builder = builder.setConfiguration(self._configuration(values))
        cluster = mini.MiniCluster(
            builder.setNumTaskManagers(1).setNumSlotsPerTaskManager(self._cores).build()
        )
        cluster.start()
        return cluster

    def _load_file_systems(self, values: Mapping[str, str]) -> None:
        """Load those of plugins too, which FLINK_PLUGINS_DIR has."""
        configuration = self._configuration(values)
        utils = self._flink.core.plugin.PluginUtils
        plugins = utils.createPluginManagerFromRootFolder(configuration)
        self._flink.core.fs.FileSystem.initialize(configuration, plugins)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(Py4JError):
            self._cluster.close()
        self._gateway.shutdown()


def _job_of(result: Any) -> Any:
    return result.getJobClient().get().getJobID()


def options(values: Mapping[str, str]) -> str:
    """Return options as a WITH clause has them."""
    return ", ".join(f"'{key}' = '{value}'" for key, value in values.items())
