"""A server over simulated jobs, as a process: `python -m bench.serve_process DIR [SECONDS]`.

Its operations are simulated too: they take so many seconds and then have a result.
"""

import sys
from pathlib import Path

from ashore.fleet.records.server_files import OperationFiles
from ashore.fleet.server.serve import ServerSettings, serve
from ashore_lab.testing.simulation import simulated_command

OPERATION = """
import json, os, sys, time
root, lock, seconds = sys.argv[1:]
os.set_inheritable(int(lock), False)
def write(name, document):
    with open(f"{root}/{name}.new", "w") as file:
        json.dump(document, file)
    os.rename(f"{root}/{name}.new", f"{root}/{name}.json")
open(f"{root}/starts", "a").write("x")
stat = open("/proc/self/stat").read().rpartition(")")[2].split()
write("process", {"pid": os.getpid(), "started_ms": 0})
write("progress", {"what": "copying", "done": 1, "total": 2})
time.sleep(float(seconds))
print(json.dumps({"savepoint": "taken"}), flush=True)
write("exit", {"code": 0, "ended_ms": 0})
"""


def main() -> None:
    directory, seconds = Path(sys.argv[1]), (sys.argv[2:] or ["3"])[0]

    def operation(files: OperationFiles, lock: int) -> list[str]:
        return [sys.executable, "-S", "-c", OPERATION, str(files.root), str(lock), seconds]

    settings = ServerSettings(
        directory, port=0, is_open=True, command=simulated_command, starter=operation
    )
    serve(settings, lambda url: print(url, flush=True))


if __name__ == "__main__":
    main()
