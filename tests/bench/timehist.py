#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Compare the waits of `-e wall` with those of `perf sched timehist`, thread by thread, in the same run.

Threads of one program sleep, wait for a queue, a lock, a pipe and the GIL, and compete for a CPU, while perf records all switches of
the machine and the profiler runs beside it. Both see each thread's whole life. Prints for each thread the seconds that it was off
its CPU, by both, and by how much they differ. "wait" is what a thread waited for something, "queue" for a CPU.

perf is exact as long as no CPU is idle. On an idle machine it loses an eighth of this program's switches, all of them those from
the idle task to a thread (Linux 6.18, perf 6.1). So a loop of the lowest scheduling class spins on each CPU.

Usage: tests/bench/timehist.py [-d SECONDS] [-F HZ]

Needs root, perf, and a built program (make). Exit status 1: a thread's time off its CPU differs by more than 1%.
"""
import argparse
import collections
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

import runs  # noqa: E402

ROOT = runs.HERE.parents[1]
PYPERF = os.environ.get("PYPERF", str(ROOT / ".output" / "pyperf-bpf"))
WAITING = runs.HERE.parent / "e2e/programs/waiting.py"
MOST = 0.01  # of difference

PROGRAM = """
import hashlib, os, queue, sys, threading, time
if os.fork(): sys.exit(os.wait()[1]) # both see the child from its first instruction
end = time.monotonic() + float(sys.argv[1])
jobs, lock, (out, into) = queue.Queue(), threading.Lock(), os.pipe()
def goes_on(): return time.monotonic() < end
def sleeps():
    while goes_on(): time.sleep(0.03)
def produces():
    while goes_on(): time.sleep(0.02); jobs.put(1)
    jobs.put(None)
def consumes():
    while jobs.get(): pass
def locks():
    while goes_on():
        with lock: time.sleep(0.015)
        time.sleep(0.001)
def writes():
    while goes_on(): os.write(into, b"x"); time.sleep(0.01)
    os.close(into)
def reads():
    while os.read(out, 1): pass
def wants_the_gil():
    while goes_on(): sum(range(1000))
def wants_a_cpu():
    while goes_on(): hashlib.sha256(bytes(100000)).digest()
parts = [sleeps, produces, consumes, locks, locks, writes, reads] + 2 * [wants_the_gil] + 2 * [wants_a_cpu]
threads = [threading.Thread(target=f, name=f.__name__) for f in parts]
for t in threads: t.start()
for t in threads: t.join()
"""

SPIN = """
import os, sys
os.sched_setaffinity(0, [int(sys.argv[1])])
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
while os.getppid() != 1: pass # not beyond the measurement
"""


@contextlib.contextmanager
def no_cpu_idle():
    """Keeps each CPU busy with a loop that runs only when nothing else wants to (SCHED_IDLE)."""
    loops = []
    try:
        for cpu in os.sched_getaffinity(0):
            loops.append(subprocess.Popen([sys.executable, "-c", SPIN, str(cpu)]))
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def record(program, hz, work, **env):
    """Runs it beside both. Returns the paths of what they wrote."""
    data, ours = os.path.join(work, "sched.data"), os.path.join(work, "wall.json")
    profile = [PYPERF, "-q", "-e", "wall", "-F", str(hz), "--threads", "--idle", "^$", "-o", ours]
    # perf records before it begins its command, and until that ends.
    with no_cpu_idle():
        subprocess.run(["perf", "sched", "record", "-q", "-o", data, *profile, "--", sys.executable, *program],
                       check=True, env={**runs.environment(), **env}, stdout=subprocess.DEVNULL)
    return data, ours


def theirs(data):
    """Thread -> seconds off its CPU, by perf."""
    lines = subprocess.run(["perf", "sched", "timehist", "-i", data], capture_output=True, text=True, check=True).stdout
    off = collections.Counter()
    for tid, wait in re.findall(r"\[(\d+)(?:/\d+)?\] +([\d.]+) +[\d.]+ +[\d.]+ *$", lines, re.MULTILINE):
        off[int(tid)] += float(wait) / 1000
    return off


def ours(path):
    """Thread -> [name, seconds of waits, seconds in run queues]."""
    with open(path) as f:
        d = json.load(f)
    child = collections.Counter(t["process"] for t in d["threads"]).most_common(1)[0][0]
    threads = {t["tid"]: [t["name"], 0.0, 0.0] for t in d["threads"] if t["process"] == child}
    for s in d["stacks"]:
        leaf = d["frames"][s["frames"][-1]].get("function", "")
        if leaf.startswith("[waits: ") and s["tid"] in threads:
            threads[s["tid"]][2 if leaf == "[waits: CPU]" else 1] += s["events"] / 1e9
    return threads


def compare(seconds, hz, work):
    """(a line for each thread, by how much the one that differs most does)."""
    data, path = record(["-c", PROGRAM, str(seconds)], hz, work)
    exact, threads = theirs(data), ours(path)
    lines, worst = [], 0.0
    for tid, (name, wait, queue) in sorted(threads.items()):
        off = exact.get(tid, 0)
        differs = (wait + queue) / off - 1 if off else 0
        worst = max(worst, abs(differs))
        lines.append("%-14s %8.3f %7.3f %7.3f %7.3f  %+6.2f%%" % (name, off, wait + queue, wait, queue, 100 * differs))
    return lines, worst


def compare_faults(hz, work):
    """By how much the time off the CPU differs of a thread that does nothing but touch pages of a cold file."""
    cold, truth = os.path.join(work, "cold"), os.path.join(work, "truth")
    with open(cold, "wb") as f:
        f.write(os.urandom(1 << 24))
        os.fsync(f.fileno())
    data, path = record([str(WAITING), truth, "faulting"], hz, work, WAITING_FILE=cold)
    with open(truth) as f:
        [tid] = map(int, json.load(f))
    _, wait, queue = ours(path)[tid]
    return (wait + queue) / theirs(data)[tid] - 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-d", type=float, default=10, metavar="SECONDS")
    parser.add_argument("-F", type=int, default=999, metavar="HZ")
    o = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        lines, worst = compare(o.d, o.F, work)
    print("thread           perf s  ours s    wait   queue  differs", *lines, sep="\n")
    print("worst: %.2f%%" % (100 * worst))
    return worst > MOST


if __name__ == "__main__":
    sys.exit(main())
