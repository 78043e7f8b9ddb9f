# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What a traced call costs: the part "trace" of scripts/bench.

A program calls a small Python function again and again, on one CPU. Two of them run in turn, a lap each: one that nothing
looks at, and one that a tool traces. The difference of their own CPU time, which has the traps and the BPF programs in it,
divided by the calls, is the cost of a call: the median of the rounds, and half of the distance between their quartiles.
kernel.bpf_stats is off meanwhile; laps of their own tell the time of the BPF programs, as the kernel measures it, and how
often they ran. What the tool's process used itself, until it slept again, is "user".

The bare trap is an empty program at the same places of the interpreter (bench_trap.c).
"""
import contextlib
import dataclasses
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Callable

import profilers
from runs import (LAST_CPU, PATIENCE, BenchError, bpf_objects, by_number, cpu_seconds, end, environment, interpreters,
                  version_of)

VERSIONS = ("3.8", "3.9", "3.11", "3.12", "3.13", "3.14")
LEAST_ROUNDS = 7
CALLS = 20000  # of a lap
STACKED_CALLS = 4000  # whose events are so large that more of them would not fit the ring
WARM_LAPS = 3
IDLE_S = 0.03  # whoever used no CPU for so long has done all that there was

# Reads "HOW CALLS" and answers with the CPU time of so many calls, in seconds.
PROGRAM = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
sys.path.append(sys.argv[2])

def callee(x):
    return x

def caller(n):
    for i in range(n):
        callee(i)

counts = {}

def note(frame, event, arg):
    if event == "call":
        counts[frame.f_code] = counts.get(frame.f_code, 0) + 1

def note_code(code, offset):
    counts[code] = counts.get(code, 0) + 1

def begin(how):
    if how == "cProfile":
        import cProfile
        profile = cProfile.Profile()
        profile.enable()
        return profile.disable
    if how == "setprofile":
        sys.setprofile(note)
        return lambda: sys.setprofile(None)
    if how == "settrace":
        sys.settrace(note)
        return lambda: sys.settrace(None)
    if how == "monitoring":
        m = sys.monitoring
        m.use_tool_id(3, "bench")
        m.register_callback(3, m.events.PY_START, note_code)
        m.set_events(3, m.events.PY_START)
        return lambda: (m.set_events(3, 0), m.free_tool_id(3))
    if how == "viztracer":
        from viztracer import VizTracer
        tracer = VizTracer(verbose=0)
        tracer.start()
        return lambda: (tracer.stop(), tracer.clear())
    return lambda: None

print("ready", flush=True)
for line in sys.stdin:
    how, n = line.split()
    finish = begin(how)
    at = time.process_time()
    caller(int(n))
    at = time.process_time() - at
    finish()
    print(at, flush=True)
"""


@dataclasses.dataclass(frozen=True)
class Tool:
    """argv(target, the breakpoints of ours): what is started beside the program. Without it `how` is what the program does
    itself. `begins`: what it says when it is at work; `limit`: the most that a call may cost, in us."""
    name: str
    argv: Callable = None
    how: str = "plain"
    begins: str = "Ctrl-C ends it"
    calls: int = CALLS
    limit: float = None
    works: Callable = lambda python: True


def ours(*options, **more):
    return Tool(" ".join(["trace", *options]), lambda target, places: [
        profilers.OURS, "trace", "-v", "--force", "-p", str(target.pid), *options], **more)


def trap():
    """An empty program where calls are counted."""
    helper = profilers.helper("bench_trap")

    def argv(target, places):
        if not places:
            raise BenchError("where pyperf-bpf has its breakpoints is not known")
        seen = "/proc/%d/root%s" % (target.pid, places[0])
        return [helper, str(target.pid), seen if os.path.exists(seen) else places[0], *places[1:]]

    return Tool("the bare trap", argv, begins="ready")


def bpftrace():
    program = profilers.find("bpftrace")
    return Tool("bpftrace usdt", lambda target, places: [
        program, "-p", str(target.pid), "-e", "usdt:%s:python:function__entry { @[str(arg1)] = count(); }" % target.file],
                begins="Attaching", works=lambda python: program and python.has_probes)


def static_probe():
    return Tool("trace -e usdt", lambda target, places: [
        profilers.OURS, "trace", "-v", "--force", "-p", str(target.pid), "-e", "usdt:%s:python:function__entry" % target.file],
                works=lambda python: python.has_probes)


def inside(how, name=None, least=""):
    """What the program does itself."""
    return Tool(name or how, how=how, works=lambda python: not least or by_number(python.version) >= by_number(least))


def viztracer():
    return Tool("VizTracer", how="viztracer", works=lambda python: python.imports("viztracer"))


COUNTED, TIMED, REFUSED = 0.8, 1.5, 0.6


def tools():
    """In the order of the table."""
    return [
        ours(limit=COUNTED),
        ours("-f", "nobody", limit=REFUSED),
        ours("--hist", limit=TIMED),
        ours("--hist", "-f", "callee", limit=TIMED),
        ours("--hist", "-f", "nobody"),
        ours("--calls", "-f", "callee", limit=TIMED),
        ours("--hist", "--from", "caller"),
        ours("--hist", "--from", "nobody"),
        ours("--hist", "--slow", "50ms", "-f", "callee", calls=STACKED_CALLS),
        ours("--hist", "--slow", "50ms", "-f", "nobody"),
        trap(),
        static_probe(), bpftrace(),
        inside("cProfile"), inside("setprofile", "sys.setprofile"), inside("settrace", "sys.settrace"),
        inside("monitoring", "sys.monitoring", "3.12"), viztracer(),
    ]


# ---- interpreters --------------------------------------------------------------------------------

class Python:
    """A command, and what it is."""

    def __init__(self, version, command, file):
        self.version, self.command, self.file = version, command, str(file)
        self.has_probes = b"function__entry" in Path(file).read_bytes()

    @property
    def minor(self):
        return self.version.rpartition(".")[0]

    @property
    def packages(self):
        """What --install-peers has installed for it."""
        return str(profilers.PEERS / ("python" + self.minor))

    def imports(self, module):
        return profilers.works([*self.command, "-c", "import sys; sys.path.append(%r); import %s" % (self.packages, module)])


def install():
    """VizTracer for each interpreter that there is a wheel for, from PyPI."""
    for python in pythons(None):
        profilers.works([sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--upgrade", "--target",
                         python.packages, "--python-version", python.minor, "--only-binary=:all:", "viztracer"])


def of_a_root(minor):
    """One of a test root; None: there is none. With the libraries of this system if it takes them: bpftrace does not find
    the arguments of a probe behind chroot."""
    inside, file = profilers.in_a_root(minor)
    for command in (("env", "PYTHONHOME=%s" % file.parents[1], str(file)), inside) if inside else ():
        version = version_of(*command)
        if version:
            return Python(version, command, file)
    return None


def pythons(wanted):
    """The newest of each version of VERSIONS; one with static probes before one without."""
    found = [Python(version, command, command[0]) for version, command in interpreters()
             if version.rpartition(".")[0] in VERSIONS]
    best = {p.minor: p for p in sorted(found, key=lambda p: (p.has_probes, by_number(p.version)))}
    for minor in VERSIONS:
        p = None if minor in best and best[minor].has_probes else of_a_root(minor)
        if p and (minor not in best or p.has_probes):
            best[minor] = p
    return [best[minor] for minor in VERSIONS if minor in best and best[minor].version.startswith(wanted or "")]


# ---- one measurement -----------------------------------------------------------------------------

class Calls:
    """The program."""

    def __init__(self, python):
        self.file = python.command[-1]  # as it sees it itself
        self.process = subprocess.Popen([*python.command, "-c", PROGRAM, str(LAST_CPU), python.packages], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, env=environment())
        self.pid = self.process.pid
        if self.process.stdout.readline() != "ready\n":
            self.close()
            raise BenchError("%s: the program does not run" % python.version)

    def lap(self, how, calls):
        """CPU time of a call, in us."""
        self.process.stdin.write("%s %d\n" % (how, calls))
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise BenchError("the program died")
        return 1e6 * float(answer) / calls

    def close(self):
        self.process.stdin.close()
        end(self.process, 10)
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Beside:
    """A tool at work."""

    def __init__(self, tool, target, places):
        self.name, self.log = tool.name, tempfile.TemporaryFile("w+")
        self.pid = None
        if not tool.argv:
            return
        # Its tables and events go nowhere: what it says of itself is on stderr, but for one that says it on stdout.
        out = subprocess.DEVNULL if tool.begins == Tool.begins else self.log
        self.process = subprocess.Popen(tool.argv(target, places), stdin=subprocess.PIPE, stdout=out, stderr=self.log,
                                        env=environment())
        self.pid = self.process.pid
        deadline = time.monotonic() + PATIENCE
        while tool.begins not in self.said():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.close()
                raise BenchError(self.last[-300:].strip() or "it does not begin")
            time.sleep(0.01)

    def said(self):
        self.log.seek(0)
        self.last = self.log.read()
        return self.last

    def cpu(self):
        return cpu_seconds(self.pid) if self.pid else 0

    def idle(self):
        """Waits until it has done all that there was."""
        before, deadline = self.cpu(), time.monotonic() + PATIENCE
        while self.pid and time.monotonic() < deadline:
            time.sleep(IDLE_S)
            now = self.cpu()
            if now - before < IDLE_S / 100:
                break
            before = now

    def bpf(self):
        """(ns, runs) of all its BPF programs."""
        programs = {i["prog_id"]: i for _, i in bpf_objects(self.pid) if "prog_type" in i} if self.pid else {}
        return tuple(sum(int(i.get(key, 0)) for i in programs.values()) for key in ("run_time_ns", "run_cnt"))

    def close(self):
        if self.pid and self.process.poll() is None:
            self.process.stdin.close()
            self.process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(PATIENCE)
        if self.pid:
            end(self.process)
            self.said()
        self.log.close()


@contextlib.contextmanager
def bpf_stats(on):
    """Whether the kernel times BPF programs; as before at the end."""
    switch = Path("/proc/sys/kernel/bpf_stats_enabled")
    before = switch.read_text()
    switch.write_text("1" if on else "0")
    try:
        yield
    finally:
        switch.write_text(before)


def places_in(said):
    """[file, offset ...] of the breakpoints that ours has told."""
    found = re.findall(r"breakpoint \d+ at (0x[0-9a-f]+) in (.+)$", said, re.M)
    return [found[0][1], *(offset for offset, _ in found)] if found else []


def lost(said):
    found = re.search(r"(\d+) events were lost", said)
    return int(found[1]) if found else 0


def spread(values):
    """The median, and half of the distance between the quartiles."""
    if len(values) < 2:
        return {"median": values[0], "spread": 0}
    quarters = statistics.quantiles(values, n=4, method="inclusive")
    return {"median": quarters[1], "spread": (quarters[2] - quarters[0]) / 2}


def bpf_of_a_lap(target, tool, beside):
    """(ns, runs) of BPF programs. Others may switch kernel.bpf_stats off at the same time."""
    ns = ran = 0
    for _ in range(3 if tool.argv else 0):
        with bpf_stats(True):
            before = beside.bpf()
            target.lap(tool.how, tool.calls)
            ns, ran = (b - a for a, b in zip(before, beside.bpf()))
        if ran >= tool.calls:
            break
    return ns, ran


def measure(tool, plain, python, places, rounds):
    """(the row of a tool, what it said)"""
    costs, users, alone = [], [], []
    with Calls(python) as target, contextlib.closing(Beside(tool, target, places)) as beside:
        with bpf_stats(False):
            for _ in range(WARM_LAPS):
                target.lap(tool.how, tool.calls)
                beside.idle()
            for _ in range(rounds):
                alone.append(plain.lap("plain", tool.calls))
                before = beside.cpu()
                costs.append(target.lap(tool.how, tool.calls) - alone[-1])
                beside.idle()
                users.append(1e6 * (beside.cpu() - before) / tool.calls)
        ns, ran = bpf_of_a_lap(target, tool, beside)
    if tool.argv and not ran:
        raise BenchError("its breakpoints are not hit")
    return {"tool": tool.name, "python": python.version, "rounds": rounds, "limit": tool.limit, "cost": spread(costs),
            "alone": spread(alone), "user": spread(users) if tool.argv else None,
            "bpf_ns": ns / tool.calls if ran else None, "runs": ran / tool.calls if ran else None,
            "lost": lost(beside.last) if tool.argv else 0}, beside.last if tool.argv else ""


def rows(args, say):
    wanted = [t for t in tools() if not args.quick or t.name in ("trace", "the bare trap", "cProfile")]
    rounds = 3 if args.quick else max(LEAST_ROUNDS, 3 * args.rounds)
    for python in pythons(args.python)[-1 if args.quick else 0:]:
        say("trace: CPython %s" % python.version)
        places = []
        with Calls(python) as plain:
            for tool in wanted:
                if not tool.works(python):
                    continue
                try:
                    row, said = measure(tool, plain, python, places, rounds)
                    if tool is wanted[0]:  # it has none but where functions begin
                        places = places_in(said)
                    yield row
                except BenchError as e:
                    yield {"tool": tool.name, "python": python.version, "failed": " ".join(str(e).split())}
