# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The agent over real programs: what its tests have in common."""
import contextlib
import http.client
import http.server
import json
import os
import re
import signal
import socket
import subprocess
import sys

import pytest

import pprof_read
from harness import PROGRAMS, PYPERF, Process, Profiler, clean_environment, poll

AGENT = os.path.join(os.path.dirname(PYPERF), "pyperf-bpf-agent")
SPIN = """
import os, select, sys
sys.stdin = os.fdopen(0)
def %(name)s_inner():
    end = os.times()[0] + 0.02
    while os.times()[0] < end:
        pass
def %(name)s_outer():
    while not select.select([0], [], [], 0)[0]:
        %(name)s_inner()
os.write(1, b"ready\\n")
%(name)s_outer()
"""


class Window:
    def __init__(self, path):
        with open(path[:-len("pb.gz")] + "labels", encoding="utf-8") as f:
            fields = dict(line.rstrip("\n").split("=", 1) for line in f)
        self.labels = {k[6:]: v for k, v in fields.items() if k.startswith("label.")}
        self.id = fields["id"]
        self.start, self.duration, self.samples, self.hz = (
            int(fields[k]) for k in ("start_unix_ns", "duration_ns", "samples", "frequency_hz"))
        self.service = self.labels["service_name"]
        self.profile = pprof_read.read(path)
        self.there = os.stat(path).st_mtime
        self.late = self.there - (self.start + self.duration) / 1e9  # seconds from its end until it was there

    def functions(self):
        return {f["func"] for s in self.profile["samples"] for f in s["stack"]}


class Agent(Profiler):
    """A running agent whose windows are files."""

    def __init__(self, tmp_path, config="", state="state", window=1, ready=True, program=AGENT, prefix=(), user=None,
                 **environment):
        self.dir = tmp_path / state
        self.windows_dir = self.dir / "windows"
        self.windows_dir.mkdir(parents=True, exist_ok=True)
        for path in (self.dir, self.windows_dir) if user else ():
            os.chown(path, user, user)
        self.config = tmp_path / (state + ".conf")
        self.notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notified.bind("\0pyperf-test-%d-%x" % (os.getpid(), id(self)))
        self.notified.settimeout(60)
        self.window = window
        self.configure(config)
        name = self.notified.getsockname().decode().replace("\0", "@")
        super().__init__("--config", self.config, glue=False, program=program, prefix=prefix,
                         env=clean_environment(PYPERF_AGENT_SHORT_WINDOWS="1", NOTIFY_SOCKET=name,
                                               **environment))
        if ready:
            self.expect("READY=1")

    def configure(self, more=""):
        """What is in `more` holds in place of what tests have: a key that is there twice is a mistake."""
        base = ("[store]\nenabled = no\n[http]\nlisten = unix:%s\n[budget]\ncpu = 100\n[agent]\nstate-dir = %s\ndirectory = %s\n"
                "window = %ds\nfrequency = 99\nlog-format = json\n"
                % (self.dir / "http.sock", self.dir, self.windows_dir, self.window))
        section, keys, lines = "agent", set(), []
        for line in more.splitlines():
            if line.startswith("["):
                section = line[1:-1]
            keys.add((section, line.partition(" = ")[0]))
        for line in base.splitlines():
            if line.startswith("["):
                section = line[1:-1]
            if line.startswith("[") or (section, line.partition(" = ")[0]) not in keys:
                lines.append(line)
        self.config.write_text("\n".join(lines) + "\n" + more)

    def expect(self, *words):
        """The next datagram that begins with one of the words, as systemd would get it."""
        while True:
            try:
                text = self.notified.recv(4096).decode()
            except TimeoutError:
                raise AssertionError("no %s; so far:\n%s" % (words, self.read(self.err))) from None
            if text.startswith(words):
                return text

    def reload(self):
        os.kill(self.pid, signal.SIGHUP)
        self.expect("RELOADING=1")
        self.expect("READY=1")

    def files(self):
        return sorted(str(p) for p in self.windows_dir.glob("*.pb.gz") if p.name[0] != ".")

    def windows(self):
        return sorted((Window(p) for p in self.files()), key=lambda w: w.start)

    def wait_windows(self, service, cnt):
        """Until so many windows of a service are there."""
        poll(lambda: sum("/%s-" % service in f for f in self.files()) >= cnt
             or self.process.poll() is not None, "%d windows of %s" % (cnt, service))
        assert self.process.poll() is None, self.read(self.err)

    def messages(self, *levels):
        """What it said; at these levels, if there are any."""
        text = self.read(self.err)
        lines = map(json.loads, text[:text.rfind("\n") + 1].splitlines())  # it may be writing the last one
        return [line["message"] for line in lines if not levels or line["level"] in levels]

    def stop(self, sig=signal.SIGTERM):
        """Its last words, as numbers: counted, in windows, dropped."""
        os.kill(self.pid, sig)
        result = self.wait()
        assert result.status == 0, result.stderr
        self.notified.close()
        return self.balanced(result)

    def balanced(self, result):
        """What was counted is in windows, or was told as dropped."""
        last = re.fullmatch(r"ended: (\d+) samples counted, (\d+) in (\d+) windows of \d+ periods, (\d+) dropped",
                            self.messages()[-1])
        assert last, result.stderr
        counted, samples, _, dropped = map(int, last.groups())
        assert counted == samples + dropped, self.messages()[-1]
        return samples


@contextlib.contextmanager
def service(name, **environment):
    with Process([sys.executable, "-c", SPIN % {"name": name}],
                 env=clean_environment(OTEL_SERVICE_NAME=name, **environment)) as process:
        yield process


def ended(agent):
    with contextlib.suppress(ProcessLookupError):
        os.kill(agent.pid, signal.SIGKILL)
    agent.process.wait()


@pytest.fixture
def agents(tmp_path):
    """Starts agents; none outlives the test."""
    started = []

    def start(*args, tmp_path=tmp_path, **kwargs):
        started.append(Agent(tmp_path, *args, **kwargs))
        return started[-1]

    yield start
    for agent in started:
        ended(agent)


@pytest.fixture
def failing_batch(tmp_path):
    """Environment in which reading the counts fails while the file exists; and the file."""
    library, file = tmp_path / "failing_batch.so", tmp_path / "fail"
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", library, PROGRAMS / "failing_batch.c"], check=True)
    return {"LD_PRELOAD": str(library), "FAILING_BATCH": str(file)}, file


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def get(agent, path):
    connection = UnixConnection(agent.dir / "http.sock")
    connection.request("GET", path)
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    assert answer.status == 200, (path, answer.status, data)
    return data


def free_port():
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as s:
        return s.getsockname()[1]


class Backend(http.server.BaseHTTPRequestHandler):
    def do_PUT(self):
        self.take(self.server.bodies)

    def do_POST(self):
        self.take(self.server.posted)

    def take(self, bodies):
        bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass


def run_agent(*args, **environment):
    return subprocess.run([PYPERF, "agent", *args], capture_output=True, text=True, env=clean_environment(**environment),
                          check=False)
