# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Waits that last longer than a window of the agent: each window has its part, against the program's own clock."""
import collections
import contextlib
import json
import os
import re
import subprocess
import time

import pytest

import pprof_read
from agent_runs import agents, get  # noqa: F401: fixtures
from harness import PYPERF, Process, clean_environment, poll
from test_filters import groups_of, hierarchy

pytestmark = pytest.mark.beside

WAITS = """
import json, sys, threading, time
go = threading.Event()
def for_ever(): time.sleep(1e6)
def first(): time.sleep(2.6)
def burns():
    end = time.thread_time() + 0.6
    while time.thread_time() < end: pass
def second(): time.sleep(1.7)
def works():
    true = {}
    go.wait()
    for f in (first, burns, second):
        begin = time.monotonic()
        f()
        true[f.__name__] = time.monotonic() - begin
    print(json.dumps(true), flush=True)
threads = [threading.Thread(target=f, daemon=True, name=f.__name__) for f in (for_ever, works)]
for t in threads: t.start()
print("ready", flush=True)
sys.stdin.readline()
go.set()
threads[1].join()
sys.stdin.readline()
"""

VICTIM = """
import time
def sleeps_until_killed():
    print("ready", flush=True)
    print(time.monotonic(), flush=True)
    time.sleep(1e6)
sleeps_until_killed()
"""

SLEEPERS = """
import sys, threading, time
def sleeper(): time.sleep(1e6)
for _ in range(200): threading.Thread(target=sleeper, daemon=True).start()
print("ready", flush=True)
sys.stdin.readline()
"""


def waited(profile):
    """
    Seconds off the CPUs by function, of all threads; each stack counts for all functions that are in it. "": asleep,
    but where was not read, for want of time.
    """
    sums = collections.Counter()
    for sample in profile["samples"]:
        names = {f["func"] for f in sample["stack"]}
        for name in names | ({""} if {"[stack-not-taken]", "[waits: sleep]"} <= names else set()):
            sums[name] += sample["values"]["off-cpu"] / 1e9
    return sums


def of_service(agent, name):
    """Windows of a service: their seconds, and what waited in each."""
    return [(w.duration / 1e9, waited(w.profile)) for w in agent.windows() if w.service == name]


def test_each_window_has_its_part(agents, any_python, tmp_path):
    agent = agents("events = cpu-clock, off-cpu\nsmall = 0\n[store]\nenabled = yes\n", window=1)
    with Process([any_python, "-c", WAITS], env=clean_environment(OTEL_SERVICE_NAME="omega")) as target, \
            Process([any_python, "-c", VICTIM], env=clean_environment(OTEL_SERVICE_NAME="psi")) as victim:
        born = float(victim.read_line())
        agent.wait_windows("omega", 2)
        target.process.stdin.write(b"go\n")
        begin = time.monotonic()
        (tmp_path / "live.pb.gz").write_bytes(get(agent, "/debug/pprof/profile?seconds=2"))
        live_s = time.monotonic() - begin
        true = json.loads(target.read_line())
        victim.process.kill()  # in the middle of a window, or at least not at its border
        victim.process.wait()
        life = time.monotonic() - born
        victim.process.returncode = 0  # as was to be
        end = time.time_ns()
        poll(lambda: any(w.start > end for w in agent.windows() if w.service == "omega"), "a window behind all of it")
        metrics = get(agent, "/metrics").decode()
        agent.stop()
    windows = of_service(agent, "omega")
    sums = sum((w for _, w in windows), collections.Counter())
    # All of each wait, once.
    whole = sum(seconds for seconds, _ in windows[1:-1]) + true["first"] + true["second"]
    assert sum(parts["[waits: sleep]"] for _, parts in windows[1:-1]) == pytest.approx(whole, rel=0.03), (true, windows)
    for name in ("first", "second"):
        assert sums[name] <= 1.03 * true[name] + 0.03 and sums[name] + sums[""] >= 0.97 * true[name] - 0.03, (name, true, windows)
    # What a thread burns is in no wait, but for its time in the run queue: brief waits, of which some are drawn.
    queued = max(true["burns"] - 0.6, 0)
    assert sums["burns"] <= queued + 4 * (queued / 99) ** 0.5 + 0.05, (sums, true)
    # No window has more of a thread than it lasts; one in which a thread sleeps all the time has as much.
    for seconds, parts in windows:
        for name in ("for_ever", "first", "second"):
            assert parts[name] <= 1.03 * seconds + 0.05, (name, windows)
    for seconds, parts in windows[1:-1]:
        assert parts["for_ever"] + parts[""] >= 0.95 * seconds - 0.05, windows
    assert sum(parts["first"] + parts[""] > 0.05 for _, parts in windows) >= 3, windows
    # From its first instruction to its death, in the window of which it died.
    psi = sum((w for _, w in of_service(agent, "psi")), collections.Counter())
    assert psi["[waits: sleep]"] == pytest.approx(life, rel=0.03, abs=0.05), (life, of_service(agent, "psi"))
    assert psi["sleeps_until_killed"] > 0, of_service(agent, "psi")
    # With the stack and the reason.
    for w in agent.windows():
        for sample in w.profile["samples"] if w.service == "omega" else ():
            names = [f["func"] for f in sample["stack"]]
            assert "for_ever" not in names or not sample["values"]["off-cpu"] or "[waits: sleep]" in names, names
    assert sums["for_ever"] > 0, windows
    # A profile on demand begins and ends elsewhere.
    live = waited(pprof_read.read(tmp_path / "live.pb.gz"))
    assert 1.9 <= live["for_ever"] + live[""] and live["for_ever"] <= live_s + 0.1, (live, live_s)
    assert int(re.search(r"^pyperf_open_waits_total (\d+)", metrics, re.M)[1]) >= len(windows)
    # The store has the same.
    stored = tmp_path / "stored.pb.gz"
    report = subprocess.run([PYPERF, "report", "--store", agent.dir / "store.db", "--service", "omega", "-o", stored],
                            capture_output=True, text=True, check=False)
    assert report.returncode == 0, report.stderr
    assert waited(pprof_read.read(stored))["first"] == pytest.approx(sums["first"])


BRIEF_VICTIM = """
import time
print(time.monotonic(), flush=True)
time.sleep(1e6)
"""


def test_killed_behind_a_border(agents, any_python):
    """What sleeps on when a window ends, and is killed while that window is counted, has all of its life in both."""
    agent = agents("events = cpu-clock, off-cpu\nsmall = 0\n", window=1)
    with contextlib.ExitStack() as stack:
        victims = []
        for _ in range(60):
            victims.append(stack.enter_context(subprocess.Popen([any_python, "-S", "-c", BRIEF_VICTIM],
                                                                env=clean_environment(OTEL_SERVICE_NAME="victims"),
                                                                stdout=subprocess.PIPE)))
            stack.callback(victims[-1].kill)
        life = [-float(victim.stdout.readline()) for victim in victims]
        agent.wait_windows("victims", 2)
        for border in range(3):
            second = int(time.time()) + 1  # windows begin there
            for i in range(20 * border, 20 * border + 20):
                time.sleep(max(second + 0.003 * (i - 20 * border) - time.time(), 0))
                victims[i].kill()
                life[i] += time.monotonic()
                victims[i].wait()
        agent.stop()
    slept = collections.Counter()
    for w in agent.windows():
        for sample in w.profile["samples"] if w.service == "victims" else ():
            if "[waits: sleep]" in {f["func"] for f in sample["stack"]}:
                slept[sample["labels"]["pid"]] += sample["values"]["off-cpu"] / 1e9
    assert [slept[victim.pid] for victim in victims] == pytest.approx(life, abs=0.3)


NAPS = """
import os, threading, time
def for_ever(): time.sleep(1e6)
def naps():
    while True: time.sleep(0.05)
for f in (for_ever, naps): threading.Thread(target=f, daemon=True).start()
os.write(1, b"ready\\n")
os.read(0, 1)
os._exit(0)
"""


def test_control_group(agents, any_python):
    """Waits that go on count in the chosen group, and in no other one."""
    with groups_of(2 if hierarchy(2) else 1, "pyperf-e2e-waits-%d" % os.getpid()) as (group,), \
            Process([any_python, "-c", NAPS], env=clean_environment(OTEL_SERVICE_NAME="inside")) as inside, \
            Process([any_python, "-c", NAPS], env=clean_environment(OTEL_SERVICE_NAME="outside")):
        (group / "cgroup.procs").write_text(str(inside.pid))
        agent = agents("events = cpu-clock, off-cpu\nsmall = 0\ncgroup = %s\n" % group, window=1)
        agent.wait_windows("inside", 4)
        agent.stop()
    windows = of_service(agent, "inside")
    for seconds, parts in windows[1:-1]:
        assert parts["for_ever"] + parts[""] >= 0.95 * seconds - 0.05 and parts["for_ever"] <= 1.03 * seconds + 0.05, windows
        assert parts["naps"] > 0, windows
    assert not of_service(agent, "outside")


def test_stacks_beyond_the_budget(agents, any_python):
    """What there is no time for counts all the same, with its reason; /metrics says how many stacks were not read."""
    agent = agents("events = cpu-clock, off-cpu\nsmall = 0\n[budget]\ncpu = 0.5\n", window=1)
    with Process([any_python, "-c", SLEEPERS], env=clean_environment(OTEL_SERVICE_NAME="many")):
        agent.wait_windows("many", 4)
        metrics = get(agent, "/metrics").decode()
        # Not stop(): one sample of a user who costs too much stands for several.
    windows = of_service(agent, "many")
    for seconds, parts in windows[1:-1]:
        assert parts["[waits: sleep]"] == pytest.approx(200 * seconds, rel=0.05), windows
    # The first window has some time to spare, the others hardly any; other programs of the machine take part of it.
    unread = sum(parts["[stack-not-taken]"] for _, parts in windows)
    read = sum(parts["sleeper"] for _, parts in windows)
    assert 0 < read < unread, windows
    assert int(re.search(r"^pyperf_open_waits_stack_not_read_total (\d+)", metrics, re.M)[1]) > 200, metrics
