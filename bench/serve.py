"""What a server of many idle jobs costs: `python -m bench.serve [JOBS]`.

The processes of jobs are simulated (`ashore_lab.testing.simulation_run`): each holds its lock and
says every ten seconds where it is, as one does whose topics are silent. Memory and CPU are those
of the server's own process; latencies are those of one client, each request after the other, at
first alone and then beside 1,000 pollers and 50 clients that send a byte each second. One job has a
landing log of 2,000 entries, as a day of small batches leaves it: the pages that read a log read
that.
"""

import html
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil

from ashore.fleet.operate.verbs import Verbs
from ashore.fleet.records.server_files import Asker, ServerFiles
from ashore.storage import LocalStorage
from ashore_lab.testing.simulation import write_simulated_job
from bench.log_start import FEW, make_log

SETTLE_S, MEASURED_S, REQUESTS = 10.0, 20.0, 100
POLLERS, SLOW = 1_000, 50
AIMS = {"memory_mb": 300, "cpu_percent_of_a_core": 5, "each_ms_p99": 100}
ADDRESSES = {
    "api": "/api/jobs",
    "api_job": "/api/jobs/clicks",
    "metrics": "/metrics",
    "jobs": "/ui/jobs",
    "job": "/ui/jobs/clicks",
    "log": "/ui/jobs/clicks/log",
    "entry": f"/ui/jobs/clicks/log/main/{FEW - 7}",
    "dead_letters": "/ui/jobs/clicks/dead-letters",
    "versions": "/ui/jobs/clicks/versions",
    "checkpoints": "/ui/jobs/clicks/checkpoints",
    "checks": "/ui/jobs/clicks/checks",
    "operations": "/ui/operations",
    "write": "/ui/write",
}


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as made:
        jobs = Path(made) / "jobs"
        jobs.mkdir()
        files = ServerFiles.of(jobs)
        files.make()
        for number in range(count - 1):
            write_simulated_job(jobs, f"job-{number:03d}")
            Verbs(files).start(f"job-{number:03d}", Asker("bench"))
        lake = Path(made) / "lake"
        make_log(lake, LocalStorage(str(lake)), FEW)
        write_simulated_job(jobs, "clicks", lake)
        Verbs(files).start("clicks", Asker("bench"))
        print(json.dumps({"jobs": count, **measure(jobs, files, count), "aims": AIMS}, indent=1))


@contextmanager
def serving(jobs: Path) -> Iterator[tuple[httpx.Client, psutil.Process]]:
    """Run a server over simulated jobs while inside."""
    command = [sys.executable, "-m", "bench.serve_process", str(jobs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            with httpx.Client(base_url=url, timeout=60) as client:
                yield client, psutil.Process(server.pid)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()


def cpu_percent(process: psutil.Process, measured_s: float) -> tuple[float, float]:
    """Return what a process uses of a core from now on, and what of that in the system."""
    before = process.cpu_times()
    time.sleep(measured_s)
    after = process.cpu_times()
    system = 100 * (after.system - before.system) / measured_s
    return round(system + 100 * (after.user - before.user) / measured_s, 1), round(system, 1)


def measure(jobs: Path, files: ServerFiles, count: int) -> dict[str, object]:
    try:
        with serving(jobs) as (client, process):
            began_s = time.monotonic()
            while phases(client) != {"running": count}:
                assert time.monotonic() - began_s < 300, phases(client)
                time.sleep(0.5)
            started_s = time.monotonic() - began_s
            time.sleep(SETTLE_S)
            used, _ = cpu_percent(process, MEASURED_S)
            alone = asked(client)
            return {
                "all_running_after_s": round(started_s, 1),
                "memory_mb": round(process.memory_info().rss / 1e6),
                "cpu_percent_of_a_core": used,
                **alone,
                **polled(client, process),
                "load_of_the_machine": os.getloadavg()[0],
            }
    finally:
        end_jobs(files)


def asked(client: httpx.Client) -> dict[str, float]:
    entry = client.get(ADDRESSES["entry"]).text
    file = html.unescape(re.findall(r'href="(/ui/jobs/clicks/file[^"]+)"', entry)[0])
    found = {}
    for name, path in {**ADDRESSES, "file": file}.items():
        found |= latencies(client, name, path)
    return found


def polled(client: httpx.Client, process: psutil.Process) -> dict[str, object]:
    """Measure again beside many clients."""
    url = str(client.base_url).rstrip("/")
    command = [sys.executable, "-m", "bench.serve_pollers", url, str(POLLERS), str(SLOW)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as many:
        time.sleep(SETTLE_S)
        used, _ = cpu_percent(process, MEASURED_S)
        found: dict[str, object] = {f"polled_{key}": value for key, value in asked(client).items()}
        told = json.loads(many.communicate(timeout=60)[0])
    found["polled_cpu_percent_of_a_core"] = used
    return {**found, "polled_memory_mb": round(process.memory_info().rss / 1e6), "pollers": told}


def phases(client: httpx.Client) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in client.get("/api/jobs").json()["jobs"]:
        found[each["phase"]] = found.get(each["phase"], 0) + 1
    return found


def latencies(client: httpx.Client, name: str, path: str) -> dict[str, float]:
    taken = []
    for _ in range(REQUESTS):
        began_s = time.perf_counter()
        client.get(path).raise_for_status()
        taken.append(1000 * (time.perf_counter() - began_s))
    taken.sort()
    return {
        f"{name}_ms_p50": round(statistics.median(taken), 1),
        f"{name}_ms_p99": round(taken[int(0.99 * len(taken)) - 1], 1),
    }


def end_jobs(files: ServerFiles) -> None:
    for path in files.runs.glob("*/process.json"):
        pid = int(json.loads(path.read_text())["pid"])
        if psutil.pid_exists(pid) and "simulation_run" in " ".join(psutil.Process(pid).cmdline()):
            os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
