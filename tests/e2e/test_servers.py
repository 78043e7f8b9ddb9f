# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Web servers: one that embeds CPython in forked workers, and one on an event loop."""
import contextlib
import http.client
import http.server
import json
import re
import signal
import socket
import subprocess
import threading
import time

import pytest

from harness import (HZ, NATIVE, PATIENCE, PROGRAMS, Process, Profiler, check_stacks, clean_environment,
                     find_tool, poll, share)
from test_embedded import EVAL

APP = PROGRAMS / "wsgi_app.py"
CLIENTS = 4


class Client(http.client.HTTPConnection):
    """Over a Unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=PATIENCE)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self.path))

    def ask(self, url):
        with contextlib.closing(self):
            self.request("GET", url)
            answer = self.getresponse()
            assert answer.status == 200, answer.read()
            return json.loads(answer.read())


class Load:
    """Requests to all urls, CLIENTS at once, for as long as it is entered. The answers are kept."""

    def __init__(self, path, urls):
        self.path, self.urls, self.answers, self.over = path, urls, [], False
        self.threads = [threading.Thread(target=self.run) for _ in range(CLIENTS)]

    def run(self):
        while not self.over:
            for url in self.urls:
                self.answers.append(Client(self.path).ask(url))

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *exc):
        self.over = True
        for thread in self.threads:
            thread.join()

    def truth(self):
        """The distinct stacks of all answers."""
        return list({json.dumps(s): s for a in self.answers for s in a["stacks"]}.values())


@contextlib.contextmanager
def uwsgi(directory, *options):
    exe = find_tool("uwsgi-core") or find_tool("uwsgi")
    if not exe:
        pytest.skip("uwsgi is not installed")
    path = directory / "socket"
    argv = [exe, "--plugin", "python3", "--http-socket", path, "--master", "--die-on-term",
            "--need-app", "--processes", 2, "--disable-logging", *options]
    env = clean_environment(PYTHONPATH=str(PROGRAMS))
    server = subprocess.Popen(list(map(str, argv)), env=env, stderr=subprocess.PIPE)
    try:
        poll(lambda: answers(path) or server.poll() is not None, "uwsgi to answer")
        assert server.poll() is None, server.stderr.read().decode()
        yield server.pid, path
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=PATIENCE)


def answers(path):
    with contextlib.suppress(OSError):
        return Client(path).ask("/")


@pytest.mark.parametrize("urls, options", [
    (["/"], ["--threads", 2, "--enable-threads"]),
    (["/", "/second"], []),
], ids=["threads", "interpreters"])
def test_uwsgi(urls, options, directory):
    """Threads that uwsgi made; and a second application, in an interpreter of its own."""
    options = [*options, "--manage-script-name", *(f"--mount={url}={APP}" for url in urls)]
    with uwsgi(directory, *options) as (master, path), Load(path, urls) as load:
        profiler = Profiler("-v", "-f", "-F", HZ, "-p", master, "--children")
        profiler.wait_sampling()
        answered = len(load.answers)
        poll(lambda: len(load.answers) >= answered + 40, "40 requests")
        profiler.interrupt_group()
        result = profiler.wait().ok()
    assert len({answer["pid"] for answer in load.answers}) == 2
    result.complete()
    assert share(result.stacks, lambda s: any(f.name == EVAL for f in s.native())) <= 0.01
    for stacks in check_stacks(result.stacks, load.truth()).values():
        for stack in stacks:
            assert any(f.kind == NATIVE and "uwsgi" in f.file for f in stack.frames), stack


class SlowAnswers(http.server.BaseHTTPRequestHandler):
    """Each request takes 80 ms. The server keeps how long each took by this clock."""

    def do_GET(self):
        begun = time.monotonic()
        time.sleep(0.08)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")
        self.server.took.append(time.monotonic() - begun)

    def log_message(self, *args):
        pass


@contextlib.contextmanager
def slow_server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), SlowAnswers) as server:
        server.took = []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def ask(port, path):
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
        connection.request("GET", path)
        assert connection.getresponse().status == 200


def test_fastapi():
    """The first sentence names the synchronous call that blocks its loop, how often, and for how long."""
    python = "/usr/bin/python3"
    if subprocess.run([python, "-c", "import fastapi, uvicorn"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("fastapi is not installed: scripts/deps test")
    with slow_server() as slow, Process([python, PROGRAMS / "fastapi_app.py", "http://127.0.0.1:%d/" % slow.server_port]) as service:
        port = int(service.read_line())
        ask(port, "/health")
        profiler = Profiler("-v", "-e", "wall", "-p", service.pid, glue=False)
        profiler.wait_sampling()
        for _ in range(12):
            ask(port, "/price")
            time.sleep(0.02)  # for which the loop waits in its poll: longer than a step, so this poll is sampled
            ask(port, "/health")
        profiler.interrupt_group()
        text = profiler.wait().ok().stdout
    first = " ".join(text.split("\n\n")[1].split())
    said = re.match(r"The event loop was blocked (\d+) times for 50 ms or more, (\d+\.\d+) s in all, the longest (\d+) ms, "
                    r"in fetch_rates \(fastapi_app\.py:\d+\) -> urlopen -> \.\.\. -> SocketIO\.readinto\.", first)
    assert said, text
    took = slow.took[1:]  # the loop may have waited for the first request before it was looked at
    # On a busy machine two may be one iteration: the next request was there before the loop could wait for it.
    assert 6 <= int(said[1]) and 0.99 * sum(took) <= float(said[2]) + 0.01 and 1000 * max(took) <= int(said[3]) + 1, (first, took)
    assert re.search(r"^Idle, in no share below: .*(libuv|asyncio)'s event loop", text, re.M), text
