# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Several events in one window of the agent: files, store, page and pushes agree."""
import collections
import contextlib
import gzip
import http.server
import json
import re
import sqlite3
import subprocess
import sys
import threading

import pytest

import fault_server
import pprof_read
import test_push
from agent_runs import AGENT, SPIN, Backend, agents, get, service  # noqa: F401: fixtures
from harness import PYPERF, Process, clean_environment, poll

pytestmark = pytest.mark.beside

FAULTS = """
import mmap
def touch():
    area = mmap.mmap(-1, 512 * 4096)
    area.madvise(mmap.MADV_NOHUGEPAGE)  # each page is one fault, where the machine's huge pages are "always" too
    for page in range(512):
        area[page * 4096] = 1
    area.close()
"""


def test_windows_are_stored_and_pushed(agents, tmp_path):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Backend) as server, service("kappa"):
        server.bodies = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        config = "[store]\nenabled = yes\n[push.here]\nkind = put\nurl = http://127.0.0.1:%d/{id}.pb.gz\n" % server.server_port
        agent = agents(config)
        agent.wait_windows("kappa", 2)
        agent.reload()
        agent.wait_windows("kappa", 3)
        assert re.search(r'^pyperf_push\w*\{[^}]*"here"', get(agent, "/metrics").decode(), re.M)
        samples = agent.stop()
        server.shutdown()
    with contextlib.closing(sqlite3.connect(agent.dir / "store.db")) as db:
        assert db.execute("SELECT sum(samples), count(*) FROM window").fetchone() == (samples, len(agent.files()))
    pushed = {}
    for body in server.bodies:
        file = tmp_path / "pushed.pb.gz"
        file.write_bytes(body)
        pushed[body] = pprof_read.read(file)["totals"]["samples"]
    assert sum(pushed.values()) == samples


def otlp_totals(bodies, name):
    """Sums of a service by type, out of requests; each profile has an id of its own."""
    totals, ids = collections.Counter(), []
    for body in bodies:
        request = pprof_read.message(gzip.decompress(body), test_push.OTLP_REQUEST)
        strings = request["dictionary"]["strings"]
        for resource in request["resource_profiles"]:
            labels = {a["key"]: a["value"]["string_value"] for a in resource["resource"]["attributes"]}
            for profile in resource["scope_profiles"][0]["profiles"]:
                ids.append(profile["profile_id"])
                if labels["service.name"] == name:
                    totals[strings[profile["sample_type"]["type"]]] += sum(s["values"][0] for s in profile["samples"])
    assert len(set(ids)) == len(ids)
    return dict(totals)


def test_a_window_has_all_events(agents, tmp_path):
    """One window, one row of the store and one push have the columns of all events; names of the program tell whose they are."""
    script = FAULTS + (SPIN % {"name": "mu"}).replace("        mu_inner()", "        mu_inner()\n        touch()")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Backend) as server, \
            Process([sys.executable, "-c", script], env=clean_environment(OTEL_SERVICE_NAME="mu")):
        server.bodies, server.posted = [], []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        agent = agents("events = cpu-clock, page-faults\n[store]\nenabled = yes\n[push.here]\nkind = put\n"
                       "url = http://127.0.0.1:%d/{id}.pb.gz\n[push.there]\nkind = otlp\nmax-windows = 1\n"
                       "url = http://127.0.0.1:%d\n" % (server.server_port, server.server_port))
        agent.wait_windows("mu", 3)
        poll(lambda: sum(w.profile["totals"]["page-faults"] for w in agent.windows() if w.service == "mu") > 512, "page faults")
        assert json.loads(get(agent, "/api/services"))["values"] == ["cpu-clock", "page-faults"]
        pages = [get(agent, "/flame?service=mu" + value).decode() for value in ("", "&value=page-faults")]
        assert ['"many":"%s"' % noun in page for page in pages for noun in ("samples", "page faults")] == \
            [True, False, False, True]
        file = tmp_path / "one.pb.gz"
        file.write_bytes(get(agent, "/api/profile?service=mu&value=page-faults"))
        assert pprof_read.read(file)["types"][1] == "page-faults/count"
        file.write_bytes(get(agent, "/api/profile?service=mu"))
        assert len(pprof_read.read(file)["types"]) == 4
        samples = agent.stop()
        server.shutdown()
    windows = [w for w in agent.windows() if w.service == "mu"]
    assert len({(w.service, w.start) for w in agent.windows()}) == len(agent.windows())
    totals, faults = collections.Counter(), collections.Counter()
    for w in windows:
        assert w.profile["types"] == ["samples/count", "cpu/nanoseconds", "page-faults-samples/count", "page-faults/count"]
        assert w.profile["totals"]["samples"] == w.samples
        totals.update(w.profile["totals"])
        for sample in w.profile["samples"]:
            functions = {f["func"] for f in sample["stack"]}
            faults["touch" in functions] += sample["values"]["page-faults"]
            totals["spins"] += sample["values"]["samples"] * ("mu_inner" in functions)
    assert totals["page-faults"] > 512 and faults[True] > 0.9 * totals["page-faults"]
    assert totals["spins"] > 0.5 * totals["samples"]
    stored = tmp_path / "stored.pb.gz"
    report = subprocess.run([PYPERF, "report", "--store", agent.dir / "store.db", "--service", "mu", "-o", stored], capture_output=True, text=True)
    assert report.returncode == 0, report.stderr
    assert pprof_read.read(stored)["totals"]["page-faults"] == totals["page-faults"]
    pushed = 0
    for body in server.bodies:
        file = tmp_path / "pushed.pb.gz"
        file.write_bytes(body)
        pushed += pprof_read.read(file)["totals"]["samples"]
    assert pushed == samples
    assert otlp_totals(server.posted, "mu") == {t: totals[t] for t in ("samples", "page-faults")}


WAITER = """
import ctypes, os, select, sys, threading, time
def holder_sleeps():
    ctypes.PyDLL(None).usleep(20000)
def spins_and_waits():
    while True:
        pass
def sleeps_long():
    while True:
        time.sleep(0.2)
def holds():
    while True:
        holder_sleeps()
        time.sleep(0.01)
for f in (spins_and_waits, sleeps_long, holds):
    threading.Thread(target=f, daemon=True).start()
os.write(1, b"ready\\n")
select.select([0], [], [])
os._exit(0)
"""


SLEEPER = """
import os, select, sys
def naps():
    while not select.select([0], [], [], 0.1)[0]:
        pass
os.write(1, b"ready\\n")
naps()
"""


# What waits are called: the label __name__, sample types and the type of the period.
SERIES_TYPES = {
    "process_cpu": (["samples/count", "cpu/nanoseconds"], "cpu/nanoseconds"),
    "off_cpu": (["samples/count", "off_cpu/nanoseconds"], "off_cpu/nanoseconds"),
    "block": (["contentions/count", "delay/nanoseconds"], "contentions/count"),
    "mutex": (["contentions/count", "delay/nanoseconds"], "contentions/count"),
}


def series_totals(bodies, fields, name, path):
    """Seconds by __name__ of what was pushed for a service, and the functions in it; no id comes twice."""
    totals, functions, ids = collections.Counter(), collections.defaultdict(set), []
    for body in bodies:
        for series in pprof_read.message(body, fields)["series"]:
            labels = series["labels"] if isinstance(series["labels"], list) else series["labels"]["labels"]
            labels = {la["name"].decode(): la["value"].decode() for la in labels}
            sample, = series["samples"]
            ids.append(sample.get("id", len(ids)))
            if labels["service_name"] != name:
                continue
            path.write_bytes(sample["raw_profile"])
            read = pprof_read.read(path)
            types, period = SERIES_TYPES[labels["__name__"]]
            assert read["types"] == types and read["period_type"] == period, read["types"]
            totals[labels["__name__"]] += read["totals"][types[1].split("/")[0]] / 1e9
            functions[labels["__name__"]] |= {f["func"] for s in read["samples"] for f in s["stack"]}
    assert len(set(ids)) == len(ids)
    return totals, functions


def test_waits(agents, tmp_path):
    """Waits and the GIL beside the clock: in windows, store and page, and pushed under the names that backends have for them."""
    with contextlib.ExitStack() as stack:
        servers = {}
        for kind in ("pyroscope", "otlp", "put"):
            server = servers[kind] = stack.enter_context(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Backend))
            server.bodies, server.posted = [], []
            threading.Thread(target=server.serve_forever, daemon=True).start()
            stack.callback(server.shutdown)
        parca = stack.enter_context(fault_server.GrpcServer())
        stack.enter_context(Process([sys.executable, "-c", WAITER], env=clean_environment(OTEL_SERVICE_NAME="nu")))
        stack.enter_context(Process([sys.executable, "-c", SLEEPER], env=clean_environment(OTEL_SERVICE_NAME="xi")))
        agent = agents("events = cpu-clock, off-cpu, gil\n[budget]\ncpu = 50\n[store]\nenabled = yes\n" + "".join(
            "[push.%s]\nkind = %s\nmax-windows = 1\nurl = http://127.0.0.1:%d%s\n" % (
                kind, kind, server.server_port, "/{id}.pb.gz" if kind == "put" else "") for kind, server in servers.items())
            + "[push.parca]\nkind = parca\nurl = %s\n" % parca.url, window=2)
        agent.wait_windows("nu", 3)
        agent.wait_windows("xi", 2)
        assert json.loads(get(agent, "/api/services"))["values"] == ["cpu-clock", "off-cpu", "gil", "gil-held"]
        page = get(agent, "/flame?service=nu&value=gil-held").decode()
        assert "holder_sleeps" in page and "waits: sleep" in page
        samples = agent.stop()
    windows = [w for w in agent.windows() if w.service == "nu"]
    totals, waits = collections.Counter(), collections.Counter()
    for w in windows:
        assert w.profile["totals"]["samples"] == w.samples
        totals.update(w.profile["totals"])
        for sample in w.profile["samples"]:
            names = [f["func"] for f in sample["stack"]]
            waits["sleeps_long"] += sample["values"]["off-cpu"] * ("sleeps_long" in names and "[waits: sleep]" in names)
    elapsed = sum(w.duration for w in windows)
    assert 0.8 * elapsed < waits["sleeps_long"] < 1.1 * elapsed
    assert totals["gil"] > 0.2 * elapsed and totals["gil-held"] == pytest.approx(totals["gil"], rel=0.2)
    assert sum(w.samples for w in agent.windows()) == samples
    stored = tmp_path / "stored.pb.gz"
    report = subprocess.run([PYPERF, "report", "--store", agent.dir / "store.db", "--service", "nu", "-o", stored], capture_output=True, text=True)
    assert report.returncode == 0, report.stderr
    assert pprof_read.read(stored)["totals"]["off-cpu"] == totals["off-cpu"]
    sums = {"process_cpu": totals["cpu"], "off_cpu": totals["off-cpu"], "block": totals["gil"], "mutex": totals["gil-held"]}
    for bodies, fields in ((servers["pyroscope"].posted, test_push.PUSH_REQUEST),
                           ([request.body for request in parca.taken], test_push.WRITE_RAW_REQUEST)):
        pushed, functions = series_totals(bodies, fields, "nu", tmp_path / "series.pb.gz")
        assert pushed == {name: pytest.approx(ns / 1e9) for name, ns in sums.items()}
        assert "holder_sleeps" in functions["mutex"] and "sleeps_long" in functions["off_cpu"]
        assert "[waits: GIL]" in functions["block"] and "[waits: sleep]" not in functions["block"]
    otlp = otlp_totals(servers["otlp"].posted, "nu")
    assert otlp == {"samples": totals["samples"], "off_cpu": totals["off-cpu"], "gil": totals["gil"], "gil-held": totals["gil-held"]}


def test_waits_that_exclude_each_other(agents, tmp_path):
    for value, words in (("cpu-clock, off-cpu, wall", "exclude each other"), ("cpu-clock, growth", "pyperf-bpf memory"),
                         ("off-cpu", "cpu-clock or task-clock first"), ("cpu-clock, page-faults, off-cpu, gil", "counts as two")):
        file = tmp_path / "bad.conf"
        file.write_text("[agent]\nevents = %s\n" % value)
        done = subprocess.run([AGENT, "--config", file, "--check-config"], capture_output=True, text=True)
        assert done.returncode and ":2: events: " in done.stderr and words in done.stderr, done.stderr
    file.write_text("[agent]\nevents = cpu-clock, gil\n")
    printed = subprocess.run([AGENT, "--config", file, "--print-config"], capture_output=True, text=True, check=True).stdout
    file.write_text(printed)
    assert subprocess.run([AGENT, "--config", file, "--print-config"], capture_output=True, text=True, check=True).stdout == printed
