# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Processes in a state that makes them hard to look at: stopped, traced, not dumpable, with another
allocator or a thousand mappings, between two programs."""
import ctypes
import os
import signal
import subprocess

import pytest

from harness import HZ, PROGRAMS, Process, Profiler, Target, poll, share, spend, total
from test_disguises import CASES, check_result, check_whole
from test_embedded import Library, check_life, embed, shared_library

pytestmark = pytest.mark.beside

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207


class Stopped:
    """A process that the profiler meets while it stands still, by a signal or a debugger."""

    def __init__(self, pid, traced):
        self.pid, self.traced = pid, traced
        self.libc = ctypes.CDLL(None, use_errno=True)

    def ptrace(self, request):
        done = self.libc.ptrace(request, self.pid, None, None)
        assert done == 0, os.strerror(ctypes.get_errno())

    def stands(self):
        with open("/proc/%d/stat" % self.pid) as stat:
            return stat.read().rpartition(")")[2].split()[0] in "tT"

    def __enter__(self):
        if self.traced:
            self.ptrace(PTRACE_SEIZE)
            self.ptrace(PTRACE_INTERRUPT)
        else:
            os.kill(self.pid, signal.SIGSTOP)
        poll(self.stands, "process %d to stop" % self.pid)

    def __exit__(self, *exc):
        if self.traced:
            self.ptrace(PTRACE_DETACH)
        else:
            os.kill(self.pid, signal.SIGCONT)


@pytest.mark.parametrize("traced", [False, True], ids=["stopped", "traced"])
def test_stopped(traced):
    library = Library("any")
    with Target(library.python, "nesting.py", *CASES) as target:
        with Stopped(target.pid, traced):
            profiler = Profiler("-v", "-f", "-F", HZ, "-p", target.pid)
            profiler.wait_sampling()
        spend(target.pid, 0.7)
        profiler.interrupt_group()
        result = profiler.wait().ok()
        truth = target.stop()
    result.complete()
    check_result(result.stacks, truth)


# It lasts until an exec, so the program itself has to do it.
NOT_DUMPABLE = """
import ctypes, runpy, sys
PR_GET_DUMPABLE, PR_SET_DUMPABLE = 3, 4
libc = ctypes.CDLL(None)
assert libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0 == libc.prctl(PR_GET_DUMPABLE, 0, 0, 0, 0)
del sys.argv[0]
sys.path.insert(0, sys.argv[0].rpartition("/")[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_not_dumpable():
    """Only who may trace every process may read its memory."""
    library = Library("any")
    argv = [library.python, "-B", "-c", NOT_DUMPABLE, PROGRAMS / "nesting.py", *CASES]
    with Process(argv) as target:
        check_whole(target)


def preloaded_malloc(directory):
    path = directory / "malloc.so"
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-fno-builtin", "-o", str(path),
                    str(PROGRAMS / "malloc.c")], check=True)
    return path


@pytest.mark.parametrize("slot", ["3.8", "3.13"])
def test_malloc_of_their_own(slot, embed, directory):
    """Objects lie elsewhere, and what is freed is overwritten: thread states, for one."""
    library = shared_library(slot)
    env = dict(library.environment(), PYTHONMALLOC="debug",
               LD_PRELOAD=str(preloaded_malloc(directory)))
    with Process([embed, "--load", library.shared, PROGRAMS / "embedded.py"], env=env) as target:
        check_life(target, embed)


def test_a_thousand_mappings(embed):
    """All before the library's, and executable."""
    library = shared_library("3.12")
    with Process([embed, "--mappings", 1000, "--load", library.shared, PROGRAMS / "embedded.py"],
                 env=library.environment()) as target:
        check_life(target, embed)


TO_AND_FRO = """
import os, select, sys
def spins_before():
    while not select.select([0], [], [], 0)[0]:
        pass
spins_before()
os.read(0, 1)
loop = 'i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done; exec "$@"'
os.execv("/bin/sh", ["sh", "-c", loop, *sys.argv])
"""


def test_exec_to_and_fro():
    """Python, a shell, and another Python in one process."""
    library, other = Library("any"), shared_library("3.13")
    gate = ["sh", "-c", 'echo ready; read go; exec "$@"', "sh", library.python, "-c", TO_AND_FRO]
    with Process([*gate, other.python, "-B", PROGRAMS / "nesting.py", *CASES]) as target:
        profiler = Profiler("-v", "-f", "-F", HZ, "-p", target.pid, "-a")
        profiler.wait_sampling()
        target.process.stdin.write(b"\n")
        profiler.wait_said("process %d: published as Python" % target.pid)
        spend(target.pid, 0.2)
        target.process.stdin.write(b"x")
        target.wait_ready()
        spend(target.pid, 0.7)
        profiler.interrupt_group()
        result = profiler.wait().ok()
        truth = target.stop()
    first = [s for s in result.stacks if any(f.name == "spins_before" for f in s.python())]
    shell = [s for s in result.stacks if s.comm == "sh"]
    assert share(first, lambda s: [f.name for f in s.python()] == ["<module>", "spins_before"]) == 1
    assert total(first) > 0.05 * HZ and total(shell) > 10
    assert not any(s.python() for s in shell)
    check_result(result.stacks, truth)
