# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""One target, one profiler beside it, and what both of them cost meanwhile.

A Target does laps (workload.py) while a Profiler (profilers.py) may be attached. What is measured is
asked of the kernel: CPU clocks and /proc of the profiler, statistics of its BPF programs. Each of the
processes started here ends by itself, and is killed by its number at the latest in close().
"""
import contextlib
import dataclasses
import glob
import json
import os
import platform
import re
import resource
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
WORKLOAD = (HERE / "workload.py").read_text()
PATIENCE = 60
FEW = 5  # laps
SLICE_S = 0.05      # the machine may change its speed from one to the next
FULL_SPEED = 1.15   # times what the speed test took at its best
SPEEDY = 0.1        # of the time, at full speed: else what was measured is the machine
SPEED_LOOPS, SPEED_FIRST = 20, 200
ALL_CPUS = sorted(os.sched_getaffinity(0))
LAST_CPU = ALL_CPUS[-1]


class BenchError(Exception):
    """What cannot be measured, and why."""


def end(process, patience=5):
    """Ends a process of ours for sure."""
    if process.poll() is None:
        process.kill()
    process.wait(patience)


def environment():
    return {**{k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "DEBUGINFOD"))},
            "LC_ALL": "C.UTF-8"}


# ---- this machine --------------------------------------------------------------------------------

def version_of(*python):
    """What the command says; None: it does not run."""
    run = subprocess.run([*python, "-c", "import sys; print('%d.%d.%d' % sys.version_info[:3])"],
                         capture_output=True, text=True)
    return run.stdout.strip() if run.returncode == 0 else None


def by_number(version):
    return [int(n) for n in version.split(".")]


def interpreters():
    """[(version, [path])] of this machine, the oldest first."""
    found = {}
    for pattern in ("/usr/bin/python[23].[0-9]*", os.path.expanduser("~/.pyenv/versions/*/bin/python")):
        for path in sorted(glob.glob(pattern)):
            if re.search(r"python(\d\.\d+)?$", path) and (version := version_of(path)):
                found.setdefault(version, [os.path.realpath(path)])
    return sorted(found.items(), key=lambda item: by_number(item[0]))


def machine():
    cpu = re.search(r"^model name\s*: (.*)$", open("/proc/cpuinfo").read(), re.M)
    return {"cpu": cpu[1] if cpu else platform.machine(), "cpus": os.cpu_count(),
            "kernel": platform.release().split("-")[0], "load": os.getloadavg()[0]}


# ---- targets -------------------------------------------------------------------------------------

@dataclasses.dataclass(frozen=True)
class Workload:
    """What to run: a function of workload.py and its argument."""
    name: str
    function: str
    size: str
    family: bool = False    # has children
    pinned: bool = True     # runs on one CPU only
    text: str = ""


def mean_lap(laps):
    """Of the laps during which the target kept its CPU, if they are a tenth at least. What pauses
    the target on purpose does not count as preemption; samplers in interrupts do not either."""
    kept = [seconds for seconds, preempted in laps if not preempted]
    if 10 * len(kept) < len(laps):
        kept = [seconds for seconds, _ in laps]
    return statistics.fmean(kept)


def fastest_loop():
    """ns, of some of 10 us each: no interrupt is in the shortest, and no sample."""
    took = []
    for _ in range(SPEED_LOOPS):
        begin, total = time.perf_counter_ns(), 0
        for i in range(500):
            total += i
        took.append(time.perf_counter_ns() - begin)
    return min(took)


class Speed:
    """Of this machine. Whatever shares a core with a virtual CPU makes it half as fast, for a tenth of a second or
    for minutes, and nothing but a loop of known length tells."""

    def __init__(self):
        self.best = float("inf")

    def test(self, cpus=(LAST_CPU,)):
        """Of the fastest of the CPUs: one that was idle until now is slow at first."""
        before, took = os.sched_getaffinity(0), []
        for cpu in cpus:
            os.sched_setaffinity(0, {cpu})
            took.append(fastest_loop())
        os.sched_setaffinity(0, before)
        self.best = min(self.best, *took)
        return min(took)

    def calibrate(self):
        for _ in range(SPEED_FIRST):
            self.test()
            time.sleep(0.005)


SPEED = Speed()  # one machine: what it can do is known the better the longer it was seen


@dataclasses.dataclass(frozen=True)
class Slice:
    """Some laps that follow each other."""
    lap_s: float            # mean
    seconds: float
    bpf_ns: int = 0
    bpf_runs: int = 0
    speed_ns: float = 0     # of the machine, the worse of before and after


def is_full(speed_ns):
    return speed_ns <= FULL_SPEED * SPEED.best


def at_full_speed(slices):
    return [s for s in slices if is_full(s.speed_ns)]


def fastest(slices):
    """Those at full speed, or all if there is none."""
    return at_full_speed(slices) or slices


def share_at_full_speed(slices):
    return sum(s.seconds for s in at_full_speed(slices)) / sum(s.seconds for s in slices)


def slices_of(costs):
    return [s for c in costs for s in c.slices]


class Target:
    """A running workload. `laps` of them take about the seconds it was made for."""

    def __init__(self, python, workload, seconds):
        self.workload = workload
        self.process = subprocess.Popen(
            [*python, "-c", WORKLOAD, workload.function, workload.size], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(),
            preexec_fn=self.pin if workload.pinned else None)
        self.pid = self.process.pid
        try:
            if self.process.stdout.readline() != "ready\n":
                raise BenchError("%s: %s does not run" % (workload.name, python[-1]))
            took = mean_lap(self.run(FEW))
            self.laps = max(1, round(seconds / took))
            self.slice_laps = max(1, round(min(seconds, SLICE_S) / took))
        except BaseException:
            self.close()
            raise

    @staticmethod
    def pin():
        os.sched_setaffinity(0, {LAST_CPU})

    def run(self, laps=None):
        """Does laps; [seconds, preemptions] of each."""
        self.process.stdin.write("%d\n" % (laps or self.laps))
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise BenchError("%s: the target died" % self.workload.name)
        return json.loads(answer)

    def slice(self, laps, bpf_time):
        """bpf_time(): (ns, runs) until now."""
        cpus = (LAST_CPU,) if self.workload.pinned else ALL_CPUS
        speed, before, begin = SPEED.test(cpus), bpf_time(), time.monotonic()
        lap_s = mean_lap(self.run(laps))
        seconds, after = time.monotonic() - begin, bpf_time()
        return Slice(lap_s, seconds, after[0] - before[0], after[1] - before[1],
                     max(speed, SPEED.test(cpus)))

    def slices(self, bpf_time=lambda: (0, 0)):
        """All its laps."""
        count = max(1, round(self.laps / self.slice_laps))
        return [self.slice(self.laps * (i + 1) // count - self.laps * i // count, bpf_time)
                for i in range(count)]

    def close(self):
        self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        end(self.process)
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


# ---- what the kernel knows of a profiler ---------------------------------------------------------

PERF_EVENT_PROG = 7  # BPF_PROG_TYPE_PERF_EVENT
LOOK_AGAIN_S = 0.5      # for programs: longer than from the loading of ours to its first run


def bpf_objects(pid):
    """(path, what the kernel says) of all BPF programs and maps that a process holds."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for path in Path("/proc/%d/fdinfo" % pid).iterdir():
            with contextlib.suppress(FileNotFoundError):
                text = path.read_text()
                if "prog_type:" in text or "map_type:" in text:
                    yield path, dict(re.findall(r"^(\w+):\s+(\S+)$", text, re.M))


def samplers(pid):
    """{id: path} of the programs of a process that sample."""
    return {i["prog_id"]: path for path, i in bpf_objects(pid)
            if i.get("prog_type") == str(PERF_EVENT_PROG)}


def bpf_time(programs):
    """(ns, runs) of samplers(). Needs kernel.bpf_stats_enabled."""
    texts = [path.read_text() for path in programs.values()]
    return tuple(sum(int(re.search(r"^%s:\s+(\d+)$" % field, text, re.M)[1]) for text in texts)
                 for field in ("run_time_ns", "run_cnt"))


def all_programs(pid):
    """{id: (ns, whether it samples)} of all BPF programs of a process."""
    return {i["prog_id"]: (int(i.get("run_time_ns", 0)), i["prog_type"] == str(PERF_EVENT_PROG))
            for _, i in bpf_objects(pid) if "prog_type" in i}


def verified(pid):
    """Instructions that the verifier went through for the BPF programs of a process; 0: the kernel does not say."""
    return sum({i["prog_id"]: int(i.get("verified_insns", 0)) for _, i in bpf_objects(pid)
                if "prog_type" in i}.values())


def has_run(program):
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return bool(re.search(r"^run_cnt:\s+[1-9]", program.read_text(), re.M))
    return False  # it is closed


def first_run(pid):
    """A function: has a program that samples run? It reads little, because a profiler that starts is
    asked all the time, on a machine with few CPUs. But not all programs are there at once: some profilers
    load one to try the kernel, and others that are only called by the one that samples."""
    programs, looked = {}, 0

    def asked():
        nonlocal programs, looked
        if not programs or time.monotonic() > looked + LOOK_AGAIN_S:
            programs, looked = samplers(pid), time.monotonic()
        return any(has_run(path) for path in programs.values())

    return asked


def map_bytes(pid):
    return sum({i["map_id"]: int(i.get("memlock", 0)) for _, i in bpf_objects(pid)
                if "map_type" in i}.values())


def cpu_seconds(pid):
    """Of all threads of a process: its CPU clock, CPUCLOCK_SCHED of clock_getcpuclockid(3)."""
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError as e:
        raise BenchError("process %d is gone" % pid) from e


def cpu_of_the_ended():
    """Seconds of all processes of ours that ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def peak_rss(pid):
    """Bytes, or None when it has none any more. Not ru_maxrss: that begins with the parent's.
    The kernel adds up the pages of all CPUs inexactly, so a later peak can be smaller."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        found = re.search(r"^VmHWM:\s+(\d+) kB$", Path("/proc/%d/status" % pid).read_text(), re.M)
        return int(found[1]) * 1024 if found else None
    return None


@contextlib.contextmanager
def bpf_stats():
    """The kernel times BPF programs, about 40 ns a run, until the end of the block."""
    switch = Path("/proc/sys/kernel/bpf_stats_enabled")
    before = switch.read_text()
    switch.write_text("1")
    try:
        yield
    finally:
        switch.write_text(before)


# ---- a profiler beside a target ------------------------------------------------------------------

@dataclasses.dataclass
class Cost:
    """Of one phase: while the target did its laps, if not said otherwise."""
    slices: list
    settled: list = ()      # slices before
    target_cpu_s: float = 0  # of its first process
    cpu_s: float = 0        # user space of the profiler
    whole_cpu_s: float = 0  # of its whole life, from its start to its results
    results_cpu_s: float = 0    # of that, since it was told to stop: last window, names, output
    exit_s: float = 0       # from then to its exit
    rss: int = 0            # peak over its whole life, with the writing of its results
    sampling_rss: int = 0   # peak until it was told to stop
    map_bytes: int = 0
    verified: int = 0       # instructions of its BPF programs
    ready_s: float = 0      # from its start to its first sample
    ready_cpu_s: float = 0  # of all its threads, until then
    result: dict = dataclasses.field(default_factory=dict)  # what it said itself

    @property
    def seconds(self):
        return sum(s.seconds for s in self.slices)


class Running:
    """A profiler at work."""

    def __init__(self, profiler, target, hz):
        self.profiler = profiler
        self.directory = tempfile.TemporaryDirectory(prefix="pyperf-bench-")
        self.output = Path(self.directory.name) / "out"
        self.log = (Path(self.directory.name) / "log").open("w+")
        argv = profiler.argv(target, hz, self.output)
        begin = time.monotonic()
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=self.log,
                                        stderr=self.log, env=environment(), cwd=self.directory.name)
        self.pid, self.rss = self.process.pid, 0
        self.settled, self.programs = [], {}
        try:
            if profiler.bpf:
                self.wait_for("no sample", first_run(self.pid))
            if profiler.begins:
                self.wait_for("did not begin", lambda: profiler.begins in self.said())
            self.ready_s = time.monotonic() - begin
            self.ready_cpu_s = cpu_seconds(self.pid)
            self.find(target)
            self.settle(target)
            self.check()
        except BaseException:
            self.close()
            raise

    def said(self):
        self.log.flush()
        return Path(self.log.name).read_text(errors="replace")

    def check(self):
        if self.process.poll() is not None:
            raise BenchError("%s ended: %s" % (self.profiler.name, self.said()[-300:].strip()))

    def wait_for(self, missing, done):
        deadline = time.monotonic() + PATIENCE
        while not done():
            self.check()
            if time.monotonic() > deadline:
                raise BenchError("%s: %s in %d s: %s" % (self.profiler.name, missing, PATIENCE,
                                                         self.said()[-300:].strip()))
            time.sleep(0.001)

    def find(self, target):
        """The target works until it is found."""
        def found():
            if not self.profiler.ready():
                target.run(FEW)
            return self.profiler.ready()

        self.wait_for("the target was not found", found)

    def bpf_time(self):
        return bpf_time(self.programs)

    def samplers(self):
        """Of a profiler that is still loading, some that it closes again."""
        return samplers(self.pid) if self.profiler.bpf else {}

    def settle(self, target):
        """The target works meanwhile."""
        self.programs = self.samplers()
        end_s = time.monotonic() + self.profiler.settle_s
        while time.monotonic() < end_s:
            self.settled.append(target.slice(target.slice_laps, self.bpf_time))
        self.programs = self.samplers()  # some load one later

    def measure(self, target):
        self.check()
        cpu, target_cpu = cpu_seconds(self.pid), cpu_seconds(target.pid)
        slices = target.slices(self.bpf_time)
        target_cpu, cpu = cpu_seconds(target.pid) - target_cpu, cpu_seconds(self.pid) - cpu
        return self.cost(slices, target_cpu_s=target_cpu, cpu_s=cpu)

    def cost(self, slices, **more):
        """So far."""
        self.check()
        return Cost(slices, self.settled, map_bytes=map_bytes(self.pid), verified=verified(self.pid),
                    ready_s=self.ready_s, ready_cpu_s=self.ready_cpu_s, **more)

    def stop(self, cost):
        """Lets it write its results."""
        before = cpu_of_the_ended()
        self.rss = cost.sampling_rss = peak_rss(self.pid) or 0
        until_now = cpu_seconds(self.pid)
        self.process.stdin.close()
        if self.profiler.stop:
            self.process.send_signal(self.profiler.stop)
        begin = time.monotonic()
        while self.process.poll() is None and time.monotonic() < begin + PATIENCE:
            self.rss = max(self.rss, peak_rss(self.pid) or 0)
            time.sleep(0.001)
        cost.exit_s = time.monotonic() - begin
        end(self.process)
        for argv in self.profiler.after(self.output):
            subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, timeout=PATIENCE, check=False)
        cost.whole_cpu_s = cpu_of_the_ended() - before
        cost.results_cpu_s = cost.whole_cpu_s - until_now
        cost.rss = self.rss
        try:
            cost.result = self.profiler.read(self.output, self.said())
        except FileNotFoundError as e:
            raise BenchError("%s wrote no result in %.0f s: %s" % (self.profiler.name, cost.exit_s, self.said()[-300:].strip())) from e

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        end(self.process)
        self.log.close()
        self.directory.cleanup()


def phase(target, profiler, hz):
    """The target's laps, alone (None) or with a profiler."""
    if profiler is None:
        return Cost(target.slices())
    with contextlib.closing(Running(profiler, target, hz)) as running:
        cost = running.measure(target)
        running.stop(cost)
        return cost


def in_turn(targets, profilers, hz, count):
    """[{profiler: its Cost in each round}] of the targets. All are asked in each round, so that they differ
    in what they are and not in when; the order of profilers turns, so that none is always the first."""
    costs = [{p: [] for p in profilers} for _ in targets]
    for i in range(count):
        at = i % len(profilers)
        for target, found in zip(targets, costs):
            for p in profilers[at:] + profilers[:at]:
                found[p].append(phase(target, p, hz))
    return costs


def rounds(target, profilers, hz, count):
    return in_turn([target], profilers, hz, count)[0]


@contextlib.contextmanager
def together(python, workloads):
    """The targets of [(workload, seconds)]."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Target(python, w, seconds)) for w, seconds in workloads]


def error(values):
    """Relative standard error of their mean."""
    return statistics.stdev(values) / len(values) ** 0.5 / statistics.fmean(values)


def slowdown(costs, others):
    """(by how much longer laps took at full speed, twice its standard error or None)."""
    mine, theirs = ([s.lap_s for s in fastest(slices_of(c))] for c in (costs, others))
    ratio = statistics.fmean(mine) / statistics.fmean(theirs)
    if min(len(mine), len(theirs)) < 2:
        return ratio - 1, None
    return ratio - 1, 2 * ratio * (error(mine) ** 2 + error(theirs) ** 2) ** 0.5
