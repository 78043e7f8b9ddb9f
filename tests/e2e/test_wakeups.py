# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""How often processes that come and go wake the profiler, by the kernel's count of the times that it slept. Which
times are right is asked in tests/unit/test_wake.c; here, whether they are kept. The bounds hold however busy the machine is;
a quiet one is needed to exceed them."""
import contextlib
import re
import subprocess
import time
from pathlib import Path

import harness

OTHERS_S, TICK_S = 0.25, 10  # where others map very much; else a second
GATHER_S = 1 / 19 / 8
SLEEPS = 2  # for each look: until something happens, and until more has


@contextlib.contextmanager
def starting():
    """Programs that start, three at a time, each making a dozen of events, until their stdin ends."""
    argv = ["bash", "-c", "while read -t 0.001; [ $? -gt 128 ]; do /bin/true; done"]
    with contextlib.ExitStack() as stack:
        shells = [stack.enter_context(subprocess.Popen(argv, stdin=subprocess.PIPE)) for _ in range(3)]
        try:
            yield
        finally:
            for shell in shells:
                shell.communicate()


def sleeps(pid):
    return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)$", Path("/proc/%d/status" % pid).read_text(), re.M)[1])


def sleeps_of(seconds, *options):
    """How often the profiler slept in about that time, and the time."""
    with starting():
        profiler = harness.Profiler("-v", "-f", *options)
        profiler.wait_sampling()
        begin, before = time.monotonic(), sleeps(profiler.pid)
        time.sleep(seconds)
        slept, took = sleeps(profiler.pid) - before, time.monotonic() - begin
        profiler.interrupt_group()
        profiler.wait().ok()
    return slept, took


def test_what_comes_together_is_looked_at_together():
    slept, took = sleeps_of(2, "-F", 19)
    assert slept < SLEEPS * took / GATHER_S + 100, (slept, took)


def test_others_wake_four_times_a_second_at_most(any_python):
    with harness.Target(any_python, "spinner.py", "spin") as target:
        slept, took = sleeps_of(2, "-F", 19, "-p", target.pid)
    assert slept < SLEEPS * took * (1 / OTHERS_S + 1 / TICK_S) + 20, (slept, took)
