# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Pushing windows to backends that go wrong: nothing is lost, nothing comes twice without need, in order."""
import contextlib
import gzip
import os
import signal
import subprocess
import sys
import time
import uuid

import pytest

import fault_server
import harness
import pprof_read
import pprof_write

PUSH = harness.REPO / ".output" / "tests" / "push_windows"
FAST = {"retry-min-ms": 10, "retry-max-ms": 40}

pytestmark = pytest.mark.host


class Pusher:
    """The driver with one destination, "dest", of kind put."""

    def __init__(self, directory, url, environment=None, spool=None, prefix=(), **settings):
        self.directory = directory
        self.spool = spool or directory / "spool"
        config = directory / "dest"
        settings = {"kind": "put", "url": url, **FAST,
                    **{k.replace("_", "-"): v for k, v in settings.items()}}
        if settings["kind"] == "put" and "{" not in url:
            settings["url"] += "/{service}/{id}"
        config.write_text("".join(f"{k} = {each}\n" for k, v in settings.items()
                                  for each in (v if isinstance(v, list) else [v])))
        self.log = open(directory / "log", "ab")
        self.process = subprocess.Popen(
            [*prefix, PUSH, self.spool, config], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.log, text=True, bufsize=1, env={**os.environ, **(environment or {})})
        self.first_line = self.process.stdout.readline().strip()
        self.ids = []

    def __enter__(self):
        assert self.first_line == "ready", self.first_line + self.messages()
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.log.close()

    def messages(self):
        return (self.directory / "log").read_text(errors="replace")

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        return self.process.stdout.readline().strip()

    def put(self, count, path, *labels):
        _, done, failed, last = self.ask(" ".join(["put", str(path), str(count), *labels])).split()
        assert (int(done), int(failed)) == (count, 0), self.messages()
        prefix, number = last[:16], int(last[16:], 16)
        ids = [f"{prefix}{n:016x}" for n in range(number - count + 1, number + 1)]
        self.ids += ids
        return ids

    def stats(self):
        line = self.ask("stats")
        assert self.process.stdout.readline() == ".\n"
        s = dict(word.split("=", 1) for word in line.split())
        s = {k: int(v) if v.isdigit() else v for k, v in s.items()}
        drops = sum(s[d] for d in ("rejected", "unfit", "age", "size", "damaged", "disk"))
        assert s["put"] + s["found"] == s["sent"] + drops + s["windows"], line
        return s

    def until(self, condition):
        end = time.monotonic() + harness.PATIENCE
        while not condition(self.stats()):
            assert time.monotonic() < end, f"{self.stats()}\n{self.messages()}"
            time.sleep(0.01)
        return self.stats()

    def drained(self):
        return self.until(lambda s: s["windows"] == 0)

    def rss(self):
        words = self.ask("rss").split()
        return int(words[1]), int(words[3])

    def close(self, ms):
        self.process.stdin.write(f"close {ms}\n")
        end = time.monotonic()
        out = self.process.stdout.read()
        assert self.process.wait() == 0
        assert out == "closed\n"
        return time.monotonic() - end

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@pytest.fixture(scope="module", autouse=True)
def driver():
    subprocess.run(["make", "-s", "-C", harness.REPO, ".output/tests/push_windows"], check=True)


@pytest.fixture
def pprof(directory):
    """A file of 3 KB that no compression makes smaller: what it is does not matter to most tests."""
    path = directory / "p.pb.gz"
    path.write_bytes(os.urandom(3000))
    return path


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return fault_server.make_certificates(tmp_path_factory.mktemp("certificates"))


def ids(requests):
    return [r.id for r in requests]


def test_windows_arrive_whole_and_in_order(directory, pprof):
    with fault_server.Server() as server, Pusher(directory, server.url) as pusher:
        pusher.put(20, pprof, "service_name=a/b")
        stats = pusher.drained()
        assert ids(server.taken) == pusher.ids
        assert {r.body for r in server.taken} == {pprof.read_bytes()}
        assert [r.path for r in server.taken] == [f"/a%2Fb/{i}" for i in pusher.ids]
        assert stats["sent"] == 20 and stats["retries"] == stats["failures"] == 0
        assert stats["sent_bytes"] == 20 * 3000
        assert server.connections == 1
        assert not pusher.messages()


@pytest.mark.parametrize("fault", ["500", "502", "503", "429", "408", "close", "garbage"])
def test_passing_faults_lose_nothing(directory, pprof, fault):
    with fault_server.Server() as server, Pusher(directory, server.url) as pusher:
        server.plan("ok", *[fault] * 5)
        pusher.put(10, pprof)
        stats = pusher.drained()
        assert ids(server.taken) == pusher.ids
        # libcurl itself tries again when a connection that it used before ends without a byte.
        assert stats["failures"] in ((4, 5) if fault == "close" else (5,))
        assert pusher.messages().count("\n") <= 3, "one message when it begins, one when it ends"
        assert "\x1b" not in pusher.messages()


@pytest.mark.parametrize("fault", ["half", "lost"])
def test_a_lost_answer_repeats_the_same_id(directory, pprof, fault):
    with fault_server.Server() as server, Pusher(directory, server.url) as pusher:
        server.plan("ok", "ok", fault)
        pusher.put(5, pprof)
        pusher.drained()
        expected = list(pusher.ids)
        expected.insert(2, expected[2])
        assert ids(server.taken) == expected


@pytest.mark.parametrize("after", ["1", "DATE", "1 \t"], ids=["seconds", "date", "blanks-behind"])
def test_retry_after_is_waited_for(directory, pprof, after):
    with fault_server.Server() as server, Pusher(directory, server.url) as pusher:
        server.plan(f"429:{after}")
        begin = time.monotonic()
        pusher.put(1, pprof)
        pusher.drained()
        assert 0.9 < time.monotonic() - begin < 20
        assert len(server.seen) == 2


def test_retry_after_holds_whatever_else_arrives(directory, pprof):
    """Of four requests at once one is told to wait, while the others are still being taken."""
    with fault_server.Server(slow_seconds=1) as server, \
            Pusher(directory, server.url, max_in_flight=4) as pusher:
        server.plan("429:2", "slow", "slow", "slow")
        pusher.put(8, pprof)
        pusher.drained()
        refused = next(r for r in server.seen if r.fault == "429:2")
        later = [r.at - refused.at for r in server.seen if r.fault == "ok"]
        assert len(later) == 5 and min(later) > 1.9, later


def test_backing_off_grows(directory, pprof):
    with fault_server.Server() as server, \
            Pusher(directory, server.url, retry_min_ms=50, retry_max_ms=100000) as pusher:
        server.plan(default="503")
        begin = time.monotonic()
        pusher.put(3, pprof)
        pusher.until(lambda s: s["failures"] >= 5)
        assert time.monotonic() - begin > (50 + 100 + 200 + 400) / 2 / 1000
        assert {r.id for r in server.seen} == {pusher.ids[0]}


@pytest.mark.parametrize("status", ["400", "413", "422"])
def test_what_is_refused_is_dropped_and_said(directory, pprof, status):
    with fault_server.Server() as server, Pusher(directory, server.url) as pusher:
        server.plan("ok", status, status, "ok")
        pusher.put(5, pprof)
        stats = pusher.drained()
        assert stats["rejected"] == 2 and stats["sent"] == 3
        assert ids(server.taken) == pusher.ids[:1] + pusher.ids[3:]
        assert f"refused: status {status}" in pusher.messages()


@pytest.mark.parametrize("status", ["401", "403", "404", "301"])
def test_what_a_person_must_mend_is_tried_slowly_and_kept(directory, pprof, status):
    with fault_server.Server() as server, Pusher(directory, server.url) as pusher:
        server.plan(status)
        begin = time.monotonic()
        pusher.put(3, pprof)
        pusher.drained()
        assert time.monotonic() - begin >= 0.040 * 5 / 2
        assert ids(server.taken) == pusher.ids


def test_a_window_that_breaks_the_backend_does_not_hold_up_the_others(directory, pprof):
    with fault_server.Server() as server, \
            Pusher(directory, server.url, retry_max_ms=20) as pusher:
        answer = server._next_fault
        with server.lock:
            server._next_fault = lambda: "ok"
        poison = pusher.put(1, pprof, "service_name=first")
        pusher.drained()

        def by_id(s, r, was=server._answer):
            r.fault = "500" if "/poison/" in r.path else answer()
            return was(s, r)
        server._answer = by_id
        poison = pusher.put(1, pprof, "service_name=poison")
        pusher.put(10, pprof, "service_name=good")
        stats = pusher.drained()
        assert stats["rejected"] == 1 and stats["sent"] == 11
        assert poison[0] not in ids(server.taken)
        assert len(set(ids(server.taken))) == len(server.taken) == 11


def test_a_backend_that_is_down_and_comes_back(directory, pprof):
    with fault_server.Server() as server, Pusher(directory, server.url) as pusher:
        pusher.put(3, pprof)
        pusher.drained()
        server.down()
        rss = None
        for _ in range(10):
            pusher.put(100, pprof)
            rss = rss or pusher.rss()
        stats = pusher.until(lambda s: s["failures"] >= 3)
        assert stats["windows"] == 1000 and stats["failing"] == 1
        server.up()
        pusher.drained()
        assert ids(server.taken) == pusher.ids
        more, fds = pusher.rss()
        assert more < rss[0] + (4 << 20), "memory does not grow with what waits"
        assert fds <= rss[1] + 2
        assert "works again" in pusher.messages()


FASTER = 100


@pytest.fixture(scope="module")
def fast_time(tmp_path_factory):
    """An environment in which a minute takes less than a second."""
    library = tmp_path_factory.mktemp("fast") / "fast_time.so"
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", library, harness.PROGRAMS / "fast_time.c"], check=True)
    return {"LD_PRELOAD": str(library), "FAST_TIME": str(FASTER)}


@pytest.mark.parametrize("outage", ["refused", "503", "half", "tls"])
def test_down_for_ten_minutes(directory, pprof, fast_time, certificates, outage):
    """With the default times between tries. Two windows each six seconds; the first arrive before it is down."""
    context = outage == "tls" and fault_server.server_context(certificates, "good")
    settings = {"ca_file": certificates / "ca.pem"} if context else {}
    with fault_server.Server(context or None) as server, \
            Pusher(directory, server.url, fast_time, retry_min_ms=1000, retry_max_ms=60000,
                   timeout="1h", connect_timeout="1h", **settings) as pusher:
        pusher.put(2, pprof)
        pusher.drained()
        server.down()
        if outage == "tls":
            server.context = fault_server.server_context(certificates, "stranger")
        if outage != "refused":
            server.plan(default=outage)
            server.up()
        for i in range(1, 101):
            pusher.put(2, pprof)
            pusher.until(lambda s: s["age_ns"] >= i * 6e9)
            if i == 10:
                rss, _ = pusher.rss()
        stats = pusher.stats()
        assert stats["windows"] == 200 and stats["failing"] == 1
        assert 3 <= stats["failures"] <= 30, "no storm of retries"
        assert pusher.rss()[0] < rss + (1 << 20)
        if outage != "refused":
            server.down()
        server.context = context or None
        server.plan()
        server.up()
        stats = pusher.drained()
        assert [i for i, before in zip(ids(server.taken), [None, *ids(server.taken)]) if i != before] == pusher.ids
        assert stats["sent"] == 202 and stats["requests"] == 202 + stats["failures"]
        assert pusher.rss()[0] < rss + (1 << 20)
        assert pusher.messages().count("\n") <= 4, pusher.messages()


def test_a_spool_that_cannot_be_opened_is_tried_again(directory, pprof, fast_time):
    spool = directory / "spool"
    spool.mkdir()
    (spool / "dest").write_text("in the way")
    with fault_server.Server() as server, Pusher(directory, server.url, fast_time, timeout="1h") as pusher:
        assert pusher.ask(f"put {pprof} 3").split()[1:3] == ["0", "3"]
        stats = pusher.stats()
        assert stats["put"] == stats["disk"] == 3 and stats["failing"] == 1
        assert pusher.messages().count("dest: spool") == 1
        (spool / "dest").unlink()
        pusher.until(lambda s: pusher.ask(f"put {pprof} 1").split()[1] == "1")
        stats = pusher.drained()
        assert stats["sent"] >= 1 and stats["failing"] == 0 and server.taken


def test_memory_is_flat(directory, pprof):
    pprof.write_bytes(os.urandom(300_000))
    with fault_server.Server() as server, Pusher(directory, server.url) as pusher:
        server.plan(*["500", "ok", "close", "ok", "garbage"] * 4)
        pusher.put(50, pprof)
        pusher.drained()
        first, fds = pusher.rss()
        for _ in range(4):
            server.plan(*["500", "ok", "close", "ok", "garbage", "huge"] * 4)
            pusher.put(50, pprof)
            pusher.drained()
            server.seen.clear()
            server.taken.clear()
        rss, fds_after = pusher.rss()
        assert rss < first + (3 << 20)
        assert fds_after <= fds + 2


def test_killed_and_started_again(directory, pprof):
    with fault_server.Server() as server:
        server.plan(default="503")
        sent = []
        for _ in range(3):
            with Pusher(directory, server.url) as pusher:
                sent += pusher.put(10, pprof)
                pusher.until(lambda s: s["failures"] >= 1)
                pusher.kill()
        server.plan()
        with Pusher(directory, server.url) as pusher:
            assert pusher.stats()["found"] == 30
            pusher.drained()
        assert ids(server.taken) == sent
        assert list((directory / "spool" / "dest").iterdir()) == []


def test_close_sends_what_it_can_until_the_deadline(directory, pprof):
    with fault_server.Server(slow_seconds=0.05) as server:
        server.plan(default="slow")
        with Pusher(directory, server.url) as pusher:
            first = pusher.put(5, pprof)
            assert pusher.close(20000) < 10
        assert ids(server.taken) == first
        server.plan(default="hang")
        with Pusher(directory, server.url) as pusher:
            rest = pusher.put(5, pprof)
            pusher.until(lambda s: len(server.seen) > 5)
            assert pusher.close(200) < 10
        server.plan()
        with Pusher(directory, server.url) as pusher:
            assert pusher.stats()["found"] == 5
            pusher.drained()
        assert ids(server.taken) == first + rest


SILENT_RESOLVER = """
import os, socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.0.0.1", 53))
if os.fork() == 0:
    os.closerange(0, 3)
    while True: s.recv(512)
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_close_does_not_wait_for_the_resolver(directory, pprof):
    """Names are looked up by a server that never answers, in namespaces of their own."""
    if os.geteuid():
        pytest.skip("needs root, for a namespace")
    (directory / "resolv.conf").write_text("nameserver 127.0.0.1\noptions timeout:30 attempts:3\n")
    (directory / "nsswitch.conf").write_text("hosts: dns\n")
    setup = "ip link set lo up && " + " && ".join(
        f"mount --bind {directory}/{name} /etc/{name}" for name in ("resolv.conf", "nsswitch.conf"))
    prefix = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-c", setup + ' && exec "$@"', "sh",
              sys.executable, "-c", SILENT_RESOLVER]
    with Pusher(directory, "http://backend.example", prefix=prefix, connect_timeout="1h") as pusher:
        pusher.put(1, pprof)
        assert pusher.close(200) < 10
    assert len(list((directory / "spool" / "dest").iterdir())) == 1


def test_a_slow_backend_runs_into_the_timeout(directory, pprof):
    with fault_server.Server() as server, \
            Pusher(directory, server.url, timeout_ms=100) as pusher:
        server.plan("hang", "ok")
        pusher.put(2, pprof)
        stats = pusher.drained()
        assert stats["failures"] == 1 and ids(server.taken) == pusher.ids


def test_putting_does_not_wait_for_the_backend(directory, pprof):
    with fault_server.Server() as server, Pusher(directory, server.url) as pusher:
        server.plan(default="hang")
        begin = time.monotonic()
        pusher.put(50, pprof)
        assert time.monotonic() - begin < 10
        assert pusher.stats()["windows"] == 50


def test_several_in_flight(directory, pprof):
    with fault_server.Server(slow_seconds=0.1) as server, \
            Pusher(directory, server.url, max_in_flight=8) as pusher:
        server.plan(default="slow")
        pusher.put(40, pprof)
        pusher.drained()
        assert 1 < server.most_slow <= 8
        assert sorted(ids(server.taken)) == sorted(pusher.ids)
        assert 1 < server.connections <= 8


def test_the_spool_is_bounded(directory, pprof):
    with fault_server.Server() as server, \
            Pusher(directory, server.url, spool_max_bytes=10 * 4096) as pusher:
        server.plan(default="503")
        pusher.put(1, pprof)
        pusher.until(lambda s: s["failures"] >= 1)
        pusher.put(30, pprof)
        assert pusher.stats()["windows"] == 10
        server.plan()
        stats = pusher.drained()
        assert stats["size"] == 21 and stats["sent"] == 10
        assert ids(server.taken)[-9:] == pusher.ids[-9:]
        assert "windows lost" in pusher.messages() or "window lost" in pusher.messages()


def test_the_old_are_dropped(directory, pprof):
    with fault_server.Server() as server, \
            Pusher(directory, server.url, spool_max_age_ms=300) as pusher:
        server.plan(default="503")
        pusher.put(5, pprof)
        assert pusher.drained()["age"] == 5


# ---- One service and the others --------------------------------------------------------------------

class Choosy(fault_server.Server):
    """What becomes of a request depends on whose windows it has: {service: fault}. A path names one service, a body
    of another kind has the names of all."""

    def __init__(self, faults):
        super().__init__()
        self.choice = faults

    def of(self, service):
        return [r for r in self.seen if f"/{service}/" in r.path]

    def _answer(self, s, r):
        body = gzip.decompress(r.body) if r.headers.get("content-encoding") == "gzip" else r.body
        for service, fault in self.choice.items():
            if service == "*" or f"/{service}/" in r.path or service.encode() in body:
                r.fault = fault
        return super()._answer(s, r)


@pytest.mark.parametrize("fault", ["429:3600", "429", "503:3600", "503", "500", "garbage", "403"])
def test_a_service_that_is_refused_holds_no_other(directory, pprof, fault):
    with Choosy({"limited": fault}) as server, Pusher(directory, server.url, retry_max_ms=20) as pusher:
        limited, good = [], []
        for _ in range(5):
            limited += pusher.put(1, pprof, "service_name=limited")
            good += pusher.put(4, pprof, "service_name=good")
        stats = pusher.until(lambda s: s["sent"] == 20)
        assert stats["windows"] + stats["rejected"] == 5
        assert ids(server.taken) == good
        assert [i for i in limited if i in ids(server.seen)][:1] == limited[:1]
        pusher.until(lambda _: fault == "429:3600" or "service limited: " in pusher.messages())
        if ":3600" in fault:
            assert [r.id for r in server.of("limited")] == limited[:1], "one try"
            status = fault.split(":")[0]
            assert f"service limited: status {status}" in pusher.messages()
            assert f"service limited: status {status}: no: \ufffd[31m{fault} (next try in " in pusher.messages()
            pusher.close(20000)
            assert f"left in the spool for the next start: 5 windows of 1 service: limited 5 (status {status})" in (
                pusher.messages())
            server.choice = {}
            with Pusher(directory, server.url) as again:
                assert again.stats()["found"] == 5
                again.drained()
            assert ids(server.taken) == good + limited, "in order"


def test_a_refused_service_recovers_alone(directory, pprof):
    with Choosy({"limited": "429"}) as server, Pusher(directory, server.url) as pusher:
        limited = pusher.put(3, pprof, "service_name=limited")
        pusher.until(lambda s: s["failures"] >= 3)
        pusher.put(3, pprof, "service_name=good")
        pusher.until(lambda s: s["sent"] == 3)
        server.choice = {}
        pusher.drained()
        assert [r.id for r in server.taken if "/limited/" in r.path] == limited
        assert pusher.messages().count("service limited: ") == 2, pusher.messages()
        assert "service limited: works again" in pusher.messages()


@pytest.mark.parametrize("kind", ["pyroscope", "put"])
def test_a_backend_that_limits_everything_gets_one_try_for_each(directory, pprof, kind):
    services = [f"service-{i:02}." for i in range(40)]
    with Choosy({"*": "429:3600"}) as server, \
            Pusher(directory, server.url, kind=kind, retry_min_ms=200, retry_max_ms=400) as pusher:
        begin = time.monotonic()
        for service in services * 3:
            pusher.put(1, pprof, f"service_name={service}")

        def of(r):
            return [s for s in [*services, "last."] if s in r.path or s.encode() in r.body]

        def tries(service):
            """Requests for this service alone, of one window or several."""
            return [r for r in list(server.seen) if of(r) == [service]]
        pusher.until(lambda _: all(tries(s) for s in services))
        took = time.monotonic() - begin
        pusher.put(1, pprof, "service_name=last.")
        pusher.until(lambda _: tries("last."))
        assert [len(tries(s)) for s in services] == [1] * 40
        assert len([r for r in server.seen if len(of(r)) == 1]) == 41
        assert took > 38 * 0.050 / 2, "not all at once"
        assert pusher.messages().count("service service-") == 5, "a few are named"
        assert pusher.stats()["windows"] == 121


@pytest.mark.parametrize("kind", ["pyroscope", "otlp"])
def test_a_request_of_several_services_of_which_one_is_refused(directory, kind):
    p = pprof_write.Profile(hz=19)
    p.add([(("<module>", "/srv/app.py", 1), 3)], 5)
    path = directory / "p.pb.gz"
    path.write_bytes(p.pack())
    with Choosy({"limited": "429:3600"}) as server, \
            Pusher(directory, server.url, kind=kind) as pusher:
        for _ in range(3):
            for service in ("good", "limited", "other"):
                pusher.put(1, path, f"service_name={service}")
        stats = pusher.until(lambda s: s["sent"] == 6)
        assert stats["windows"] == 3
        got = [i for r in server.taken for i in windows_of(kind, r)]
        assert got == [i for n, i in enumerate(pusher.ids) if n % 3 != 1]


def test_a_loss_names_the_service_and_its_time(directory, pprof):
    with Choosy({"bad": "400"}) as server, Pusher(directory, server.url) as pusher:
        pusher.put(1, pprof, "service_name=bad", "k8s_namespace=shop")
        pusher.drained()
        at = time.strftime("%Y-%m-%d", time.localtime())
        assert "refused: status 400" in pusher.messages() and "(service shop/bad)" in pusher.messages()
        assert f"1 window lost: refused by the backend for good (service shop/bad, {at} " in pusher.messages()


def test_losses_that_were_held_back_are_said_at_the_end(directory, pprof):
    with Choosy({"bad": "400", "worse": "400"}) as server, Pusher(directory, server.url) as pusher:
        pusher.put(2, pprof, "service_name=bad")
        pusher.put(1, pprof, "service_name=worse")
        pusher.drained()
        pusher.close(1000)
        assert "2 windows lost: refused by the backend for good (service bad and others, " in pusher.messages()


def test_what_waits_is_said_each_hour(directory, pprof, fast_time):
    fast = {**fast_time, "FAST_TIME": "5000"}
    with Choosy({"limited": "429:3600"}) as server, \
            Pusher(directory, server.url, fast, retry_min_ms=1000, retry_max_ms=60000, timeout="1h",
                   connect_timeout="1h") as pusher:
        pusher.put(2, pprof, "service_name=limited")
        pusher.until(lambda _: pusher.messages().count("still waiting: 2 windows of 1 service: limited 2") >= 2)
        server.choice = {}
        pusher.drained()


# ---- TLS and credentials -------------------------------------------------------------------------

def attempt(directory, server, pprof, **settings):
    """Whether a window gets through, and what is said; a failure is waited for."""
    directory = directory / str(len(list(directory.iterdir())))
    directory.mkdir()
    with Pusher(directory, server.url, **settings) as pusher:
        pusher.put(1, pprof)
        stats = pusher.until(lambda s: s["requests"] >= 1)
        return stats["sent"] == 1, pusher.messages()


@pytest.mark.parametrize("certificate, client", [("good", False), ("good", True), ("expired", False),
                                                 ("other", False), ("stranger", False)])
def test_certificates(directory, pprof, certificates, certificate, client):
    context = fault_server.server_context(certificates, certificate, "ca" if client else None)
    with fault_server.Server(context) as server:
        settings = {"ca_file": certificates / "ca.pem"}
        if client:
            assert not attempt(directory, server, pprof, **settings)[0]
            settings.update(cert_file=certificates / "client.pem",
                            key_file=certificates / "client.key")
        sent, messages = attempt(directory, server, pprof, **settings)
        assert sent == (certificate == "good"), messages
        if not sent:
            assert "certificate" in messages or "host name" in messages
            assert not server.seen, "nothing is sent to whom we do not trust"
            sent, messages = attempt(directory, server, pprof, insecure_skip_verify="yes")
            assert sent and "insecure-skip-verify" in messages


def test_tls_connections_that_end(directory, pprof, certificates):
    """Writing to one is SIGPIPE, which must not end the program."""
    with fault_server.Server(fault_server.server_context(certificates, "good")) as server, \
            Pusher(directory, server.url, ca_file=certificates / "ca.pem") as pusher:
        for _ in range(5):
            server.plan("ok", "ok", "close")
            pusher.put(4, pprof)
            pusher.drained()
            server.down()
            server.up()
        assert ids(server.taken) == pusher.ids


def test_tls_to_a_server_that_has_none(directory, pprof, certificates):
    with fault_server.Server() as server:
        url = server.url.replace("http:", "https:")
        with Pusher(directory, url, ca_file=certificates / "ca.pem",
                    connect_timeout="1s") as pusher:
            pusher.put(1, pprof)
            pusher.until(lambda s: s["failures"] >= 2)
            assert pusher.stats()["windows"] == 1


def test_credentials_are_read_again_and_never_said(directory, pprof):
    token, key = directory / "token", directory / "key"
    token.write_text("first-secret\n")
    key.write_text("other-secret")
    with fault_server.Server() as server, \
            Pusher(directory, server.url, bearer_token_file=token, tenant="team-a",
                   header=["X-One: 1", "X-Two: two-secret"],
                   header_file=f"X-Key: {key}") as pusher:
        server.plan("401")
        pusher.put(1, pprof)
        pusher.drained()
        headers = server.taken[0].headers
        assert headers["authorization"] == "Bearer first-secret"
        assert (headers["x-one"], headers["x-two"]) == ("1", "two-secret")
        assert headers["x-key"] == "other-secret" and headers["x-scope-orgid"] == "team-a"
        token.write_text("second-secret")
        pusher.put(1, pprof)
        pusher.drained()
        assert server.taken[1].headers["authorization"] == "Bearer second-secret"
        token.write_text("bad\x01\n")
        pusher.put(1, pprof)
        pusher.until(lambda s: str(token) in pusher.messages())
        assert pusher.stats()["failing"] == 1
        token.unlink()
        token.write_text("third")
        pusher.drained()
        assert "secret" not in pusher.messages()
        assert [r.headers["authorization"] for r in server.taken][2:] == ["Bearer third"]


def test_basic_authentication(directory, pprof):
    password = directory / "password"
    password.write_text("pa:ss\n")
    with fault_server.Server() as server:
        sent, _ = attempt(directory, server, pprof, username="user", password_file=password)
        assert sent
        assert server.taken[0].headers["authorization"] == "Basic dXNlcjpwYTpzcw=="


def test_the_proxy_of_the_environment_is_not_asked(directory, pprof):
    with fault_server.Server() as server, fault_server.Server() as proxy:
        url = f"http://127.0.0.1:{server.port}"
        environment = {"http_proxy": proxy.url, "HTTP_PROXY": proxy.url, "all_proxy": proxy.url,
                       "no_proxy": "", "NO_PROXY": ""}
        for setting, expected in (("none", server), ("env", proxy), (proxy.url, proxy)):
            before = len(expected.taken)
            with Pusher(directory, url, environment, proxy=setting) as pusher:
                pusher.put(1, pprof)
                pusher.drained()
            assert len(expected.taken) == before + 1


# ---- What is sent --------------------------------------------------------------------------------

# As pprof_read.py has them; "b" is bytes.
ATTRIBUTE_VALUE = {1: ("string_value", "s"), 3: ("int_value", "i")}
VALUE_TYPE = {1: ("type", "i"), 2: ("unit", "i")}
OTLP_DICTIONARY = {
    1: ("mappings*", {1: ("start", "u"), 2: ("limit", "u"), 3: ("offset", "u"), 4: ("filename", "i"),
                      5: ("attributes*", "i")}),
    2: ("locations*", {1: ("mapping", "i"), 2: ("address", "u"), 3: ("lines*", {
        1: ("function", "i"), 2: ("line", "i"), 3: ("column", "i")}), 4: ("attributes*", "i")}),
    3: ("functions*", {1: ("name", "i"), 2: ("system_name", "i"), 3: ("filename", "i"), 4: ("start_line", "i")}),
    4: ("links*", {1: ("trace_id", "b"), 2: ("span_id", "b")}),
    5: ("strings*", "s"),
    6: ("attributes*", {1: ("key", "i"), 2: ("value", ATTRIBUTE_VALUE), 3: ("unit", "i")}),
    7: ("stacks*", {1: ("locations*", "i")})}
OTLP_PROFILE = {
    1: ("sample_type", VALUE_TYPE),
    2: ("samples*", {1: ("stack", "i"), 2: ("attributes*", "i"), 3: ("link", "i"), 4: ("values*", "i"),
                     5: ("timestamps*", "u")}),
    3: ("time_unix_nano", "f"), 4: ("duration_nano", "u"), 5: ("period_type", VALUE_TYPE), 6: ("period", "i"),
    7: ("profile_id", "b")}
OTLP_REQUEST = {
    1: ("resource_profiles*", {
        1: ("resource", {1: ("attributes*", {1: ("key", "s"), 2: ("value", ATTRIBUTE_VALUE)})}),
        2: ("scope_profiles*", {1: ("scope", {1: ("name", "s"), 2: ("version", "s")}),
                                2: ("profiles*", OTLP_PROFILE)})}),
    2: ("dictionary", OTLP_DICTIONARY)}
WRITE_RAW_REQUEST = {
    2: ("series*", {1: ("labels", {1: ("labels*", {1: ("name", "b"), 2: ("value", "b")})}),
                    2: ("samples*", {1: ("raw_profile", "b")})}),
    3: ("normalized", "u")}
PUSH_REQUEST = {1: ("series*", {
    1: ("labels*", {1: ("name", "b"), 2: ("value", "b")}),
    2: ("samples*", {1: ("raw_profile", "b"), 2: ("id", "b")})})}


def test_pyroscope_messages(directory, pprof):
    pprof.write_bytes(gzip.compress(b""))
    with fault_server.Server() as server:
        for kind in ("pyroscope", "pyroscope-ingest"):
            with Pusher(directory, server.url, kind=kind) as pusher:
                window, = pusher.put(1, pprof, "service_name=web}1,x", "__private=1")
                pusher.drained()
        push, ingest = server.taken
        assert push.path == "/push.v1.PusherService/Push" and push.method == "POST"
        assert push.headers["content-type"] == "application/proto"
        series, = pprof_read.message(push.body, PUSH_REQUEST)["series"]
        assert [(la["name"], la["value"]) for la in series["labels"]] == [
            (b"__name__", b"process_cpu"), (b"host", b"test-host"), (b"service_name", b"web}1,x")]
        sample, = series["samples"]
        assert sample["raw_profile"] == pprof.read_bytes()
        assert sample["id"].decode() == str(uuid.UUID(hex=push.id))
        assert ingest.path.startswith("/ingest?format=pprof&")
        assert "name=web_1_x%7Bhost%3Dtest-host%2Cservice_name%3Dweb_1_x%7D" in ingest.path
        assert ingest.body == pprof.read_bytes() and ingest.id == window


def test_grpc(directory, pprof):
    with fault_server.GrpcServer() as server, Pusher(directory, server.url, kind="parca", max_windows=1) as pusher:
        server.plan("ok", "14:try%20again%1b[31m", "cut", "8", "ok", "3:no")
        pusher.put(4, pprof)
        stats = pusher.drained()
        assert stats["sent"] == 3 and stats["rejected"] == 1 and stats["failures"] == 4
        assert "status 503: try again" in pusher.messages() and "\x1b" not in pusher.messages()
        assert "refused: status 400: no" in pusher.messages()
        request = pprof_read.message(server.taken[0].body, WRITE_RAW_REQUEST)
        series, = request["series"]
        assert [(la["name"], la["value"]) for la in series["labels"]["labels"]] == [
            (b"__name__", b"process_cpu"), (b"host", b"test-host"), (b"service_name", b"test")]
        assert series["samples"] == [{"raw_profile": pprof.read_bytes()}]
        assert request["normalized"] == 1


def test_grpc_to_a_server_without_http2(directory, pprof):
    with fault_server.Server() as server, Pusher(directory, server.url, kind="parca") as pusher:
        pusher.put(1, pprof)
        pusher.until(lambda s: s["failures"] >= 2)
        assert pusher.stats()["windows"] == 1


def read_otlp(body):
    """(attributes of the resource, profile, {(stack, attributes): samples}) of each window, all indexes resolved and
    checked."""
    request = pprof_read.message(body, OTLP_REQUEST)
    return [read_otlp_window(request["dictionary"], r) for r in request["resource_profiles"]]


def read_otlp_window(d, resource_profiles):
    scope_profiles, = resource_profiles["scope_profiles"]
    profile, = scope_profiles["profiles"]
    nothing = pprof_read.message(b"", OTLP_DICTIONARY)
    for table, fields in ((t, f) for t, f in OTLP_DICTIONARY.values() if isinstance(f, dict)):
        if table != "links*":
            assert d[table[:-1]][0] == pprof_read.message(b"", fields), f"{table} begins with nothing"
            assert len({repr(item) for item in d[table[:-1]]}) == len(d[table[:-1]]), f"{table}: one twice"
    assert nothing["strings"] == [] and d["strings"][0] == "" and len(d["links"]) == 1
    assert len(set(d["strings"])) == len(d["strings"])

    def attributes(indexes):
        pairs = [(d["strings"][d["attributes"][i]["key"]], value(d["attributes"][i]["value"])) for i in indexes]
        assert 0 not in indexes and len(dict(pairs)) == len(pairs)
        return dict(pairs)

    def value(v):
        return v["string_value"] or v["int_value"]

    def frame(i):
        location = d["locations"][i]
        functions = [d["functions"][line["function"]] for line in location["lines"]]
        mapping = d["mappings"][location["mapping"]]
        return (tuple((d["strings"][f["name"]], d["strings"][f["filename"]], line["line"])
                      for f, line in zip(functions, location["lines"])),
                d["strings"][mapping["filename"]], attributes(location["attributes"]).get("profile.frame.type"))
    samples = {}
    for s in profile["samples"]:
        count, = s["values"]
        key = tuple(frame(i) for i in d["stacks"][s["stack"]]["locations"]), repr(attributes(s["attributes"]))
        assert key not in samples
        samples[key] = count
    types = [tuple(d["strings"][i] for i in profile[t].values()) for t in ("sample_type", "period_type")]
    assert types == [("samples", "count"), ("cpu", "nanoseconds")]
    return {a["key"]: value(a["value"]) for a in resource_profiles["resource"]["attributes"]}, profile, samples


@pytest.mark.parametrize("kind", ["otlp", "otlp-grpc"])
def test_otlp_messages(directory, kind):
    p = pprof_write.Profile(hz=19)
    main, work = ("<module>", "/srv/app.py", 1), ("work\u00e4", "/srv/app.py", 7)
    p.add([(main, 3), (work, 9)], 5)
    p.add([(main, 3), (work, 10)], 2)
    path = directory / "p.pb.gz"
    path.write_bytes(p.pack())
    expected = pprof_read.read(path)
    server = fault_server.GrpcServer() if kind == "otlp-grpc" else fault_server.Server()
    with server, Pusher(directory, server.url, kind=kind) as pusher:
        window, = pusher.put(1, path, "service_name=web", "k8s_pod=p-1", "team=a")
        pusher.drained()
        body = server.taken[0].body
        if kind == "otlp":
            assert server.taken[0].path == "/v1development/profiles"
            assert server.taken[0].headers["content-encoding"] == "gzip"
            body = gzip.decompress(body)
        (resource, profile, samples), = read_otlp(body)
        assert resource == {"service.name": "web", "host.name": "test-host", "k8s.pod.name": "p-1", "team": "a"}
        assert profile["profile_id"].hex() == window and profile["duration_nano"] == 10 * 10 ** 9
        assert profile["period"] == 10 ** 9 // 19
        assert sum(samples.values()) == expected["totals"]["samples"] == 7
        got = {tuple(lines[0] for lines, _, _ in stack): n for (stack, _), n in samples.items()}
        assert got == {(("work\u00e4", "/srv/app.py", 9), ("<module>", "/srv/app.py", 3)): 5,
                       (("work\u00e4", "/srv/app.py", 10), ("<module>", "/srv/app.py", 3)): 2}


def windows_of(kind, request):
    """The ids, in the order in which they are in the request."""
    if kind == "pyroscope":
        return [sample["id"].decode().replace("-", "")
                for series in pprof_read.message(request.body, PUSH_REQUEST)["series"] for sample in series["samples"]]
    body = gzip.decompress(request.body) if kind == "otlp" else request.body
    return [profile["profile_id"].hex() for _, profile, _ in read_otlp(body)]


SLOW = {"retry-min-ms": 2000, "retry-max-ms": 2000}


@pytest.mark.parametrize("kind", ["pyroscope", "otlp", "otlp-grpc"])
def test_windows_that_wait_go_in_one_request(directory, kind):
    """Behind one that failed and is tried alone; of several services, which share what is equal."""
    paths = []
    for service in range(3):
        p = pprof_write.Profile(hz=19)
        p.add([(("<module>", "/srv/app.py", 1), 3), (("work%d" % service, "/srv/app.py", 7), 9)], 5 + service)
        paths.append(directory / ("p%d.pb.gz" % service))
        paths[-1].write_bytes(p.pack())
    server = fault_server.GrpcServer() if kind == "otlp-grpc" else fault_server.Server()
    with server, Pusher(directory, server.url, kind=kind, **SLOW) as pusher:
        server.plan("14:later" if kind == "otlp-grpc" else "503")
        ids = [pusher.put(1, paths[i % 3], "service_name=s%d" % (i % 3))[0] for i in range(9)]
        pusher.drained()
        taken = server.taken
        assert [i for request in taken for i in windows_of(kind, request)] == ids
        assert len(taken) <= 4 and len(windows_of(kind, taken[0])) == 1, taken
        if kind != "otlp-grpc":  # whose server notes no headers
            assert len({request.id for request in taken}) == len(taken)
        if kind == "otlp":
            for i, (resource, _, samples) in enumerate(read_otlp(gzip.decompress(taken[-1].body)), 9 - len(
                    windows_of(kind, taken[-1]))):
                assert resource["service.name"] == "s%d" % (i % 3)
                (stack, _), = samples
                assert stack[0][0] == (("work%d" % (i % 3), "/srv/app.py", 9),) and sum(samples.values()) == 5 + i % 3


def test_one_that_is_refused_keeps_no_other_back(directory, pprof):
    """A request of several is refused: then each goes alone, and one of them is refused again."""
    with fault_server.Server() as server, Pusher(directory, server.url, kind="pyroscope", **SLOW) as pusher:
        server.plan("503", "ok", "400", "ok", "400")
        ids = pusher.put(8, pprof)
        stats = pusher.drained()
        assert stats["sent"] == 7 and stats["rejected"] == 1
        got = [i for request in server.taken for i in windows_of("pyroscope", request)]
        assert len(got) == 7 and got == [i for i in ids if i in got]


def test_one_that_does_not_fit_the_format_keeps_no_other_back(directory, pprof):
    p = pprof_write.Profile(hz=19)
    p.add([(("<module>", "/srv/app.py", 1), 3)], 5)
    good = directory / "good.pb.gz"
    good.write_bytes(p.pack())
    with fault_server.Server() as server, Pusher(directory, server.url, kind="otlp", **SLOW) as pusher:
        server.plan("503")
        pusher.put(3, good)
        pusher.put(1, pprof)
        pusher.put(3, good)
        stats = pusher.drained()
        assert stats["sent"] == 6 and stats["unfit"] == 1


def test_what_is_no_profile_is_not_held_back_for_ever(directory, pprof):
    with fault_server.Server() as server, Pusher(directory, server.url, kind="otlp") as pusher:
        pusher.put(1, pprof)
        assert pusher.drained()["unfit"] == 1
        assert not server.seen


@contextlib.contextmanager
def wrong(directory, **settings):
    pusher = Pusher(directory, settings.pop("url", "http://127.0.0.1:1"), **settings)
    try:
        yield pusher.first_line
    finally:
        pusher.__exit__()


def test_a_wrong_configuration_is_said(directory):
    with wrong(directory, kind="kafka") as line:
        assert line.startswith("wrong kind: put, pyroscope")
    with wrong(directory, url="http://u:p@h/") as line:
        assert "without user or password" in line
    with wrong(directory, timeout="5") as line:
        assert "1s to 1h" in line
