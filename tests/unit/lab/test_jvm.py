"""What a JVM reaches, as its own tools tell: garbage is not counted, what is held is."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.drills.jvm import Heap, collect, rises

from ashore.jobs.jars import find_java

SOURCE = """
    import java.util.*;
    class Holds {
        static List<long[]> held = new ArrayList<>();
        public static void main(String[] given) throws Exception {
            System.out.println("up");
            while (System.in.read() >= 0) {
                for (int i = 0; i < 64; i++) {
                    long[] block = new long[1 << 16];
                    if (given.length > 0) held.add(block);
                }
                System.out.println("done");
            }
        }
    }
"""


@pytest.fixture(params=[False, True], ids=["lets go", "holds"])
def jvm(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    source = tmp_path / "Holds.java"
    source.write_text(SOURCE)
    options = ["-Xmx256m", "-XX:NativeMemoryTracking=summary", "-XX:+UseSerialGC"]
    command = [str(find_java()), *options, str(source), *(["holds"] if request.param else [])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield process
        process.kill()


@pytest.mark.slow
def test_what_is_held_counts_and_garbage_does_not(
    jvm: subprocess.Popen[bytes], request: pytest.FixtureRequest
) -> None:
    assert jvm.stdin is not None
    assert jvm.stdout is not None
    assert jvm.stdout.readline() == b"up\n"
    before = collect(jvm.pid)
    jvm.stdin.write(b"x")
    jvm.stdin.flush()
    assert jvm.stdout.readline() == b"done\n"
    after = collect(jvm.pid)
    holds = request.node.callspec.params["jvm"]
    assert (after.live_mb - before.live_mb > 30) == holds
    assert any(line.endswith(": [J") for line in rises(before, after)) == holds
    assert "Metaspace" in after.native_kb
    jvm.kill()
    jvm.wait()
    with pytest.raises(psutil.NoSuchProcess):
        collect(jvm.pid)


def test_what_rose_most_comes_first() -> None:
    first = Heap({"a": 5_000, "b": 5_000, "c": 5_000}, {"Code": 10})
    last = Heap({"a": 7_000, "b": 5_400, "c": 9_000, "d": 1_500}, {"Code": 30})
    told = list(rises(first, last))
    assert [line.rpartition(" ")[2] for line in told] == ["c", "a", "d", "Code"]
    assert told[0].startswith("heap: +4 kB, now 9 kB")
    assert told[-1] == "native: +20 kB, now 30 kB: Code"
