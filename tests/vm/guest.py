# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What scripts/test-vm runs inside a virtual machine: the ground truth on the kernel that runs there.

Everything is emulated and some twelve times slower than life, so the rates are low and a processor
that stands still for a while is normal; what is asked is the same as of the real machine.

The argument is the one case to run, or "all": all but "load", which wants a guest of its own.
"""
import collections
import contextlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))

import harness  # noqa: E402
import probe_runs  # noqa: E402
import tracing  # noqa: E402
from cases import run_cases, say  # noqa: E402
from harness import Profiler, Target, check_stacks, profile, profile_target, share  # noqa: E402
from programs import prefork  # noqa: E402

PYTHON = sys.executable
HZ = 199
# Some reads fail for milliseconds while the kernel collapses pages under the target, and all takes
# longer here.
COMPLETE = 0.98
POINTS = 0.06


def run(*args, seconds, **more):
    return profile_target(PYTHON, *args, seconds=seconds, hz=HZ, **more)


def verified_insns(pid):
    total = 0
    for fd in Path("/proc/%d/fdinfo" % pid).iterdir():
        with contextlib.suppress(FileNotFoundError):  # a file that it was only reading
            total += sum(map(int, re.findall(r"^verified_insns:\t(\d+)$", fd.read_text(), re.M)))
    return total


def watched(name, *args):
    """Runs the profiler to its end, and says what the kernel verified for it, of all objects that it loads."""
    profiler = Profiler("-v", *args)
    profiler.wait_said("the profile begins", 240)
    say("figure", name, verified_insns(profiler.pid) or "-")
    return profiler.wait()


def cpu_seconds(pid):
    """Of all its threads: one loads the programs, others hand over tables. The CPU clock of a process,
    CPUCLOCK_SCHED of clock_getcpuclockid(3)."""
    return time.clock_gettime((~pid << 3) | 2)


def run_probes(events, *options, **more):
    """The newest kernel was seen to need a minute here until both objects are loaded. On a busy host 2.1% of the 236 samples
    beside the probes ended in [bad-native-frame]: they may, since each says so."""
    with tempfile.TemporaryDirectory() as directory:
        return probe_runs.Run(PYTHON, Path(directory) / "x.json", events, *options, processes=1, cut=1 - COMPLETE,
                              cut_samples=3 * (1 - COMPLETE), patience=240, **more)


def load_probes():
    """The object of probes, alone."""
    made = run_probes("uprobe:{libc}:getppid", calls=1, before=lambda profiler: say(
        "figure", "probes", verified_insns(profiler.pid) or "-"))
    made.check_hits(0)


def load():
    """Verified instructions of all programs (kernel 5.16 and later say them), and what a start costs until
    samples are taken. In this guest's clock an instruction is a nanosecond."""
    with Target(PYTHON, "spinner.py", "spin") as target:
        profiler = Profiler("-v", "-f", "-F", HZ, "-d", 1, "-p", target.pid)
        profiler.wait_sampling()
        spent = cpu_seconds(profiler.pid)
        verified = verified_insns(profiler.pid)
        result = profiler.wait().ok()
    assert "spin" in result.only()
    assert "attach on_unmapped_area" not in result.stderr  # the only one that may be missing
    say("figure", "verified", verified or "-")
    say("figure", "start", round(spent * 1e3))
    load_probes()


def fields():
    """What the programs read is as wide as this kernel has it: see tests/bpf/test_fields.c."""
    done = subprocess.run([harness.REPO / ".output/tests/test_fields"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout


def shares():
    result, truth = run("shares.py", seconds=6)
    result.complete(COMPLETE)

    def leaf_is(name):
        return lambda s: s.leaf() and (s.leaf().name, s.leaf().file) == (name, truth["file"])

    def any_leaf(stack):
        return any(leaf_is(name)(stack) for name in truth["shares"])

    got = {name: share(result.stacks, leaf_is(name), any_leaf) for name in truth["shares"]}
    for name, true in truth["shares"].items():
        assert abs(got[name] - true) <= POINTS, (got, truth["shares"])


def order():
    result, truth = run("nesting.py", seconds=8)
    result.complete(COMPLETE)
    assert check_stacks(result.stacks, truth["stacks"])


def kernel_frames():
    with Target(PYTHON, "spinner.py", "spin", "--syscalls") as target:
        result = profile("-f", "-F", HZ, "-d", 3, "-p", target.pid).ok()
    named = [s for s in result.stacks if any(f.name.startswith("get_random") or "urandom" in f.name
                                             for f in s.kernel())]
    assert share(result.stacks, lambda s: s in named) > 0.5, "\n".join(map(str, result.stacks[:5]))
    assert share(result.stacks, lambda s: s.python()) > 0.95


def whole_machine():
    """Without -p."""
    with Target(PYTHON, "spinner.py", "spin_one"), Target(PYTHON, "spinner.py", "spin_two"):
        result = profile("-f", "-F", HZ, "-d", 3).ok()
    result.only("spin_one", "spin_two")


def waits():
    """The programs in the scheduler, and where each kernel lets a stack be taken."""
    truth = Path("/tmp/waits-truth")
    result = watched("off-cpu", "-f", "--threads", "-F", HZ, "-e", "off-cpu", "--", PYTHON, harness.PROGRAMS / "waiting.py",
                     truth, "sleeping", "locking", "polling").ok()
    for tid, true in json.loads(truth.read_text()).items():
        reason = {"sleeping": "sleep", "locking": "lock", "polling": "poll"}[true["label"]]
        there = [s for s in result.stacks if s.tid == int(tid) and any(f.name == true["label"] for f in s.frames)]
        waited = sum(s.count for s in there if s.frames[-1].name == "waits: " + reason) / 1e9
        seen = collections.Counter()
        for stack in result.stacks:
            if stack.tid == int(tid):
                seen[" < ".join(f.name for f in stack.frames[-4:])] += stack.count / 1e9
        assert waited >= 0.9 * (true["least"] or 0.4), (true, waited, seen)
        assert waited <= 1.05 * true["elapsed"], (true, waited, seen)


def gil():
    """An object of its own, whose walks are as deep as BPF allows. Holders are charged what others wait."""
    result = watched("gil", "-f", "-F", HZ, "-e", "gil", "--value", "gil", "--", PYTHON, harness.PROGRAMS / "waiting.py",
                     "/tmp/gil-truth", "holding_alone", "wanting").ok()
    waited = sum(s.count for s in result.stacks if any(f.name == "wanting" for f in s.frames)) / 1e9
    assert waited > 0.2, result.stacks
    assert all(s.frames[-1].name == "waits: GIL" for s in result.stacks), result.stacks


# Who ends the waits of gets() is known.
HANDS_OVER = """
import queue, threading, time
q = queue.Queue()
def puts():
    for i in range(20): time.sleep(0.05) or q.put(1)
def gets():
    for i in range(20): q.get()
threads = [threading.Thread(target=f) for f in (puts, gets)]
for t in threads: t.start()
for t in threads: t.join()
"""


def wakers():
    """The registers of a thread that is not the current one, which kernels with CONFIG_X86_FRED keep 16 bytes lower."""
    fred = "asm_fred_entrypoint_user" in Path("/proc/kallsyms").read_text()
    result = watched("wakers", "-f", "-F", HZ, "-e", "off-cpu,wakers", "--value", "wakers", "--", PYTHON, "-c",
                     HANDS_OVER).ok()
    ended = collections.Counter()
    for s in result.stacks:
        if any(f.name == "puts" for f in s.frames):
            ended[s.frames[-1].name] += s.count / 1e9
    say("figure", "fred", int(fred))
    assert ended["ends a wait: lock"] > 0.8 and ended.keys() <= {"ends a wait: lock", "ends a wait: GIL"}, (fred, ended)


def growth():
    """The kernel's counters of pages, which lie elsewhere from 6.2 on."""
    fine, mib = 16384, 1 << 20
    with Target(PYTHON, "growing.py", "mapped:16", "churn:32") as target:
        profiler = Profiler("-v", "-f", "-e", "growth", "-c", fine, "-p", target.pid)
        harness.poll(lambda: harness.holds_tracepoint(profiler, "rss_stat"), "the profiler to count", 240)
        say("figure", "growth", verified_insns(profiler.pid) or "-")
        target.process.stdin.write(b"go\n")
        grown = int(target.read_line())
        profiler.interrupt_group()
        result = profiler.wait().ok()
    got = collections.Counter()
    for stack in result.stacks:
        for name in {f.name for f in stack.frames}:
            got[name] += stack.count / mib
    assert abs(got["mapped"] - 16) < 3, got
    assert got["churn"] < 8, got  # malloc() may keep a block of 4 MiB, and its margin
    assert abs(sum(s.count for s in result.stacks) / mib - grown / mib) < 4, (got, grown)


def blocks():
    """Where the kernel has what it takes (6.13), else a message says so."""
    has = tuple(map(int, platform.release().split(".")[:2])) >= (6, 13)
    with Target(PYTHON, "allocating.py") as target:
        options = "-f", "-e", "alloc", "-d", 0.5, "-p", target.pid
        result = watched("alloc", *options) if has else profile(*options)
    assert (result.status == 0) == has and has != ("need Linux 6.13" in result.stderr), result.stderr


def heap():
    """A command is held at its end where the kernel can (5.13), else a message says what reads its heap all the same."""
    has = tuple(map(int, platform.release().split(".")[:2])) >= (5, 13)
    program = "class Order(object): pass\norders = [Order() for i in range(2000)]"
    done = subprocess.run([harness.PYPERF, "heap", "--json", "--", PYTHON, "-c", program], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    if has:
        assert done.returncode == 0, done.stderr
        orders, = (t for t in json.loads(done.stdout)["types"] if t["name"] == "Order")
        assert orders["objects"] == 2000, orders
    else:
        assert done.returncode == 1 and not done.stdout, done.stdout
        assert done.stderr.endswith("at its end, which needs Linux 5.13; -d SEC reads it while it runs\n"), done.stderr
        assert done.stderr.count("\n") == 1, done.stderr


def dump():
    """Threads as they are now, among them one that runs."""
    with Target(PYTHON, "states.py", "sleeping", "spinning") as target:
        harness.spend(target.pid, 1)  # all are where they stay
        result = harness.Profiler("dump", target.pid, "--json").wait()
        assert result.status == 0, result.stderr
        truth = {int(tid): true for tid, true in json.loads(target.end()).items()}
    threads = {t["tid"]: t for t in json.loads(result.stdout)["threads"]}
    assert set(threads) == set(truth)
    for tid, true in truth.items():
        thread, label = threads[tid], true["label"]
        names = [harness.short(f["function"]) for f in thread["frames"]]
        assert label == "main" or names == [name for name, _, _ in true["frames"]], thread
        assert label != "main" or names == ["main", "<module>"], thread
        assert thread["consistent"], thread
        if label != "spinning":
            assert thread["state"] == "sleeping" and thread["gil"] == "none", thread
            assert thread["syscall"] == {"main": "read", "sleeping": "clock_nanosleep"}[label]


def hotplug():
    """A CPU goes and comes back: work on it is sampled before and after. Without -p, with which CPUs are looked at every ten
    seconds."""
    online = Path("/sys/devices/system/cpu/cpu1/online")
    with Target(PYTHON, "spinner.py", "spin_a") as a, Target(PYTHON, "spinner.py", "spin_b") as b:
        os.sched_setaffinity(b.pid, {1})
        profiler = Profiler("-v", "-f", "-F", HZ)
        try:
            profiler.wait_sampling()
            online.write_text("0")
            harness.spend(a.pid, 2)
            online.write_text("1")
            os.sched_setaffinity(a.pid, {0})
            os.sched_setaffinity(b.pid, {1})
            before = harness.cpu_seconds(b.pid)
            harness.spend(b.pid, 3)
            spent = harness.cpu_seconds(b.pid) - before
        finally:
            profiler.interrupt_group()
            result = profiler.wait()
    result.ok().only("spin_a", "spin_b")
    of_b = sum(s.count for s in result.stacks if s.leaf() and s.leaf().name == "spin_b")
    # The second after which a returned CPU is sampled again, and more, is left out.
    assert of_b > 0.4 * spent * HZ, (of_b, spent)


RATE = Path("/proc/sys/kernel/perf_event_max_sample_rate")


def throttling():
    """The kernel's limit goes below the rate while sampling: it throttles, which is seen, said, and answered. One sample a tick
    is allowed: slow as it is, this machine brings more of them."""
    with Target(PYTHON, "spinner.py", "spin") as target:
        before = RATE.read_text()
        profiler = Profiler("-v", "-f", "-F", 1999, "-d", 4, "-p", target.pid)
        profiler.wait_sampling()
        RATE.write_text("100")
        try:
            result = profiler.wait().ok()
        finally:
            RATE.write_text(before)
    c = result.counters
    assert c["note_kernel_rate"] == 1 and c["note_throttled"] and c["note_rate_lowered"], c
    assert "kernel.perf_event_max_sample_rate went from" in result.stderr
    assert "the kernel stopped sampling" in result.stderr
    assert result.stderr.count("sampling continues at 1/") == c["note_rate_lowered"], result.stderr


def probes():
    """Hits among samples of the clock, which interrupt the programs that take them from Linux 6.0 on; with PREEMPT_RT these
    interrupt each other. Beside them another object each time: hits of a tracepoint, and changes of the reference count of a
    type (5.13), which is where it is here: the interpreter is not relocated."""
    has = tuple(map(int, platform.release().split(".")[:2])) >= (5, 13)
    for name, beside, options in (("tracepoint", ",tracepoint:syscalls:sys_enter_getppid", ()),
                                  ("refcount", ",refcount:%#x" % id(complex) if has else "", ("--nmi",))):
        made = run_probes("cpu-clock,uprobe:{libc}:getppid" + beside, "-F", 499, *options, calls=500,
                          before=lambda profiler, name=name: say("figure", name, verified_insns(profiler.pid) or "-"))
        made.check_hits(1)
        made.check_samples(0, 10)
        if name == "tracepoint":
            hits = sum(map(probe_runs.hits_of, made.stacks(2)))
            assert 1000 - made.result.counters.get("lost_busy", 0) <= hits <= 1000, hits


def hist():
    """`trace -e`: no stacks. Each hit is counted."""
    with Target(PYTHON, "probed.py", 2, 2) as target:
        event = "uprobe:%s:getppid hist arg1" % probe_runs.libc_of(target.pid)
        tracer = Profiler("trace", "--json", "-e", event, "-p", target.pid, glue=False)
        tracer.wait_said("counting hits", 240)
        say("figure", "hist", verified_insns(tracer.pid) or "-")
        target.process.stdin.write(b"500\n")
        json.loads(target.read_line())
        tracer.interrupt_group()
        last = json.loads(tracer.wait().ok().stdout.splitlines()[-1])
    assert last["hits"] == 1000 and last["final"], last


def native():
    """`trace --native-from`: all breakpoints of a file at once (6.6), else a message says so."""
    has = tuple(map(int, platform.release().split(".")[:2])) >= (6, 6)
    with Target(PYTHON, "probed.py", 1, 2) as target:
        tracer = Profiler("trace", "--json", "--force", "--native-from", "crc32", "--lib", "libz", "-p", target.pid, glue=False)
        if has:
            tracer.wait_said("Ctrl-C ends it", 240)
            say("figure", "native", verified_insns(tracer.pid) or "-")
            tracer.interrupt_group()
        result = tracer.wait()
    assert (result.status == 0) == has and has != ("needs Linux 6.6" in result.stderr), result.stderr


def load_trace():
    """With other constants, which the verifier follows elsewhere. Those of old kernels refuse what new ones accept."""
    if tuple(map(int, platform.release().split(".")[:2])) < (6, 12):
        with Target(PYTHON, "counted.py", "wait") as target:
            tracing.Trace(target.pid, "--force", "--calls", "--from", "fib", "--args=2", "--ret").finish()


def trace():
    """Every call is counted; every call and end is seen; from 6.12 on in children, too, else a message says so. Every exception
    is counted. Events have CPU time, and threads are chosen."""
    tracing.compare(PYTHON)
    tracing.compare_exceptions(PYTHON)
    log = subprocess.run([PYTHON, "-B", tracing.PROGRAM, "events"], capture_output=True, check=True)
    with Target(PYTHON, "counted.py", "run") as target:
        calls = tracing.Trace(target.pid, "--calls", "--top", 0, "--force", "-f", "counted.py:*")
        say("figure", "trace", verified_insns(calls.process.pid) or "-")
        tracing.work(target)
        found = tracing.events_of(calls.lines(), tracing.PROGRAM)
    truth = sorted(json.loads(log.stdout))
    assert found == truth, (sum(map(len, found)), sum(map(len, truth)))
    with Target(PYTHON, "counted.py", "run") as target:
        hist = tracing.Trace(target.pid, "--hist", "--force", "-f", "counted.py:fib", "-t", "*")
        tracing.work(target)
        fib, = hist.finish()["functions"]
    assert fib["calls"] == sum(fib["cpu_log2_ns"]) == sum(fib["total_log2_ns"]), fib
    with Target(PYTHON, "prefork.py", "wait") as target:
        server = tracing.Trace(target.pid, "--top", 0, "--force")
        tracing.work(target)
        counts = {f["function"]: f["calls"] for f in server.finish()["functions"]}
    if tracing.FOLLOWS:
        found = {name: counts.get(name) for name in prefork.CALLS}
        assert found == prefork.CALLS, (found, server.messages)
    else:
        assert counts["handle"] == 7 and "that needs Linux 6.12" in "".join(server.messages), (counts, server.messages)
    say("figure", "events", sum(map(len, truth)))
    load_trace()


CASES = [fields, shares, order, kernel_frames, whole_machine, waits, gil, wakers, growth, blocks, heap, dump, hotplug, throttling,
         probes, hist, native, trace]


def show_profilers(begin, error):
    """Of the case that failed, unless the error has it already; the others are run."""
    for profiler in harness.Profiler.recent:
        if profiler.begun >= begin and profiler.account() not in str(error):
            print(profiler.account(), flush=True)
    return True


def main():
    wanted = sys.argv[1] if len(sys.argv) > 1 else "all"
    run_cases(CASES if wanted == "all" else [globals()[wanted]], show_profilers)


if __name__ == "__main__":
    main()
