# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The agent's HTTP endpoint: what it answers, whom it refuses, and what hostile clients can do.

The server is tests/agent/http_server.c: the endpoint as it is, with sanitizers, and a made-up agent.
"""
import base64
import contextlib
import os
import re
import select
import shutil
import signal
import socket
import sqlite3
import ssl
import subprocess
import subprocess
import time

import pytest

import harness
from agent_server import Server, read_all
from harness import REPO

pytestmark = pytest.mark.host

@pytest.fixture(scope="module")
def server():
    with Server() as server:
        yield server


def refused(**config):
    server = Server(**config)
    status, errors = server.end()
    assert not server.ready and status in (1, 2), errors
    return errors


# ---- what it answers -----------------------------------------------------------------------------

UNITS = r"(milli|micro|nano)?seconds?|[kmg]?(ib|b)|(kilo|mega|kibi|mebi)bytes?|percent|minutes?|hours?|days?|ms|us|ns|sec|hz"


def check_figures(body):
    """What `promtool check metrics` asks for; it says so itself where it is installed (Debian: prometheus)."""
    text = body.decode()
    types = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.M))
    helps = dict(re.findall(r"^# HELP (\w+) (.+)$", text, re.M))
    assert types and set(types) == set(helps)
    for name, kind in types.items():
        words = name.split("_")
        assert (words[-1] == "total") == (kind == "counter"), name
        assert not re.search("counter|gauge|summary|histogram", name), name
        assert all(w in ("seconds", "hz") for w in words if re.fullmatch(UNITS, w)), name
        assert words[-1] not in ("count", "sum", "bucket") and name == name.lower() and ":" not in name, name
    tool = shutil.which("promtool")
    if tool:
        done = subprocess.run([tool, "check", "metrics"], input=body, capture_output=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b""), done


def test_metrics(server):
    """Others' parser reads it; names, types and help are as Prometheus wants them."""
    parser = harness.import_pure("prometheus_client.parser")
    status, headers, body = server.get("/metrics")
    assert status == 200 and headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    text = body.decode()
    families = {f.name: f for f in parser.text_string_to_metric_families(text)}
    values = {(s.name, *s.labels.values()): s.value for f in families.values() for s in f.samples}
    # The stand-in's figures.
    assert values["pyperf_samples_delivered_total",] == 1000
    assert values["pyperf_samples_lost_total", "counts_full"] == 5
    assert values["pyperf_samples_filtered_total", "idle"] == 295
    assert values["pyperf_drain_seconds_sum",] == 1.5 and values["pyperf_drain_seconds_count",] == 3
    assert values["process_resident_memory_bytes",] == 20 << 20
    assert values["process_cpu_seconds_total",] > 0
    assert values["pyperf_push_windows_total", "central"] == 10
    assert values["pyperf_push_spool_windows", "central"] == 7
    assert values["pyperf_push_latency_seconds_sum", "central"] == 0.25
    assert values["pyperf_push_failing", "central"] == 1 and values["pyperf_push_failing", "s3"] == 0
    assert values["pyperf_push_dropped_windows_total", "s3", "size"] == 0
    buckets = {b: n for (name, service, b), n in ((k, v) for k, v in values.items() if k[0].endswith("_bucket")) if service == "shop"}
    assert buckets["0.000256"] == 0 and buckets["0.001024"] == 4 and buckets["0.004096"] == 5 and buckets["0.131072"] == 5
    assert buckets["0.262144"] == buckets["8.388608"] == 6 and buckets["+Inf"] == 7 and len(buckets) == 13
    assert values["pyperf_event_loop_iteration_seconds_sum", "shop"] == 1.5
    assert values["pyperf_event_loop_iteration_seconds_count", "shop"] == 7
    assert values["pyperf_event_loop_slow_iterations_total", "shop"] == 2
    assert values["pyperf_event_loop_slow_seconds_total", "shop"] == 1.25
    assert values["pyperf_event_loop_slow_iterations_total", 'a "b" \\'] == 0
    delivered = values["pyperf_samples_counted_total",]
    for name in "filtered", "lost":
        delivered += sum(s.value for s in families["pyperf_samples_" + name].samples)
    assert delivered == values["pyperf_samples_delivered_total",]
    check_figures(body)
    # As `promtool check metrics` has it.
    for name, family in families.items():
        assert family.documentation.endswith("."), name
        assert re.fullmatch(r"(pyperf|process)(_[a-z]+)+", name), name
        assert not re.search("_(total|sum|count|bucket|info_total|ms|milliseconds|kb)$", name), name
        assert family.type in ("counter", "gauge", "summary", "histogram"), name
        assert len({(s.name, *s.labels.items()) for s in family.samples}) == len(family.samples)
        if family.type == "counter":
            assert "# TYPE %s_total counter\n" % name in text
    # Each family once, its lines together.
    heads = re.findall(r"^# TYPE (\w+)", text, re.M)
    assert len(heads) == len(set(heads)) == len(families)


def test_health(server):
    status, _, body = server.get("/healthz")
    assert (status, body) == (200, b"ok\n")
    os.kill(server.process.pid, signal.SIGUSR1)
    harness.poll(lambda: server.status("/healthz") == 503, "it is sick")
    assert server.get("/healthz")[2] == b"sampling stands still\n"
    os.kill(server.process.pid, signal.SIGUSR1)
    harness.poll(lambda: server.status("/healthz") == 200, "it is well again")


def test_profile(server):
    status, headers, body = server.get("/debug/pprof/profile")
    assert (status, body) == (200, b"30 seconds")  # as Go's net/http/pprof
    assert headers["Content-Type"] == "application/octet-stream"
    assert headers["Content-Disposition"] == 'attachment; filename="profile.pb.gz"'
    assert server.get("/debug/pprof/profile?seconds=7&debug=0")[2] == b"7 seconds"
    for bad in "0", "-1", "601", "1e1", "x", "%00", "9" * 15, "9" * 99:
        status, _, body = server.get("/debug/pprof/profile?seconds=" + bad)
        assert status == 400 and body.count(b"\n") == 1, (bad, body)
    assert server.status("/debug/pprof/profile?seconds=1&seconds=2") == 400
    status, headers, _ = server.get("/debug/pprof/profile?seconds=16")
    assert status == 503 and headers["Retry-After"]
    assert server.status("/debug/pprof/profile?seconds=500") == 500
    assert b"go tool pprof" in server.get("/debug/pprof/")[2]


def test_symbols(server):
    """As net/http/pprof answers: always with 200, whatever is asked, and without a name here."""
    request = b"POST /debug/pprof/symbol HTTP/1.1\r\nHost: localhost\r\n"

    def post(body, length=None):
        return server.raw(request + b"Content-Length: %d\r\n\r\n" % (len(body) if length is None else length) + body)

    for path in "", "?0x1+0x2", "?" + "0x1+" * 2000:
        status, headers, body = server.get("/debug/pprof/symbol" + path)
        assert (status, body) == (200, b"num_symbols: 1\n") and headers["Content-Type"].startswith("text/plain")
    for body in b"", b"0x1+0x2", b"0xffffffffffffffff+" * 100000, b"\0+\xff+" * 9:
        answer = post(body)
        assert answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(b"\r\n\r\nnum_symbols: 1\n"), answer[:300]
    chunked = request + b"Transfer-Encoding: chunked\r\n\r\n3\r\n0x1\r\n0\r\n\r\n"
    assert server.raw(chunked).startswith(b"HTTP/1.1 200 ")
    # It is bounded.
    before = server.resident()
    assert b"200 OK" not in post(b"0x1+" * (5 << 18))
    assert b"200 OK" not in server.raw(request + b"Transfer-Encoding: chunked\r\n\r\n" +
                                       b"10000\r\n%s\r\n" % bytes(1 << 16) * 70)
    assert server.resident() - before < 4 << 20
    # Only there.
    for path in b"/debug/pprof/profile", b"/debug/pprof/", b"/metrics":
        answer = server.raw(b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\n0x1" % path)
        assert answer.startswith(b"HTTP/1.1 405 "), answer[:99]


def test_slow_requests_are_bounded(server):
    """Profiles take half of the workers; what is quick is not held up."""
    request = b"GET /debug/pprof/profile?seconds=2 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    sockets = [server.raw(request, wait=False) for _ in range(6)]
    assert server.status("/healthz") == 200
    assert len(select.select(sockets, [], [], 0)[0]) <= 4, "it waited for the profiles"
    answers = [read_all(s) for s in sockets]
    assert sorted(a.split(b" ", 2)[1] for a in answers) == [b"200"] * 2 + [b"503"] * 4


def test_metrics_have_a_worker_of_their_own(tmp_path):
    """Two hundred clients keep all workers busy, with a store that somebody else holds; who asks for figures gets them."""
    request = b"GET /api/services HTTP/1.1\r\nHost: localhost\r\n\r\n"
    tool = str(REPO / ".output" / "store" / "windows")
    store = tmp_path / "store.db"
    subprocess.run([tool, "write", store, "0", "1", "300"], check=True, stdout=subprocess.DEVNULL)
    with contextlib.closing(sqlite3.connect(store)) as holder, Server(store=store) as server:
        holder.execute("pragma locking_mode = exclusive")
        holder.execute("create table held(x)")
        holder.commit()
        sockets = [server.raw(request, wait=False) for _ in range(200)]
        first = select.select(sockets, [], [], harness.PATIENCE)[0][0]
        assert b" 503 " in first.recv(64), "a worker was free"
        assert server.status("/metrics") == 200
        for s in sockets:
            s.close()


def test_methods_and_paths(server):
    status, headers, body = server.get("/metrics", "HEAD")
    assert status == 200 and body == b"" and int(headers["Content-Length"]) > 1000
    for method in "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "get":
        status, headers, _ = server.get("/metrics", method)
        assert status == 405 and headers["Allow"] == "GET, HEAD", method
    for path in ("/nothing", "/metrics/", "//metrics", "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd",
                 "/metrics/../healthz", "/etc/passwd", "/metrics%20", "/%ff%fe", "/metrics;x",
                 "/debug/pprof", "/debug/pprof/cmdline", "/" + "x" * 9000):
        status, _, body = server.get(path)
        assert status == 404 and body.count(b"\n") == 1, path
    assert server.status("/metrics?%ff=%00&&=&a") == 200


def test_headers(server):
    for path in "/metrics", "/healthz", "/nothing", "/debug/pprof/profile?seconds=1":
        _, headers, _ = server.get(path)
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["Cache-Control"] == "no-store"
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "Access-Control-Allow-Origin" not in headers


# ---- whom it refuses -----------------------------------------------------------------------------

def test_dns_rebinding(server):
    for host in "localhost", "127.0.0.1", "[::1]:4041", "10.0.0.7":
        assert server.status("/metrics", Host=host) == 200, host
    for host in "evil.example", "evil.example:4041", "localhost.evil.example", "127.0.0.1.nip.io", "\xff":
        assert server.status("/healthz", Host=host) == 403, host
    with Server(allow_host="perf.example,b") as named:
        assert named.status("/metrics", Host="perf.example:4041") == 200
        assert named.status("/metrics", Host="evil.example") == 403


def test_other_sites(server):
    def status(site, mode, dest):
        return server.status("/debug/pprof/", Sec_Fetch_Site=site, Sec_Fetch_Mode=mode,
                             Sec_Fetch_Dest=dest)
    assert status("same-origin", "cors", "empty") == 200
    assert status("none", "navigate", "document") == 200
    assert status("cross-site", "navigate", "document") == 200  # a link
    assert status("cross-site", "no-cors", "image") == 403
    assert status("same-site", "navigate", "iframe") == 403


def test_token(tmp_path):
    token = tmp_path / "token"
    token.write_text("s3cret\nnot this\n")

    def basic(password):
        return "Basic " + base64.b64encode(("me:" + password).encode()).decode()

    with Server(token_file=token) as server:
        status, headers, _ = server.get("/metrics")
        assert status == 401 and headers["WWW-Authenticate"].startswith("Basic ")
        assert server.status("/nothing") == 401  # tells nothing of what there is
        assert server.status("/healthz") == 200  # for probes
        assert server.status("/metrics", Authorization="Bearer s3cret") == 200
        assert server.status("/metrics", Authorization=basic("s3cret")) == 200
        for bad in "Bearer ", "Bearer s3cre", "Bearer s3crets", basic(""), basic("x"), "s3cret":
            assert server.status("/metrics", Authorization=bad) == 401, bad
        token.write_text("another one")
        assert server.status("/metrics", Authorization="Bearer s3cret") == 401
        assert server.status("/metrics", Authorization="Bearer another one") == 200
        token.unlink()
        assert server.status("/metrics", Authorization="Bearer another one") == 401
        token.write_text("third")
        assert server.status("/metrics", Authorization="Bearer third") == 200
    assert "s3cret" not in server.errors and "third" not in server.errors
    token.write_text("\n")
    assert "not a token" in refused(token_file=token)
    assert "No such file" in refused(token_file=tmp_path / "none")


def test_own_token(tmp_path):
    """Figures need none that the agent has made itself; but those that name services do."""
    with Server(own_token=tmp_path) as server:
        token = (tmp_path / "token").read_text().strip()
        status, _, without = server.get("/metrics")
        assert status == 200 and b"pyperf_samples_total" in without
        status, _, body = server.get("/metrics", Authorization="Bearer " + token)
        assert status == 200 and b'pyperf_event_loop_slow_iterations_total{service="shop"} 2' in body
        assert b"shop" not in without and b"event_loop" not in without
        wrong = server.get("/metrics", Authorization="Bearer x" + token)
        assert wrong[0] == 200 and b"event_loop" not in wrong[2]


def certificate(path, name):
    """A key and a certificate that signs itself: the test's own."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=" + name,
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", path / "key.pem", "-out",
                    path / "cert.pem"], check=True, capture_output=True, timeout=harness.PATIENCE)


def test_tls(tmp_path):
    if not harness.find_tool("openssl"):
        pytest.skip("openssl is not installed")
    certificate(tmp_path, "first")
    config = {"tls_cert": tmp_path / "cert.pem", "tls_key": tmp_path / "key.pem"}

    def trust():
        return ssl.create_default_context(cafile=tmp_path / "cert.pem")

    with Server(**config) as server:
        first = trust()
        assert server.status("/metrics", tls=first) == 200
        assert server.raw(b"GET /metrics HTTP/1.0\r\n\r\n")[:5] != b"HTTP/"
        old = trust()
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        assert server.status("/metrics", tls=old) == 200
        # A new certificate is taken up without a restart, a broken one is not.
        (tmp_path / "cert.pem").rename(tmp_path / "old.pem")
        (tmp_path / "cert.pem").write_text("-----BEGIN CERTIFICATE-----\nnot one\n")
        assert server.status("/healthz", tls=first) == 200
        assert server.status("/healthz", tls=first) == 200
        certificate(tmp_path, "second")
        assert server.status("/healthz", tls=trust()) == 200
        with pytest.raises(ssl.SSLError):
            server.get("/healthz", tls=first)
    assert "not a certificate" in server.errors and "new certificate" in server.errors
    (tmp_path / "key.pem").write_text("no key")
    assert "is tls-key the key of tls-cert?" in refused(**config)
    assert "go together" in refused(tls_cert=tmp_path / "cert.pem")


def test_unix_socket(tmp_path):
    path = tmp_path / "agent.sock"

    def ask():
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as s:
            s.connect(str(path))
            s.sendall(b"GET /healthz HTTP/1.1\r\nHost: whatever\r\n\r\n")
            return read_all(s)

    with Server(listen="unix:%s" % path, socket_mode="0620"):
        assert path.stat().st_mode & 0o777 == 0o620
        assert ask().endswith(b"\r\n\r\nok\n")
        assert "Address already in use" in refused(listen="unix:%s" % path)
        assert ask().endswith(b"ok\n")
    assert not path.exists()
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as left:
        left.bind(str(path))  # what is left of one that was killed
    with Server(listen="unix:%s" % path):
        assert ask().endswith(b"ok\n")
    path.write_text("a file of somebody's")
    assert "File exists" in refused(listen="unix:%s" % path)
    assert path.read_text() == "a file of somebody's"


def test_remote_has_to_be_wanted():
    assert "allow-remote" in refused(listen="0.0.0.0:0")
    with Server(listen="0.0.0.0:0", allow_remote="yes"):
        pass
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as taken:
        assert "Address already in use" in refused(listen="127.0.0.1:%d" % taken.getsockname()[1])


# ---- hostile clients -----------------------------------------------------------------------------

def test_nonsense(server):
    """It is refused or cut, nothing of it is answered with 200, and the server lives."""
    huge = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n" + b"X: %s\r\n" % (b"a" * 60000)
    many = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n" + b"X: a\r\n" * 20000
    for data in (huge, many, b"\0" * 70000, b"GET " + b"/" * 70000, b"\r\n" * 40000,
                 b"GET / HTTP/9.9\r\n\r\n", b"GET\r\n\r\n", b"GET /metrics HTTP/1.1\r\n\r\n",
                 b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200) + b"\r\n\r\n",
                 b"POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n" + b"x" * 99999,
                 b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" +
                 b"ffff\r\n" * 9000,
                 b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
                 b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello"):
        with contextlib.closing(server.raw(data, wait=False)) as s:
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_WR)
            answer = read_all(s)
        assert not answer.startswith(b"HTTP/1.1 200"), (data[:60], answer[:60])
        assert server.status("/healthz") == 200
    # The second request of a connection is not one.
    two = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2
    assert server.raw(two).count(b"HTTP/1.1 ") == 1


def test_slow_clients():
    """A byte now and then does not hold a connection: after 5 seconds it is cut."""
    with Server() as server:
        slow = [server.raw(b"GET /metrics HTTP/1.1\r\n", wait=False) for _ in range(8)]
        begin = time.monotonic()
        for s in slow:
            s.settimeout(0.5)
        open_ones = list(slow)
        while open_ones:
            for s in list(open_ones):
                try:
                    s.sendall(b"X")
                    if s.recv(1) == b"":
                        open_ones.remove(s)
                except TimeoutError:
                    pass
                except OSError:
                    open_ones.remove(s)
            assert time.monotonic() - begin < harness.PATIENCE
        assert time.monotonic() - begin > 2
        assert server.status("/healthz") == 200


def test_many_connections():
    """Thousands at once: memory is bounded, those who wait are served when others have gone."""
    with Server() as server:
        server.get("/metrics")
        before = server.resident()
        sockets = [server.raw(b"GET /metrics HTTP/1.1\r\nX: " + b"a" * 20000, wait=False)
                   for _ in range(600)]
        grown = server.resident() - before
        assert grown < 16 << 20, grown
        for s in sockets:
            s.close()
        for _ in range(1500):
            server.raw(b"GET /healthz HTTP/1.0\r\n\r\n", wait=False).close()
        assert server.status("/healthz") == 200
        # Its own, standard, listening, epoll and what wakes it.
        harness.poll(lambda: len(os.listdir("/proc/%d/fd" % server.process.pid)) < 12,
                     "connections are closed")


def test_stops_while_asked():
    """Answers under way are finished or dropped; it ends, and nothing leaks."""
    with Server() as server:
        server.raw(b"GET /debug/pprof/profile?seconds=2 HTTP/1.0\r\n\r\n", wait=False)
        server.raw(b"GET /metrics", wait=False)
        assert server.status("/healthz") == 200
