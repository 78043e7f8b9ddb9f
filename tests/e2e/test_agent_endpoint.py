# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The agent's HTTP endpoint, with the agent: profiles, figures, the link to the page."""
import base64
import collections
import contextlib
import http.client
import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request

import pytest

import fault_server
import harness
import pprof_read
from agent_runs import UnixConnection, agents, free_port, get, service  # noqa: F401: fixtures
from harness import PATIENCE, PROGRAMS, PYPERF, Process, clean_environment, find_go, import_pure, poll

pytestmark = pytest.mark.beside


def loop_figures(agent, parser):
    """The figures of event loops: {service: {"buckets": {upper bound: iterations}, "count": .., "sum": .., "slow": .., "slow_s": ..}}."""
    found = collections.defaultdict(lambda: {"buckets": {}})
    kinds = {"_count": "count", "_sum": "sum"}
    for family in parser.text_string_to_metric_families(get(agent, "/metrics").decode()):
        for sample in family.samples if family.name.startswith("pyperf_event_loop_") else ():
            of = found[sample.labels["service"]]
            if sample.name.endswith("_bucket"):
                assert family.type == "histogram" and family.name == "pyperf_event_loop_iteration_seconds"
                of["buckets"][float(sample.labels["le"])] = sample.value
            elif family.type == "histogram":
                of[kinds[sample.name[len(family.name):]]] = sample.value
            else:
                of["slow_s" if "seconds" in sample.name else "slow"] = sample.value
    return dict(found)


@pytest.mark.few_pythons
def test_event_loops(agents, python):
    """Iterations by service, against what the program's own clock says of each."""
    name = 'the "shop" of \\2'
    parser = import_pure("prometheus_client.parser")
    agent = agents("events = cpu-clock, off-cpu\n", window=1)
    with service("omega"), Process([python, PROGRAMS / "looping.py"], env=clean_environment(OTEL_SERVICE_NAME=name)) as loop:
        poll(lambda: loop_figures(agent, parser).get(name, {"count": 0})["count"] > 20, "iterations that are known")
        loop.process.stdin.write(b"block\n")
        true = json.loads(loop.read_line())
        ours, since = true["all"], true["all"][true["since"]:]
        slow = [s for s in since if s >= 0.05]
        assert len(slow) >= 9, true
        bound, figures, blocking = 2 ** 14 / 1e6, {}, sum(s >= 2 ** 14 / 1e6 for s in since)

        def all_are_there():
            nonlocal figures
            figures = loop_figures(agent, parser)
            # On a busy machine some of the iterations before have that length, too.
            return figures[name]["count"] - figures[name]["buckets"][bound] >= blocking and figures[name]["slow"] >= len(slow)

        poll(all_are_there, "all iterations of 20 ms")
        agent.stop()
    assert "omega" not in figures, figures  # it has no event loop; others of the machine may have one
    of = figures[name]
    buckets = sorted(of["buckets"].items())
    assert len(buckets) > 8 and buckets[-1] == (float("inf"), of["count"])
    assert [n for _, n in buckets] == sorted(n for _, n in buckets)
    # None is shorter than the program says; a thread may lose its CPU between its clock and its poll.
    assert len(slow) <= of["slow"] <= 1.3 * sum(s >= 0.05 for s in ours) + 1, (figures, true)
    assert sum(slow) <= of["slow_s"] <= 1.3 * sum(s for s in ours if s >= 0.05) + 0.3, (figures, true)
    assert of["slow_s"] <= of["sum"] and len(since) <= of["count"]
    for bound, below in buckets[:-1]:
        if bound >= 0.01:
            above = of["count"] - below
            assert sum(s >= bound for s in since) <= above <= 1.3 * sum(s >= 0.8 * bound for s in ours) + 2, (bound, figures, true)


def test_no_event_loops_without_waits(agents, any_python):
    """They are seen by an event that counts waits; else there are no figures that would say zero."""
    agent = agents(window=1)
    with service("rho"), Process([any_python, PROGRAMS / "looping.py"]):
        agent.wait_windows("rho", 2)
        assert b"event_loop" not in get(agent, "/metrics")
        agent.stop()


def test_endpoint(agents, tmp_path):
    with service("iota"):
        agent = agents(window=60)
        assert get(agent, "/healthz")
        file = tmp_path / "now.pb.gz"
        begin = time.monotonic()
        file.write_bytes(get(agent, "/debug/pprof/profile?seconds=2"))
        waited = time.monotonic() - begin
        taken = pprof_read.read(file)
        assert {"iota_inner", "iota_outer"} <= {f["func"] for s in taken["samples"] for f in s["stack"]}
        assert 1.9e9 < taken["duration_nanos"] < waited * 1e9 and taken["period"] == 10**9 // 99
        agent.configure("[labels]\nadd.region = eu\n")
        agent.reload()
        metrics = get(agent, "/metrics").decode()
        assert re.search(r"^pyperf_frequency_hz 99$", metrics, re.M)
        for table in "counts", "chunks", "procs", "mappings", "tables":
            used, room = [int(re.search(r'^pyperf_map_entries%s\{map="%s"\} (\d+)$' % (kind, table),
                                        metrics, re.M)[1]) for kind in ("", "_max")]
            assert used <= room and room > 0
            assert used > 0 or table in ("counts", "chunks")
        samples = agent.stop()
    # What was asked for is in the window as well.
    assert samples >= taken["totals"]["samples"] > 0


def printed_link(agent):
    result = subprocess.run([PYPERF, "agent", "--link", "--config", agent.config], capture_output=True, text=True,
                            env=clean_environment(PYPERF_AGENT_SHORT_WINDOWS="1"), check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_by_default_who_may_read_the_token_may_read_profiles(agents, tmp_path):
    """Every user can connect to a port of the loopback: figures and health are for all of them, profiles are not. The
    link opens all of it, again after a restart, and nothing but it says the token."""
    port = free_port()
    protected = "/", "/api/services", "/flame", "/debug/pprof/", "/debug/pprof/profile?seconds=1", "/debug/pprof/symbol"

    def status(path, **headers):
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
            connection.request("GET", path, headers=headers)
            return connection.getresponse().status

    config = "[http]\nlisten = 127.0.0.1:%d\n" % port
    agent = agents(config, window=60)
    token = (agent.dir / "token").read_text().strip()
    assert (agent.dir / "token").stat().st_mode & 0o777 == 0o600 and re.fullmatch("[0-9a-f]{32}", token)
    for path in protected:
        assert status(path) == status(path, Authorization="Bearer " + token[:-1]) == 401, path
    for path in "/metrics", "/healthz":
        assert status(path) == 200, path
    assert status("/debug/pprof/", Authorization="Bearer " + token) == 200
    link = printed_link(agent)
    assert link == "http://pyperf:%s@127.0.0.1:%d/" % (token, port)
    assert "the page: http://127.0.0.1:%d/ ('pyperf-bpf agent --link' prints it with the token)" % port in agent.messages()
    agent.stop()
    assert token not in agent.read(agent.err)
    agent = agents(config, window=60)
    assert printed_link(agent) == link and status("/debug/pprof/", Authorization="Bearer " + token) == 200
    # Whoever wants it open says so.
    agent.configure(config + "token-file = none\n")
    agent.reload()
    assert status("/debug/pprof/") == 200
    assert printed_link(agent) == "http://127.0.0.1:%d/" % port
    agent.stop()


def test_a_terminal_shows_the_link(tmp_path):
    """Who starts it by hand finds the page by what it says."""
    path, port = tmp_path / "a.conf", free_port()
    path.write_text("[agent]\nstate-dir = %s\n[http]\nlisten = 127.0.0.1:%d\n" % (tmp_path / "state", port))
    ours, theirs = pty.openpty()
    text = b""
    with subprocess.Popen([PYPERF, "agent", "--config", path], stdin=theirs, stdout=theirs, stderr=theirs,
                          env=clean_environment()) as process:
        os.close(theirs)
        try:
            while not (link := re.search(rb"the page: (http://\S+)\r\n", text)):
                assert select.select([ours], [], [], PATIENCE)[0], text
                text += os.read(ours, 4096)
            parts = urllib.parse.urlsplit(link[1].decode())
            request = urllib.request.Request("http://127.0.0.1:%d/" % port, headers={
                "Authorization": "Basic " + base64.b64encode(b"pyperf:" + parts.password.encode()).decode()})
            with urllib.request.urlopen(request, timeout=PATIENCE) as page:
                assert b"<html" in page.read()
        finally:
            process.terminate()
            with contextlib.suppress(OSError):  # it must be able to say its last words
                while os.read(ours, 4096):
                    pass
    os.close(ours)


# Stripped, inner() has neither a symbol nor unwind information: nothing says where it begins.
NAMELESS = """
static __attribute__((noinline)) int inner(int n) { volatile int i = 0; while (i < n) i++; return i; }
int work(int n) { return inner(n) + inner(n / 2); }
"""


HASHES = """
import ctypes, hashlib, os, select, sys
work = ctypes.CDLL(sys.argv[1]).work
def digest():
    work(2000000)
    hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 5000)
    hashlib.md5(bytes(200000)).digest()
def outer():
    while not select.select([0], [], [], 0)[0]:
        digest()
os.write(1, b"ready\\n")
outer()
"""


def test_go_tool_pprof_of_stripped_libraries(agents, tmp_path):
    """The distribution's Python and libcrypto have functions without names. For these it asks /debug/pprof/symbol, and
    without an answer it has no profile."""
    go = find_go()
    if not go:
        pytest.skip("go is not installed")
    port = free_port()
    library = tmp_path / "nameless.so"
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-s", "-fno-asynchronous-unwind-tables", "-x", "c", "-",
                    "-o", library], input=NAMELESS, text=True, check=True)
    with Process(["/usr/bin/python3", "-c", HASHES, library], env=clean_environment(OTEL_SERVICE_NAME="hashes")):
        agent = agents("[http]\nlisten = 127.0.0.1:%d\n" % port, window=60)
        top = subprocess.run([go, "tool", "pprof", "-top", "-cum", "-nodecount=0", "-nodefraction=0",
                              printed_link(agent) + "debug/pprof/profile?seconds=3"],
                             capture_output=True, text=True, timeout=5 * PATIENCE, check=False,
                             env={**os.environ, "PPROF_TMPDIR": str(tmp_path)})
        agent.stop()
    assert top.returncode == 0, top.stderr
    for name in "digest", "outer":
        assert re.search(r" %s$" % name, top.stdout, re.M), top.stdout
    saved, = tmp_path.glob("*.pb.gz")
    # There was something to ask for.
    assert any(not f["func"] for s in pprof_read.read(saved)["samples"] for f in s["stack"]), top.stdout


def test_who_leaves_gives_his_place_back(agents):
    """There are two, and the profiles asked for take ten minutes."""
    agent = agents(window=60)

    def status(path):
        with contextlib.closing(UnixConnection(agent.dir / "http.sock")) as connection:
            connection.request("GET", path)
            return connection.getresponse().status

    asking = []
    for _ in range(2):
        asking.append(UnixConnection(agent.dir / "http.sock"))
        asking[-1].request("GET", "/debug/pprof/profile?seconds=600")
        get(agent, "/healthz")  # so it has come in before the next one
    poll(lambda: status("/debug/pprof/profile?seconds=1") == 503, "both places to be taken")
    asking[0].close()
    poll(lambda: status("/debug/pprof/profile?seconds=1") == 200, "a place")
    asking[1].sock.shutdown(socket.SHUT_WR)
    assert asking[1].getresponse().read() == b""
    agent.stop()


def test_an_endpoint_that_cannot_be_had_is_tried_again(agents, tmp_path):
    token = tmp_path / "token"
    agent = agents(window=60)
    agent.configure("[http]\ntoken-file = %s\n" % token)
    agent.reload()
    assert "%s: No such file or directory" % token in agent.messages()
    with pytest.raises(OSError):
        get(agent, "/healthz")
    token.write_text("a-token\n")
    agent.reload()  # with the same configuration
    assert get(agent, "/healthz")
    assert "a-token" not in "".join(agent.messages())
    agent.stop()


# As systemd does it: the socket is of another network than the program.
GIVE = """
import os, socket, sys
listening = socket.create_server(("127.0.0.1", int(sys.argv[1])))
os.dup2(listening.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1", LISTEN_FDNAMES="test.socket")
os.execvp(sys.argv[2], sys.argv[2:])
"""


def test_a_socket_of_the_service_manager(agents):
    """An agent without a network has a page on a port of the host, and says why it pushes nothing."""
    if not harness.find_tool("unshare"):
        pytest.skip("unshare is not installed")
    port, other = free_port(), free_port()

    def health():
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
            connection.request("GET", "/healthz")
            return connection.getresponse().status

    def reload(to):
        """Its messages to systemd do not get out of its network, as those sockets have no file."""
        before = len(messages(": reloaded"))
        agent.configure("[http]\nlisten = 127.0.0.1:%d\n" % to)
        os.kill(agent.pid, signal.SIGHUP)
        poll(lambda: len(messages(": reloaded")) > before, "the configuration is not reloaded")

    def messages(words):
        return [m for m in agent.messages() if words in m]

    with fault_server.Server() as server, service("psi"):
        push = "[push.here]\nkind = put\nurl = %s/{id}\n" % server.url
        agent = agents("[http]\nlisten = 127.0.0.1:%d\n%s" % (port, push),
                       prefix=[sys.executable, "-c", GIVE, str(port), "unshare", "-n"], ready=False)
        poll(lambda: messages("sampling at"), "the agent does not start")
        assert health() == 200
        agent.wait_windows("psi", 2)
        told, = [m for m in agent.messages() if "push" in m and "page" not in m]
        assert told.startswith("push: the agent has no network: ") and "push.conf" in told
        assert not server.taken and not messages("not used")
        # `listen` wins; the port is as before when it says so again.
        reload(other)
        assert ("[http] listen = 127.0.0.1:%d: the socket at 127.0.0.1:%d (test.socket) of the service manager is not "
                "used; for a page there, listen = 127.0.0.1:%d" % (other, port, port)) in agent.messages("warning")
        assert messages("listen = 127.0.0.1:%d: nobody reaches" % other)
        reload(port)
        assert health() == 200
        agent.stop()
