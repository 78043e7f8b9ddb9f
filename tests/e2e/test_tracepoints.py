# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Tracepoints of the kernel (-e tracepoint:...): each hit is counted once, with the stack of the thread, also where the tracepoint is hit by the
programs that count it."""
import collections
import json
import subprocess

import pytest

from harness import PYPERF, Profiler, find_tool, profile, total
from probe_runs import CALLS, THREADS, Run, hits_of
from test_probes import HZ, claim_all

pytestmark = pytest.mark.beside

GETPPID = "tracepoint:syscalls:sys_enter_getppid"

PROGRAM = """
import os
def open_many():
    for _ in range(300): os.close(os.open("/dev/null", os.O_RDONLY))
def fork_some():
    for _ in range(20):
        pid = os.fork()
        if not pid: os._exit(0)
        os.waitpid(pid, 0)
open_many(); fork_some()
"""


def test_hits_alone(any_python, tmp_path):
    """The innermost frame is getppid() of the C library, where the kernel's frames are left out."""
    run = Run(any_python, tmp_path / "x.json", GETPPID, "--no-kernel")
    run.check_hits(0)
    counters = run.result.counters
    assert counters["counted"] == CALLS * THREADS * 2
    assert counters["complete"] >= 0.99 * counters["counted"]


def test_hits_among_samples(any_python, tmp_path):
    """Samples, hits of a probe and hits of a tracepoint interrupt each other."""
    run = Run(any_python, tmp_path / "x.json", "cpu-clock,%s,uprobe:{libc}:getppid" % GETPPID, "--no-kernel", "-F", HZ)
    run.check_hits(1)
    run.check_hits(2)
    run.check_samples(0, 200)
    assert [v["name"] for v in run.values][1] == GETPPID


def test_several_in_one_file(any_python, tmp_path):
    names = ["tracepoint:syscalls:sys_enter_openat", "tracepoint:sched:sched_process_fork", "tracepoint:syscalls:sys_exit_openat"]
    path = tmp_path / "x.json"
    result = profile("-e", ",".join(names), "-o", path, "--", any_python, "-c", PROGRAM).ok()
    document = json.loads(path.read_text())
    assert [v["name"] for v in document["values"]] == names
    found = collections.Counter()
    for stack in document["stacks"]:
        frames = [document["frames"][f] for f in stack["frames"]]
        python = [f["function"] for f in frames if f["kind"] == "python"]
        # Neither the program that counts nor how the kernel calls it.
        assert not [f for f in frames if f["kind"] == "kernel" and "bpf_prog" in f["function"]], frames
        for name in ("open_many", "fork_some"):
            found[stack.get("value", 0), name] += hits_of(stack) * (name in python)
    lost = result.counters.get("lost_busy", 0)
    for value, name, hits in ((0, "open_many", 300), (1, "fork_some", 20), (2, "open_many", 300)):
        assert hits - lost <= found[value, name] <= hits, (found, lost)
    assert not found[0, "fork_some"] and not found[1, "open_many"]


def test_report(any_python):
    text = profile("-e", "tracepoint:sched:sched_process_fork", "--", any_python, "-c", PROGRAM).ok().stdout
    head, answer = [line for line in text.splitlines() if line][:2]
    assert " hits of " in head and " of the hits are in fork_some" in answer


def test_refused_hits_are_counted(any_python, tmp_path):
    """A tracepoint that is hit while its CPU is in the middle of another hit."""
    if not find_tool("bpftool"):
        pytest.skip("bpftool is not installed")
    run = Run(any_python, tmp_path / "x.json", GETPPID, before=claim_all)
    counters = run.result.counters
    assert counters["lost_busy"] == counters["delivered"] >= CALLS * THREADS * 2
    assert not counters.get("counted") and not run.stacks(0)


@pytest.mark.parametrize("name", ["kmem:kmem_cache_alloc", "exceptions:page_fault_kernel", "raw_syscalls:sys_exit", "sched:sched_waking",
                                  "timer:hrtimer_start"])
def test_what_the_profiler_hits_itself(any_python, name):
    """Every hit is accounted for, whoever interrupts whom."""
    counters = profile("-f", "-e", "cpu-clock,tracepoint:" + name, "-F", HZ, "--", any_python, "-c", PROGRAM).ok().counters
    delivered = counters.get("delivered", 0)
    assert delivered == sum(n for c, n in counters.items() if c == "counted" or c.startswith(("filtered_", "lost_")))


def test_descendants_belong_to_a_process(any_python, tmp_path):
    """A tracepoint is in no program, so that of a child costs nothing more."""
    program = "import os, sys\nsys.stdin.readline()\nfor _ in range(3):\n  if not os.fork():\n    [os.getppid() for _ in range(500)]\n" \
        "    os._exit(0)\n[os.wait() for _ in range(3)]\n"
    child = subprocess.Popen([any_python, "-c", program], stdin=subprocess.PIPE)
    try:
        profiler = Profiler("-v", "-f", "-e", GETPPID, "-p", child.pid)
        profiler.wait_said("the profile begins")
        child.communicate(b"\n")
        result = profiler.wait().ok()
    finally:
        child.kill()
        child.wait()
    hits = total(result.stacks)
    assert 1500 - result.counters.get("lost_busy", 0) <= hits <= 1500


@pytest.mark.parametrize("event, words", [
    ("tracepoint", "must be tracepoint:CATEGORY:NAME"),
    ("tracepoint:sched:", "must be tracepoint:CATEGORY:NAME"),
    ("tracepoint:sched:a b", "must be tracepoint:CATEGORY:NAME"),
    ("tracepoint:sched:sched_proces_fork", "no tracepoint sched_proces_fork; did you mean sched_process_fork?"),
    ("tracepoint:x:no_tracepoint_has_this_name_or_one_like_it", "this kernel has no tracepoint no_tracepoint_has"),
    ("tracepoint:syscalls:sys_enter_opnat", "no system call opnat; did you mean openat?"),
    ("tracepoint:nmi:nmi_handler", "in NMI context"),
])
def test_wrong_names(any_python, event, words):
    """One line says what is wrong, and nothing stays behind."""
    result = subprocess.run([PYPERF, "-q", "-e", event, "--", any_python, "-c", ""], stderr=subprocess.PIPE,
                            stdout=subprocess.DEVNULL, universal_newlines=True)
    assert result.returncode != 0
    assert words in result.stderr and result.stderr.count("\n") == 1, result.stderr
