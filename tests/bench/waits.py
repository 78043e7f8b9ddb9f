# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What the events of waits cost, and how right they are: the part "waits" of scripts/bench.

switches  Pairs of Python processes answer each other through pipes, a pair on each of two CPUs at most, so often that the CPUs
          together switch between them 1,000, 10,000 and 100,000 times a second (or as often as they can). In each round they run
          alone and beside each tool in turn. BPF time is run_time_ns of all programs that a tool holds; "net" is without what
          the kernel needs to measure that, which is what it says of an empty program. perf has no BPF programs: its cost is
          seen in the switches only.
service   An HTTP server with a thread for each of four connections, a lock and SQLite, on one CPU with its client: how much more
          CPU time the same requests take of both, which is how much longer they take on a CPU of their own; right before and
          beside each tool. The median, and twice the standard error of the mean.
truth     A program that waits for one thing in each of its functions (tests/e2e/programs/waiting.py): the time off the CPU by
          its own clocks and the kernel's schedstat, and what the profile says.
timehist  The thread that differs most from `perf sched timehist`, which sees the same switches (tests/bench/timehist.py).
faults    A thread that waits for pages, against the same.
"""
import collections
import contextlib
import dataclasses
import json
import os
import signal
import statistics
import subprocess
import tempfile
import time

import profilers
import timehist
from runs import HERE, BenchError, Running, Target, Workload, bpf_objects, cpu_seconds, environment
from whole import spread

RATES = (1000, 10000, 100000)
HZ, FINE_HZ, FINEST_HZ = 99, 9999, 50000  # the usual one; steps so short that hardly any wait is drawn, nor any of a page
EVENTS = ("off-cpu", "wall", "gil", "wakers", "cpu-clock,off-cpu,gil")
SERVICE = Workload("service", "service", "4", family=True)
SETTLE_S = 1.0
WAITING = timehist.WAITING
# Function of WAITING -> what it waits for. Each group is a run of its own.
CALLS = {"sleeping": "sleep", "napping": "sleep", "locking": "lock", "piping": "pipe", "receiving": "net", "polling": "poll",
         "epolling": "epoll_wait"}
GROUPS = (CALLS, {"reading_disk": "disk"}, {"faulting": "page fault"}, {"spinning": "CPU"})

# Bursts of 10 ms; a round is two switches, a pause one. A rate that cannot be reached never pauses. Who is woken does not preempt:
# else a round would be two or three switches, by some microseconds.
PAIR = """
import os, sys, time
rate, cpu = int(sys.argv[1]), int(sys.argv[2])
os.sched_setaffinity(0, {cpu})
os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
a, b = os.pipe(), os.pipe()
read, write = os.read, os.write
def answer(out, into):
    while write(into, read(out, 1)): pass
if os.fork() == 0: answer(a[0], b[1])
os.write(1, b"ready\\n")
n = max(1, rate // 200)
at = time.monotonic()
while True:
    for _ in range(n):
        write(a[1], b"x"); read(b[0], 1)
    at = max(at + (2 * n + 1) / rate, time.monotonic() - 1)
    time.sleep(max(0, at - time.monotonic()))
"""


class Pairs:
    """Looks like a Target to a Profiler."""
    workload = Workload("pairs", "", "")

    def __init__(self, python, rate):
        cpus = sorted(os.sched_getaffinity(0))[:2]
        self.processes = [subprocess.Popen([*python, "-c", PAIR, str(rate // len(cpus)), str(cpu)], env=environment(),
                                           stdout=subprocess.PIPE, start_new_session=True) for cpu in cpus]
        self.pids = []
        for p in self.processes:
            p.stdout.readline()
            with open("/proc/%d/task/%d/children" % (p.pid, p.pid)) as f:
                self.pids += [p.pid, int(f.read())]
        self.pid = ",".join(map(str, self.pids))  # as -p takes them

    def switches(self):
        n = 0
        for pid in self.pids:
            with open("/proc/%d/status" % pid) as f:
                n += sum(int(line.split()[1]) for line in f if "ctxt_switches" in line)
        return n

    def close(self):
        for p in self.processes:
            os.killpg(p.pid, signal.SIGKILL)
            p.wait()
            p.stdout.close()


def bpf(pid):
    """(ns, runs) of all programs of a process until now."""
    programs = {i["prog_id"]: i for _, i in bpf_objects(pid) if "prog_type" in i}
    return tuple(sum(int(i.get(key, 0)) for i in programs.values()) for key in ("run_time_ns", "run_cnt"))


def beside(pairs, profiler, seconds):
    """The figures of one measurement, each for a second."""
    with contextlib.ExitStack() as stack:
        tool = profiler and stack.enter_context(contextlib.closing(Running(dataclasses.replace(profiler, settle_s=0), pairs, HZ)))
        time.sleep(profiler.settle_s if profiler else SETTLE_S)
        look = lambda: (time.monotonic(), pairs.switches(), *(bpf(tool.pid) if tool else (0, 0)), cpu_seconds(tool.pid) if tool else 0)
        before = look()
        time.sleep(seconds)
        took, switches, ns, runs, user = (b - a for a, b in zip(before, look()))
        lost = None
        if tool:
            cost = tool.cost([])
            tool.stop(cost)
            lost = losses([cost])
    return {"switches": switches / took, "bpf_ns": ns / took, "bpf_runs": runs / took, "user": user / took, "lost": lost}


def losses(costs):
    """None: the tool does not say."""
    if not all("counters" in c.result for c in costs):
        return None
    return sum(n for c in costs for name, n in c.result["counters"].items() if name.startswith("lost_") or name == "note_wait_full")


def measuring_ns(python):
    """What the kernel says of an empty program, at its best: else what is left of ours would be too little."""
    with Target(python, Workload("shallow", "shallow", "0"), 1) as target, \
            contextlib.closing(Running(profilers.empty(), target, 9999)) as empty:
        slices = target.slices(lambda: bpf(empty.pid))
    return min(s.bpf_ns / s.bpf_runs for s in slices if s.bpf_runs)


def row_of(found, alone, rate, name, empty_ns):
    """Of the rounds of one tool."""
    of = lambda f: spread([f(x) for x in found])
    lost = [x["lost"] for x in found if x["lost"] is not None]
    return {"of": "switches", "rate": rate, "name": name, "switches": of(lambda x: x["switches"]),
            "ratio": spread([x["switches"] / a["switches"] for x, a in zip(found, alone)]),
            "bpf": of(lambda x: x["bpf_ns"] / 1e9), "net": of(lambda x: (x["bpf_ns"] - empty_ns * x["bpf_runs"]) / 1e9),
            "each_ns": of(lambda x: x["bpf_ns"] / x["switches"]), "user": of(lambda x: x["user"]),
            "lost": sum(lost) if lost else None}


def in_rounds(measure, tools, count):
    """({tool: figures of each round}, {tool: why it has none}). The order turns, so that none is always the first."""
    found, failed = {t: [] for t in tools}, {}
    for i in range(count):
        for tool in (*tools[i % len(tools):], *tools[:i % len(tools)]):
            if tool in failed:
                continue
            try:
                found[tool].append(measure(tool))
            except BenchError as e:
                failed[tool] = str(e)
    return found, failed


def switches(python, rates, tools, count, seconds):
    empty_ns = measuring_ns(python)
    for rate in rates:
        with contextlib.closing(Pairs(python, rate)) as pairs:
            found, failed = in_rounds(lambda tool: beside(pairs, tool, seconds), [None, *tools], count)
        for tool, figures in found.items():
            name = tool.name if tool else "alone"
            if tool in failed:
                yield {"of": "switches", "rate": rate, "name": name, "failed": failed[tool]}
            else:
                yield row_of(figures, found[None], rate, name, empty_ns)


def cpu_of_a_lap(target, pids):
    before = sum(map(cpu_seconds, pids))
    laps = target.run()
    return (sum(map(cpu_seconds, pids)) - before) / len(laps)


def serving(target, pids, tool):
    """(CPU time of the same requests with a tool and without, before and after, - 1; what it lost)."""
    alone = cpu_of_a_lap(target, pids)
    with contextlib.closing(Running(tool, target, HZ)) as running:
        beside_tool = cpu_of_a_lap(target, pids)
        cost = running.cost([])
        running.stop(cost)
    alone += cpu_of_a_lap(target, pids)
    return beside_tool / (alone / 2) - 1, losses([cost])


def service(python, tools, count, seconds):
    # The speed of a virtual CPU drifts within seconds: many short rounds differ less than few long ones.
    with Target(python, SERVICE, seconds / 4) as target:
        with open("/proc/%d/task/%d/children" % (target.pid, target.pid)) as f:
            pids = [target.pid, int(f.read())]
        found, failed = in_rounds(lambda tool: serving(target, pids, tool), tools, count)
    for tool in tools:
        row = {"of": "service", "name": tool.name, "rounds": count}
        if tool in failed:
            yield {**row, "failed": failed[tool]}
            continue
        ratios, lost = zip(*found[tool])
        error = 2 * statistics.stdev(ratios) / len(ratios) ** 0.5 if len(ratios) > 1 else None
        yield {**row, "slowdown": {"median": statistics.median(ratios), "spread": error},
               "lost": None if None in lost else sum(lost)}


def told(path, truth):
    """Label -> Counter of seconds by reason, out of a profile as JSON."""
    with open(path) as f:
        d = json.load(f)
    labels = {int(tid): true["label"] for tid, true in truth.items()}
    found = collections.defaultdict(collections.Counter)
    for s in d["stacks"]:
        names = [d["frames"][i].get("function", "") for i in s["frames"]]
        label = labels.get(s["tid"])
        if label in names and names[-1].startswith("[waits: "):
            found[label][names[-1][len("[waits: "):-1]] += s["events"] / 1e9
    return found


def once(python, group, directory):
    """{label: (true seconds off the CPU or, of a CPU hog, in its queue; told; told of the reason itself)}."""
    ours, truth, cold = (os.path.join(directory, name) for name in ("x.json", "truth", "cold"))
    with open(cold, "wb") as f:
        f.write(os.urandom(1 << 24))
        os.fsync(f.fileno())
    program = [*python, str(WAITING), truth, *group]
    other = None
    if "spinning" in group:  # two hogs, one CPU
        pinned = ["taskset", "-c", str(max(os.sched_getaffinity(0)))]
        other = subprocess.Popen([*pinned, *python, str(WAITING), truth + ".other", "spinning"], env=environment())
        program = pinned + program
    try:
        subprocess.run([profilers.OURS, "-q", "-e", "off-cpu", "-F", str(FINE_HZ), "--threads", "--idle", "^$", "-o", ours, "--",
                        *program], env={**environment(), "WAITING_FILE": cold}, check=True)
    finally:
        if other:
            other.wait()
    with open(truth) as f:
        truth = json.load(f)
    got = told(ours, truth)
    for true in truth.values():
        label, reasons = true["label"], got[true["label"]]
        if label == "spinning":
            yield label, (true["run_delay"], reasons["CPU"], reasons["CPU"])
        else:
            yield label, (true["elapsed"] - true["cpu"] - true["run_delay"],
                          sum(s for reason, s in reasons.items() if reason != "CPU"), reasons[group[label]])


def truths(python, groups, count):
    for group in groups:
        found = collections.defaultdict(list)
        for _ in range(count):
            # Not in /tmp, which need not be on a disk.
            with tempfile.TemporaryDirectory(prefix="waits-", dir=os.path.dirname(profilers.OURS)) as directory:
                for label, figures in once(python, group, directory):
                    found[label].append(figures)
        for label, reason in group.items():
            true, said, own = (statistics.median(x[i] for x in found[label]) for i in range(3))
            yield {"of": "truth", "name": label, "reason": reason, "rounds": count, "true_s": true, "told_s": said, "reason_s": own,
                   "differs": spread([x[1] / x[0] - 1 for x in found[label]])}


def timehists(count, seconds):
    """The worst thread of each round."""
    if not profilers.find("perf"):
        yield {"of": "timehist", "name": "perf sched timehist", "failed": "perf is not installed"}
        return
    worst = []
    for _ in range(count):
        with tempfile.TemporaryDirectory() as directory:
            worst.append(timehist.compare(seconds, 999, directory)[1])
    yield {"of": "timehist", "name": "perf sched timehist", "rounds": count, "differs": spread(worst)}


def faults(count):
    """Interrupts of the disk take time from a thread that its clocks take for a wait; perf sees the switches, as we do."""
    if not profilers.find("perf"):
        return
    found = []
    for _ in range(count):
        with tempfile.TemporaryDirectory(prefix="waits-", dir=os.path.dirname(profilers.OURS)) as directory:
            found.append(timehist.compare_faults(FINEST_HZ, directory))
    yield {"of": "faults", "name": "faulting, against perf sched timehist", "rounds": count, "differs": spread(found)}


def rows(args, python, say, collector):
    tools, missing = profilers.of_waits(EVENTS[:1] if args.quick else EVENTS, args.otel, collector)
    yield from ({"of": "switches", "name": name, "failed": why} for name, why in missing.items())
    for rate in RATES[:1] if args.quick else RATES:
        say("waits: %d switches a second" % rate)
        yield from switches(python, [rate], tools, args.rounds, 2 * args.seconds)
    say("waits: a service")
    yield from service(python, tools, 1 if args.quick else 10 * args.rounds, args.seconds)
    say("waits: against the clocks of a program")
    yield from truths(python, GROUPS[:1] if args.quick else GROUPS, args.rounds)
    if not args.quick:
        say("waits: against perf sched timehist")
        yield from timehists(args.rounds, 6 * args.seconds)
        yield from faults(args.rounds)
