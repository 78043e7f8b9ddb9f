# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A web server that embeds CPython in forked workers."""
import contextlib
import http.client
import json
import signal
import socket
import subprocess
import threading

import pytest

from harness import (HZ, NATIVE, PATIENCE, PROGRAMS, Profiler, check_stacks, clean_environment,
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
