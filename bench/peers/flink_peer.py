"""Flink SQL: Kafka source, JSON, FileSink with Parquet, checkpoints.

What it is: a virtual machine with Flink's own MiniCluster (two slots), which this process drives;
it stays for all topics, so that the measured job is warm. Run by
`python -m bench.peers.flink_peer`.
What it promises: settings that Flink's documents advise for speed are set, and listed in SETTINGS.
What it must not know: Ashore.
"""

import sys
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JError

from ashore.jobs.jars import Progress, cache_directory, ensure_jars, parse_jar
from ashore.jobs.java import find_java, find_pyspark_home
from bench.peers.peer import Order, land_all
from bench.peers.settings import FLINK_CONF, FLINK_SINK, FLINK_SOURCE, JVM_HEAP
from bench.processes import receive, send

HERE = Path(__file__).parent
WHEEL = HERE.parent.parent / ".venv" / "bench"  # where `make bench-peers` installs Flink's jars
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


def ensure_flink_jars(progress: Progress) -> list[Path]:
    """Return the jars that the wheel lacks, fetching what is missing."""
    locked = tomllib.loads((HERE / "jars.toml").read_text("utf-8"))["flink"]
    jars = [parse_jar(coordinate, sha256) for coordinate, sha256 in locked.items()]
    return ensure_jars(jars, cache_directory(), progress)


def _connect(directory: Path) -> JavaGateway:
    """Start the virtual machine; it ends when this process does."""
    (directory / "log4j2.properties").write_text(LOG4J, "utf-8")
    jars = [*sorted((WHEEL / "pyflink" / "lib").glob("*.jar")), *ensure_flink_jars(lambda _: None)]
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


class Flink:
    """A MiniCluster in a virtual machine of its own, and SQL against it. A context manager."""

    def __init__(self, order: Order) -> None:
        self._order = order
        directory = Path(order.directory)
        self._gateway = _connect(directory)
        self._java = self._gateway.jvm
        self._flink = self._java.org.apache.flink
        self._cluster = self._start_cluster(directory)

    def land(self, topic: str) -> None:
        """Land what is in a topic."""
        job = self._submit(topic, {"scan.bounded.mode": "latest-offset"})
        result = self._cluster.requestJobResult(job).get()
        if not result.isSuccess():
            raise RuntimeError(f"Flink's job failed: {result.getSerializedThrowable().get()}")

    def stream(self) -> None:
        """Land a topic until the parent speaks."""
        job = self._submit(self._order.topics[-1], {})
        send("ready", excluded=[])
        receive()
        self._cluster.cancelJob(job).get()

    def _submit(self, topic: str, source: Mapping[str, str]) -> Any:
        environment = self._environment(topic)
        shape = self._order.shape
        servers = self._order.servers
        source = {
            "connector": "kafka",
            "topic": topic,
            "properties.bootstrap.servers": servers,
            "format": "json",
            **FLINK_SOURCE,
            **source,
        }
        path = f"file://{self._order.root(topic)}/table"
        sink = {"connector": "filesystem", "path": path, "format": "parquet", **FLINK_SINK}
        columns = shape.flink_ddl
        by = f" PARTITIONED BY ({', '.join(shape.partition_by)})" if shape.partition_by else ""
        environment.executeSql(f"CREATE TABLE source ({columns}) WITH ({_options(source)})")
        environment.executeSql(f"CREATE TABLE sink ({columns}){by} WITH ({_options(sink)})")
        result = environment.executeSql("INSERT INTO sink SELECT * FROM source")
        return result.getJobClient().get().getJobID()

    def _environment(self, topic: str) -> Any:
        address = self._cluster.getRestAddress().get()
        configuration = self._configuration(
            {
                **FLINK_CONF,
                "parallelism.default": str(self._order.cores),
                "execution.checkpointing.interval": f"{self._order.interval_s * 1000:.0f} ms",
                "execution.checkpointing.storage": "filesystem",
                "execution.checkpointing.dir": f"file://{self._order.root(topic)}/checkpoint",
                "execution.target": "remote",
                "rest.address": address.getHost(),
                "rest.port": str(address.getPort()),
            }
        )
        settings = self._flink.table.api.EnvironmentSettings.newInstance()
        settings = settings.inStreamingMode().withConfiguration(configuration).build()
        return self._flink.table.api.TableEnvironment.create(settings)

    def _configuration(self, values: Mapping[str, str]) -> Any:
        configuration = self._flink.configuration.Configuration()
        for key, value in values.items():
            configuration.setString(key, value)
        return configuration

    def _start_cluster(self, directory: Path) -> Any:
        values = {
            "rest.address": "127.0.0.1",
            "rest.bind-address": "127.0.0.1",
            "rest.bind-port": "0",
            "io.tmp.dirs": str(directory / "tmp"),
        }
        (directory / "tmp").mkdir()
        mini = self._flink.runtime.minicluster
        builder = getattr(mini, "MiniClusterConfiguration$Builder")()
        builder = builder.setConfiguration(self._configuration(values))
        built = builder.setNumTaskManagers(1).setNumSlotsPerTaskManager(self._order.cores).build()
        cluster = mini.MiniCluster(built)
        cluster.start()
        return cluster

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(Py4JError):
            self._cluster.close()
        self._gateway.shutdown()


def _options(values: Mapping[str, str]) -> str:
    return ", ".join(f"'{key}' = '{value}'" for key, value in values.items())


def main() -> None:
    """Run one measurement."""
    order = Order.of_text(sys.argv[1])
    with Flink(order) as flink:
        if order.streams:
            flink.stream()
        else:
            land_all(order, flink.land, [])


if __name__ == "__main__":
    main()
