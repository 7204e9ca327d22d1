"""Write src/ashore/jobs/jars.toml and bench/peers/jars.toml: what `make lock-jars` runs.

What it is: the wanted jars (ROOTS, BENCH_ROOTS), resolved by PySpark's Ivy, with their checksums.
What it promises: a list depends on its roots and on what the repository serves, on nothing else.
What it must not know: the cache. It resolves in a directory of its own.
"""

import sys
import tempfile
from pathlib import Path

from ashore.jobs.jars import by_release, ivy_dependency, parse_jar, run_ivy, sha256_of

ROOT = Path(__file__).parent.parent
Roots = dict[str, tuple[tuple[str, bool], ...]]

HEADER = """\
# Jars by set: coordinate = SHA-256. Written by `make lock-jars` (tools/lock_jars.py has the roots).
"""

# A root is (coordinate, whether what it needs comes with it). The connector's needs are named one
# by one: Spark already brings the rest, and transitive resolution cannot work, because
# spark-token-provider-kafka-0-10 was not to be had as 4.2.0, 4.1.1, 4.1.0 or 4.0.1. With 4.0.0 the
# connector of 4.2.0 reads a topic; delegation tokens, which it is there for, were not tried.
# Hadoop's servers come shaded, so nothing comes with them; without slf4j and a logger behind it
# they die without a word. The server of S3 brings clients of every cloud, 155 jars; these are the
# ones that it loads to keep objects in a directory. Hadoop's client of S3 brings one jar for all
# services of Amazon, 600 MB; these are the ones that it uses, 20 MB. Delta's brings a Spark's
# worth of jars, which Spark has in newer versions. The server of Iceberg's REST catalog is in the
# tests of its library, last published with 1.11; Spark has what else it needs: Jetty, Jackson,
# Hadoop.
ROOTS: Roots = {
    "delta": (
        ("io.delta:delta-kernel-api:4.4.0", False),
        ("io.delta:delta-kernel-defaults:4.4.0", False),
        ("io.delta:delta-kernel-unitycatalog:4.4.0", False),
        ("io.delta:delta-spark_4.2_2.13:4.4.0", False),
        ("io.delta:delta-storage:4.4.0", False),
        ("io.unitycatalog:unitycatalog-client:0.6.0", False),
    ),
    "hdfs": (
        ("org.apache.hadoop:hadoop-client-minicluster:3.5.0", False),
        ("org.apache.hadoop:hadoop-client-runtime:3.5.0", False),
        ("org.apache.hadoop:hadoop-client-api:3.5.0", False),
        ("commons-logging:commons-logging:1.3.2", False),
        ("org.slf4j:slf4j-api:1.7.36", False),
        ("org.slf4j:slf4j-reload4j:1.7.36", False),
        ("ch.qos.reload4j:reload4j:1.2.22", False),
    ),
    "iceberg-rest": (
        ("org.apache.iceberg:iceberg-api:1.11.0", False),
        ("org.apache.iceberg:iceberg-bundled-guava:1.11.0", False),
        ("org.apache.iceberg:iceberg-common:1.11.0", False),
        ("org.apache.iceberg:iceberg-core:1.11.0", False),
        ("org.apache.iceberg:iceberg-core:1.11.0:tests", False),
        ("com.github.ben-manes.caffeine:caffeine:3.2.4", False),
        ("org.apache.httpcomponents.core5:httpcore5:5.4.3", False),
        ("org.xerial:sqlite-jdbc:3.54.1.0", False),
    ),
    "kafka": (
        ("org.apache.kafka:kafka_2.13:4.1.0", True),
        ("org.apache.logging.log4j:log4j-slf4j-impl:2.24.3", False),
    ),
    "s3": (
        ("org.gaul:s3proxy:4.1.0", False),
        ("args4j:args4j:2.37", False),
        ("ch.qos.logback:logback-classic:1.6.3", False),
        ("ch.qos.logback:logback-core:1.6.3", False),
        ("com.fasterxml.jackson.core:jackson-annotations:2.22", False),
        ("com.fasterxml.woodstox:woodstox-core:7.2.1", False),
        ("com.google.guava:failureaccess:1.0.3", False),
        ("com.google.guava:guava:33.7.1-jre", False),
        ("jakarta.servlet:jakarta.servlet-api:6.0.0", False),
        ("org.codehaus.woodstox:stax2-api:4.3.0", False),
        ("org.slf4j:slf4j-api:2.0.18", False),
        ("software.amazon.awssdk:aws-core:2.54.2", False),
        ("software.amazon.awssdk:checksums:2.54.2", False),
        ("software.amazon.awssdk:checksums-spi:2.54.2", False),
        ("software.amazon.awssdk:http-client-spi:2.54.2", False),
        ("software.amazon.awssdk:s3:2.54.2", False),
        ("software.amazon.awssdk:sdk-core:2.54.2", False),
        ("software.amazon.awssdk:utils:2.54.2", False),
        ("tools.jackson.core:jackson-core:3.2.2", False),
        ("tools.jackson.core:jackson-databind:3.2.2", False),
        ("tools.jackson.dataformat:jackson-dataformat-xml:3.2.2", False),
    ),
    "spark-kafka": (
        ("org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0", False),
        ("org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0", False),
        ("org.apache.kafka:kafka-clients:3.9.2", False),
        ("org.apache.commons:commons-pool2:2.12.1", False),
    ),
    "spark-s3": (
        ("org.apache.hadoop:hadoop-aws:3.5.0", False),
        ("software.amazon.awssdk:s3:2.35.4", True),
        ("software.amazon.awssdk:s3-transfer-manager:2.35.4", True),
        ("software.amazon.awssdk:sts:2.35.4", True),
        ("software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1", False),
    ),
}

# What `make bench-peers` needs besides, and `make setup` does not fetch: the rest of Flink comes as
# a wheel. Its file sinks want Hadoop's client for Parquet, and a zstd. Iceberg has no runtime for
# Flink 2.3 yet: the one for 2.1 is the newest that is served. Spark has what else Delta needs. ORC
# is left out everywhere: Iceberg wants its jar with a classifier, and no table here is ORC's.
BENCH_ROOTS: Roots = {
    "connect": (
        ("org.apache.kafka:connect-runtime:4.1.0", True),
        ("org.apache.iceberg:iceberg-kafka-connect:1.12.0", True),
        ("org.apache.iceberg:iceberg-parquet:1.12.0", False),
        ("org.xerial:sqlite-jdbc:3.54.1.0", False),
        ("org.apache.hadoop:hadoop-client-api:3.5.0", False),
        ("org.apache.hadoop:hadoop-client-runtime:3.5.0", False),
        ("commons-logging:commons-logging:1.3.2", False),
        ("org.apache.logging.log4j:log4j-api:2.25.3", False),
        ("org.apache.logging.log4j:log4j-core:2.25.3", False),
        ("org.apache.logging.log4j:log4j-slf4j2-impl:2.25.3", False),
    ),
    "delta": (
        ("io.delta:delta-spark_4.2_2.13:4.4.0", False),
        ("io.delta:delta-storage:4.4.0", False),
        ("io.delta:delta-kernel-api:4.4.0", False),
        ("io.delta:delta-kernel-defaults:4.4.0", False),
        ("io.delta:delta-kernel-unitycatalog:4.4.0", False),
        ("io.unitycatalog:unitycatalog-client:0.6.0", False),
        ("io.unitycatalog:unitycatalog-hadoop:0.6.0", False),
    ),
    "flink": (
        ("org.apache.flink:flink-sql-connector-kafka:5.0.0-2.2", False),
        ("org.apache.flink:flink-sql-parquet:2.3.0", False),
        ("org.apache.hadoop:hadoop-client-api:3.5.0", False),
        ("org.apache.hadoop:hadoop-client-runtime:3.5.0", False),
        ("commons-logging:commons-logging:1.3.2", False),
        ("com.github.luben:zstd-jni:1.5.7-7", False),
    ),
    "flink-iceberg": (
        ("org.apache.iceberg:iceberg-flink-runtime-2.1:1.11.0", False),
        ("org.xerial:sqlite-jdbc:3.54.1.0", False),
    ),
    "flink-s3": (("org.apache.flink:flink-s3-fs-hadoop:2.3.0", False),),
}

TARGETS = {
    ROOT / "src" / "ashore" / "jobs" / "jars.toml": ROOTS,
    ROOT / "bench" / "peers" / "jars.toml": BENCH_ROOTS,
}

SETTINGS = """\
<ivysettings>
  <settings defaultResolver="central"/>
  <caches defaultCacheDir="{work}/ivy"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""
MODULE = """\
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="ashore" module="lock"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>{dependencies}<exclude org="org.apache.orc"/></dependencies>
</ivy-module>
"""


def resolve(roots: tuple[tuple[str, bool], ...], work: Path) -> dict[str, str]:
    """Return coordinate and checksum of every jar that `roots` come to, sorted."""
    brings = dict(roots)
    dependencies = "".join(
        ivy_dependency(
            jars,
            f'transitive="{str(brings[jars[0].coordinate]).lower()}"'
            ' conf="default-&gt;master,runtime(*)"',
        )
        for jars in by_release(parse_jar(coordinate, "") for coordinate in brings)
    )
    (work / "settings.xml").write_text(SETTINGS.format(work=work))
    (work / "ivy.xml").write_text(MODULE.format(dependencies=dependencies))
    pattern = f"{work}/jars/[organisation]/[artifact]/[revision](:[classifier]).[ext]"
    run_ivy(
        ["-settings", f"{work}/settings.xml", "-ivy", f"{work}/ivy.xml", "-retrieve", pattern],
        lambda jar: print(f"  {jar}", file=sys.stderr),
    )
    return {
        f"{path.parent.parent.name}:{path.parent.name}:{path.stem}": sha256_of(path)
        for path in sorted(work.glob("jars/*/*/*.jar"))
    }


def render(sets: Roots) -> str:
    """Resolve the sets and return the list."""
    text = HEADER
    for name, roots in sets.items():
        print(f"resolving {name}", file=sys.stderr)
        with tempfile.TemporaryDirectory() as work:
            jars = resolve(roots, Path(work))
        lines = "".join(f'"{coordinate}" = "{sha256}"\n' for coordinate, sha256 in jars.items())
        text += f"\n[{name}]\n{lines}"
    return text


def main() -> None:
    """Resolve all sets and write the lists."""
    for target, sets in TARGETS.items():
        target.write_text(render(sets), "utf-8")
        print(f"wrote {target.relative_to(ROOT)}", file=sys.stderr)


if __name__ == "__main__":
    main()
