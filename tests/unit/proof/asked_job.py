"""A process that beats and can be asked, as a job's does, for tests that freeze and kill it.

`python -m tests.unit.proof.asked_job JOB LAKE` ends when it is asked to stop. It waits where it
is asked to `wait`, and counts how often it was asked to `count`.
"""

import json
import sys
import threading

from ashore.errors import QueryRefused
from ashore.jobs import listener as listening
from ashore.jobs.heartbeat import Heart
from ashore.jobs.listener import Listener, Verb
from ashore.jobs.mailbox import Mailbox


def main(job: str, lake: str) -> None:
    stopped, counted = threading.Event(), []

    def stop(_text: str) -> str:
        stopped.set()
        return ""

    def count(text: str) -> str:
        counted.append(text)
        return json.dumps(len(counted))

    def refuse(_text: str) -> str:
        raise QueryRefused("not this one", hint="another")

    listening.POLL_S = 0.05
    beats = threading.Event()
    heart = Heart(job, lake, lambda: ("write", 7), beats.set)
    listener = Listener(
        Mailbox(job, lake),
        heart.own,
        {"stop": Verb(stop, ends_job=True), "count": Verb(count), "refuse": Verb(refuse)},
        lambda _line: None,
    )
    heart.start()
    listener.start()
    listener.offer({"wait": Verb(lambda _text: str(threading.Event().wait(60)))})
    beats.wait(60)  # the first heartbeat is there
    sys.stdout.write("listens\n")
    sys.stdout.flush()
    stopped.wait(60)
    heart.end(None)
    listener.end(lambda: "closed")


if __name__ == "__main__":
    main(*sys.argv[1:])
