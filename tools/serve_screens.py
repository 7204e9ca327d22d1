"""Draw the screens of docs/operate/serve.md: pages of a real server over real jobs and a broker.

Run it by hand after a change of the pages: `.venv/bin/python tools/serve_screens.py`. It needs
Java for the broker, and Chromium. One job lands, one has dead letters, the topic of one is deleted,
the file of one is wrong: so the pages have something to say.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from playwright.sync_api import Page, ViewportSize, sync_playwright

from ashore_lab.services.kafka import Kafka

IMAGES = Path(__file__).parent.parent / "docs" / "images"
BYTES_MAX = 150_000
WIDE: ViewportSize = {"width": 1120, "height": 640}
NARROW: ViewportSize = {"width": 380, "height": 640}
TOPICS = ("clicks", "orders", "payments", "views")
BAD_EVERY = 400  # records: then one that is no row
RUN_S = 25.0
JOB = """\
job: {name}
lake: file://{lake}
source: {{kafka: {{bootstrap_servers: "{servers}"}}, first_start: {{default: earliest}}}}
tables:
  - topic: {name}
    table: shop.{name}
    schema: "id BIGINT, user STRING, ts BIGINT, amount {type}"
    event_time: {{column: ts, unit: ms}}
    partition_by: [date]
batch: {{interval: 2s}}
spark: none
"""


def main() -> None:
    """Draw all screens."""
    directory = Path(tempfile.mkdtemp(prefix="ashore-screens-"))
    kafka = Kafka(directory / "kafka")
    kafka.start()
    try:
        servers = kafka.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers})
        for future in admin.create_topics([NewTopic(each, 3, 1) for each in TOPICS]).values():
            future.result(30)
        jobs = directory / "jobs"
        jobs.mkdir()
        for name in TOPICS:
            job_file(jobs, name, servers, "DOUBLE")
        with_server(jobs, lambda url: draw(url, jobs, servers))
    finally:
        kafka.stop()
        shutil.rmtree(directory, ignore_errors=True)


def job_file(jobs: Path, name: str, servers: str, kind: str) -> None:
    """Write a job file."""
    lake = jobs.parent / "lake"
    text = JOB.format(name=name, lake=lake, servers=servers, type=kind)
    (jobs / f"{name}.yaml").write_text(text, "utf-8")


def with_server(jobs: Path, use: Callable[[str], None]) -> None:
    """Start a server, use it, and end it and its jobs."""
    ashore = Path(sys.executable).with_name("ashore")
    command = [str(ashore), "serve", str(jobs), "--port", "0", "--no-token"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        lines = server.stdout or ()
        url = next(found[0] for line in lines if (found := re.search(r"http://\S+", line)))
        use(url)
        for name in TOPICS:
            subprocess.run([str(ashore), "--server", url, "stop", name], check=False)
    finally:
        server.terminate()
        server.wait(30)


def produce(servers: str, topics: tuple[str, ...], seconds: float) -> None:
    """Write records for a while, now and then one that is no row."""
    producer = Producer({"bootstrap.servers": servers})
    ends, number = time.monotonic() + seconds, 0
    while time.monotonic() < ends:
        for topic in topics:
            for _ in range(60):
                number += 1
                row = {"id": number, "user": f"u{number % 97}", "amount": number / 7}
                row["ts"] = round(time.time_ns() / 1_000_000)
                is_bad = topic == "orders" and number % BAD_EVERY < 3
                value = '{"id": "ten"' if is_bad else json.dumps(row)
                producer.produce(topic, value.encode())
        producer.poll(0)
        time.sleep(0.3)
    producer.flush()


def draw(url: str, jobs: Path, servers: str) -> None:
    """Let jobs run and go wrong, and take the screens."""
    with sync_playwright() as playwright:
        path = shutil.which("chromium") or sys.exit("Chromium is needed: apt-get install chromium")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page(base_url=url, viewport=WIDE)
        for name in TOPICS:
            page.goto(f"/ui/jobs/{name}/do/start")
            page.get_by_role("button", name="start").click()
        produce(servers, TOPICS, RUN_S)
        admin = AdminClient({"bootstrap.servers": servers})
        admin.delete_topics(["payments"])["payments"].result(30)
        job_file(jobs, "views", servers, "DUOBLE")
        produce(servers, ("clicks", "orders"), RUN_S / 2)
        page.goto("/ui/jobs")
        page.get_by_text("does not exist").first.wait_for(state="attached")
        page.get_by_text("did you mean").first.wait_for(state="attached")
        shoot(page, "jobs")
        page.goto("/ui/jobs/clicks")
        shoot(page, "job", height=980)
        page.goto("/ui/jobs/clicks/log")
        shoot(page, "log")
        write_job(page, servers)
        page.set_viewport_size(NARROW)
        page.emulate_media(color_scheme="dark")
        page.goto("/ui/jobs")
        shoot(page, "narrow")
        browser.close()


def write_job(page: Page, servers: str) -> None:
    """Propose a job on its page, and preview it."""
    page.goto("/ui/write")
    page.get_by_label("Brokers").fill(servers)
    page.get_by_label("Topics").fill("orders")
    page.get_by_label("Lake").fill("file:///data/lake")
    page.get_by_role("button", name="propose").click()
    page.get_by_role("button", name="Preview").click()
    page.get_by_text("records read").wait_for()
    page.evaluate("document.getElementById('text').rows = 16")
    shoot(page, "write", height=760)


def shoot(page: Page, name: str, height: int | None = None) -> None:
    """Take a screen, as high as the window or as told."""
    size = page.viewport_size or WIDE
    if height is not None:
        page.set_viewport_size({"width": size["width"], "height": height})
    path = IMAGES / f"serve-{name}.png"
    page.screenshot(path=path)
    page.set_viewport_size(size)
    if path.stat().st_size > BYTES_MAX:
        sys.exit(f"{path.name} has {path.stat().st_size:,} bytes: more than {BYTES_MAX:,}")
    print(f"drew {path.name}, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
