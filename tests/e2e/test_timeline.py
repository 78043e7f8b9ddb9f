# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""`trace --calls --format chrome`: what a viewer of timelines makes of it, against the programs' own logs."""
import collections
import json
import subprocess

import pytest

import test_crowd
from harness import PYPERF, Process
from test_trace_all import run_inside, three_pythons  # noqa: F401 (a fixture)
from tracing import PROGRAM, printed

pytestmark = pytest.mark.beside

TRACK_SHIFT = 22  # of greenlets, beside those of their thread

# Three greenlets, each of which is left in the middle of a call: no order of ends is that of one stack.
GREENLETS = """
import greenlet, sys
def step(name):
    greenlet.getcurrent().parent.switch()
    return "step"
def first(): return step("a") and "first"
def second(): return step("b") and "second"
def third(): return step("c") and "third"
def drive():
    all_ = [greenlet.greenlet(f) for f in (first, second, third)]
    for _ in range(3):
        for g in all_:
            g.dead or g.switch()
    return "drive"
print("ready", flush=True)
sys.stdin.readline()
drive()
print("done", flush=True)
sys.stdin.readline()
"""


def read(lines):
    """
    Each event with its call as a viewer pairs them, which knows no more than tracks: (pid, tid, "+" or "-", the event that
    begins it, the event itself); the names of tracks.
    """
    whole = json.loads("\n".join(lines))
    tracks, names, out, time = collections.defaultdict(list), {}, [], collections.defaultdict(float)
    for e in whole:
        track = e["pid"], e["tid"]
        if e["ph"] == "M":
            names[(*track, e["name"])] = e["args"]["name"]
            continue
        assert e["ph"] in "BE" and e["ts"] >= time[track], e
        time[track] = e["ts"]
        if e["ph"] == "B":
            tracks[track].append(e)
            out.append((*track, "+", e, e))
        else:
            call = tracks[track].pop()
            assert e["name"] == call["name"], (call, e)
            out.append((*track, "-", call, e))
    return out, names


def by_thread(events, path):
    """Events in functions of a file, like "+f", in order, by thread."""
    threads = collections.defaultdict(list)
    for pid, tid, sign, call, _ in events:
        if call["args"]["file"].endswith(path):
            threads[pid, tid % (1 << TRACK_SHIFT)].append(sign + call["name"])
    return threads


def test_calls(any_python):
    """Each call and each end, nested as they were."""
    truth, lines = printed(any_python, "chrome")
    events, names = read(lines)
    assert sorted(by_thread(events, str(PROGRAM)).values()) == truth
    for pid, tid, _, call, _ in events:
        assert tid < 1 << TRACK_SHIFT and names[pid, tid, "thread_name"] and names[pid, pid, "process_name"]
        assert call["args"]["line"] > 0


def test_many(three_pythons):  # noqa: F811
    """Of several processes of several interpreters, in one array."""
    options = ["--calls", "--format", "chrome", *test_crowd.FUNCTIONS]
    found = run_inside(test_crowd.FORMATTED, three_pythons[0], three_pythons[1], json.dumps(three_pythons), json.dumps(options))
    events, names = read(found["lines"])
    threads = by_thread(events, "/logged.py")
    for pid, command, log in zip(found["pids"], found["commands"], found["truth"]):
        truth = sorted([event.rpartition(":")[0] for event in thread] for thread in log)
        assert sorted(of for (p, _), of in threads.items() if p == pid) == truth
        assert names[pid, pid, "process_name"] == "logged.py" and names[pid, pid, "thread_name"] == command


def test_greenlets(any_python):
    """What overlaps without nesting has tracks of its own: each end is that of the function that returns there."""
    if subprocess.run([any_python, "-c", "import greenlet"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("greenlet is not installed for " + any_python)
    wanted = [word for name in ("step", "first", "second", "third", "drive") for word in ("-f", name)]
    with Process([any_python, "-c", GREENLETS]) as target:
        with subprocess.Popen([PYPERF, "trace", "-p", str(target.pid), "--calls", "--ret", "--force", "--format", "chrome",
                               *wanted], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as trace:
            assert "counting the " in trace.stderr.readline()
            target.process.stdin.write(b"go\n")
            assert target.read_line() == b"done\n"
            trace.terminate()
            out, _ = trace.communicate()
    events, names = read(out.splitlines())
    ended = [(call["name"], end["args"]["returned"]) for _, _, sign, call, end in events if sign == "-"]
    assert collections.Counter(ended) == {(f, "'%s'" % f): 3 if f == "step" else 1
                                          for f in ("step", "first", "second", "third", "drive")}
    tracks = {tid for _, tid, _, _, _ in events}
    assert len(tracks) == 4 and min(tracks) == target.pid, tracks
    assert {names[target.pid, tid, "thread_name"].rpartition(", ")[2] for tid in tracks - {target.pid}} == {
        "greenlet 1", "greenlet 2", "greenlet 3"}
