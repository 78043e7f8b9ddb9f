# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What `trace -e` costs is measured before it goes on: a rate that costs too much is refused, with the figure, and nothing is left."""
import json
import os
import platform
import re
import subprocess
import sys

import pytest

from harness import PATIENCE, PYPERF, Profiler, Process, compile_c, find_tool, poll
from test_namespaces import PIDNS, need

KINDS = "emulated", "stepped"
REFUSAL = re.compile(r"pyperf-bpf: process (\d+) \(hot\): (\d+) hits/s at ([\d.]+) us each(, as the kernel single-steps the instruction "
                     r"there,)? would slow it down by (at least )?([\d.]+)% of its CPU time, more than (\d+)%: choose a place that is reached "
                     r"less often, as a condition does not save the trap \(--max-slowdown (\d+) or --force allows that\)\n")
# One call after some 10 ms of work.
RARELY = 10_000_000
# What it is called with is never above that.
NEVER = " if arg1 < 0"


@pytest.fixture(scope="module")
def hot(tmp_path_factory):
    if platform.machine() != "x86_64" or not find_tool("gcc"):
        pytest.skip("gcc for x86-64 is not installed")
    return compile_c(tmp_path_factory.mktemp("hot") / "hot", "hot.c", "-no-pie")


class Hot(Process):
    """The program, at a priority that lets it work in any 100 ms."""

    def __init__(self, exe, kind):
        super().__init__([exe, kind], preexec_fn=lambda: os.nice(-15))
        self.place = "uprobe:%s:%s" % (exe, kind)
        with open(exe, "rb") as f:
            self.file = f.read()
        symbols = subprocess.run(["nm", exe], stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout
        self.addr = int(next(line.split()[0] for line in symbols.splitlines() if line.endswith(" T " + kind)), 16)

    def __exit__(self, *exc):
        self.process.kill()
        self.process.wait()
        super().__exit__(*exc)

    def begin(self, calls=0, rounds=0):
        self.process.stdin.write(b"%d %d\n" % (calls, rounds))

    def work(self, calls=20000):
        """ns of CPU time for a call; the least of several runs, as others have the CPU and its caches, too."""
        def once():
            self.begin(calls)
            return int(self.read_line()) / calls
        return min(once() for _ in range(7))

    def has_breakpoint(self):
        with open("/proc/%d/mem" % self.pid, "rb") as mem:
            mem.seek(self.addr)
            return mem.read(1) == b"\xcc"


def trace(*args):
    return subprocess.run([PYPERF, "trace", "-q", *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          universal_newlines=True)


def until_refused(run):
    """On a busy machine the program may have had no CPU in the 100 ms that are judged."""
    for _ in range(20):
        done = run()
        if done.returncode:
            break
    return done


def refused(*args):
    return until_refused(lambda: trace("-d", 1, *args))


def check_refusal(done, target, kind, most=10):
    found = REFUSAL.fullmatch(done.stderr)
    assert found and not done.stdout and done.returncode == 1, (done, REFUSAL.pattern)
    pid, rate, price, stepped, _, slowdown, allowed, suggested = found.groups()
    assert int(pid) == target.pid and int(rate) > 0 and bool(stepped) == (kind == "stepped")
    assert int(allowed) == most < float(slowdown) < int(suggested)
    return float(price) * 1000


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("words", ["", NEVER, " hist arg1"], ids=["count", "if", "hist"])
def test_refused(hot, kind, words):
    """The trap is paid whatever the condition says. The program works on, without a breakpoint."""
    with Hot(hot, kind) as target:
        target.begin()
        check_refusal(refused("-e", target.place + words, "-p", target.pid), target, kind)
        assert not target.has_breakpoint() and target.process.poll() is None


@pytest.mark.parametrize("kind", KINDS)
def test_refused_of_any_process(hot, kind):
    """Whoever maps the file: it is refused for the one that is slowed down, and that is named."""
    with Hot(hot, kind) as target, Hot(hot, kind) as idle:
        target.begin()
        check_refusal(refused("-e", target.place), target, kind)
        assert not target.has_breakpoint() and not idle.has_breakpoint()


@pytest.mark.parametrize("one", [True, False], ids=["process", "all"])
def test_too_expensive_later(hot, one):
    """What begins slowly is judged again: the hits until then are shown, and the program works on without a breakpoint."""
    with Hot(hot, "emulated") as target:
        options = ["-p", str(target.pid)] if one else []
        with subprocess.Popen([PYPERF, "trace", "-e", target.place, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              universal_newlines=True) as process:
            try:
                assert "counting hits" in process.stderr.readline()
                target.begin(1000, 1000)
                target.read_line()
                target.begin()
                out, messages = process.communicate(timeout=PATIENCE)
            finally:
                process.kill()
        assert process.returncode == 1 and int(re.search(r"emulated: ([0-9,]+) hits in", out)[1].replace(",", "")) > 1000
        later = "pyperf-bpf: hits are not counted any more: "
        assert messages.startswith(later) and REFUSAL.fullmatch("pyperf-bpf: " + messages[len(later):]), messages
        assert not target.has_breakpoint() and target.process.poll() is None


INSIDE = """
import json, os, subprocess, sys
pyperf, hot, levels = sys.argv[1], sys.argv[2], int(sys.argv[3])
target = subprocess.Popen(levels * json.loads(sys.argv[4]) + [hot, "emulated"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          preexec_fn=lambda: os.nice(-15))
target.stdout.readline()
target.stdin.write(b"0 0\\n")
target.stdin.flush()
pid = target.pid
for _ in range(levels):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
        pid, = map(int, f.read().split())
for _ in range(20):
    done = subprocess.run([pyperf, "trace", "-q", "-d", "1", "-e", "uprobe:%s:emulated" % hot], capture_output=True, text=True)
    if done.returncode:
        break
target.kill()
print(json.dumps([pid, done.returncode, done.stderr]))
"""


@pytest.mark.parametrize("levels", [0, 2])
def test_refused_in_a_pid_namespace(hot, levels):
    """By the number that the process has there, also if it is in a namespace within that of the tracer."""
    need(PIDNS)
    done = subprocess.run([*PIDNS, sys.executable, "-c", INSIDE, PYPERF, hot, str(levels), json.dumps(PIDNS)], stdout=subprocess.PIPE,
                          check=True)
    pid, status, said = json.loads(done.stdout)
    found = REFUSAL.fullmatch(said)
    assert status == 1 and found and int(found[1]) == pid, (pid, said)


OUTSIDE = """
import json, os, subprocess, sys
pyperf, hot, pid = sys.argv[1], sys.argv[2], int(sys.argv[3])
with open("/proc/sys/kernel/ns_last_pid", "w") as f:
    f.write(str(pid - 1))
child = os.fork()
if not child:
    while True:
        pass
done = subprocess.run([pyperf, "trace", "-q", "--json", "-d", "1", "-e", "uprobe:%s:emulated" % hot], capture_output=True, text=True)
os.kill(child, 9)
print(json.dumps([child, done.returncode, done.stdout, done.stderr]))
"""


def test_not_of_who_has_the_number_in_a_pid_namespace(hot):
    """What a process outside of it pays is charged to nobody within, and said."""
    need(PIDNS)
    if not os.path.exists("/proc/sys/kernel/ns_last_pid"):
        pytest.skip("the kernel has no ns_last_pid")
    with Hot(hot, "emulated") as target:
        target.begin()
        done = subprocess.run([*PIDNS, sys.executable, "-c", OUTSIDE, PYPERF, hot, str(target.pid)], stdout=subprocess.PIPE,
                              check=True)
    pid, status, counted, said = json.loads(done.stdout)
    if pid != target.pid:
        pytest.skip("no process of a chosen number")
    assert status == 0 and json.loads(counted)["hits"] > 0, said
    assert re.search(r"processes outside of this PID namespace have \d+ hits/s at [\d.]+ us each", said), said


def test_refused_command(hot):
    """It runs on, and the status says that it was not traced."""
    done = until_refused(lambda: subprocess.run(
        [PYPERF, "trace", "-q", "-d", "1", "-e", "uprobe:%s:emulated" % hot, "--", hot, "emulated"], input="200000000 0\n1 0\n",
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, preexec_fn=lambda: os.nice(-15)))
    assert done.returncode == 1 and REFUSAL.fullmatch(done.stderr), done.stderr
    assert re.fullmatch(r"ready\n\d+\n\d+\n", done.stdout), done.stdout


@pytest.mark.parametrize("options", [("--force",), ("--max-slowdown", "100000")])
def test_allowed(hot, options):
    """All are counted from the beginning, also those of the first 100 ms."""
    with Hot(hot, "emulated") as target:
        tracer = Profiler("trace", "--json", *options, "-e", target.place, "-p", target.pid, glue=False)
        poll(target.has_breakpoint, "the breakpoint")
        tracer.wait_said("counting hits")
        target.begin(300000)
        target.read_line()
        tracer.interrupt_group()
        result = tracer.wait()
    assert result.status == 0 and json.loads(result.stdout.splitlines()[-1])["hits"] == 300000, result.stdout


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("whose", ["pid", "any"])
def test_rare_is_not_refused(hot, kind, whose):
    """A call each 10 ms or so, of a program that works all the time, and would not be slowed down by 0.5%."""
    with Hot(hot, kind) as target:
        target.begin(0, RARELY)
        done = trace("--json", "-d", 1, "-e", target.place, *(("-p", target.pid) if whose == "pid" else ()))
        assert done.returncode == 0 and not done.stderr, done
        assert json.loads(done.stdout)["hits"] > 0


@pytest.mark.parametrize("kind", KINDS)
def test_price(hot, kind):
    """The figure is what a call costs more by the program's own clock, and `probes` says nearly the same."""
    with Hot(hot, kind) as target:
        plain = target.work()
        tracer = Profiler("trace", "--force", "-e", target.place, "-p", target.pid, glue=False)
        tracer.wait_said("counting hits")
        truth = target.work() - plain
        tracer.interrupt_group()
        tracer.wait()
        target.begin()
        price = check_refusal(refused("-e", target.place, "-p", target.pid), target, kind)
    probes = json.loads(subprocess.run([PYPERF, "probes", "--json", hot], stdout=subprocess.PIPE, check=True).stdout)
    trap = probes["emulated_ns" if kind == "emulated" else "single_stepped_ns"]
    assert truth / 3 < price < truth * 3, (price, truth)
    assert price / 3 < trap < price * 3, (price, trap)
    assert probes["emulated_ns"] < probes["single_stepped_ns"]


def test_prices_without_root(hot):
    """They cannot be measured, and nothing is said about this machine."""
    def as_nobody(*args):
        return subprocess.run(["setpriv", "--reuid", "65534", "--clear-groups", PYPERF, "probes", *args, "/bin/sh"], stdout=subprocess.PIPE,
                              check=True, universal_newlines=True).stdout
    assert json.loads(as_nobody("--json"))["emulated_ns"] is None
    assert "on this machine" not in as_nobody() and "some 0.5 us" in as_nobody()
