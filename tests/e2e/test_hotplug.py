# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A CPU goes and comes back while sampling.

Taking a CPU away has effects outside the test (version 1 cpusets lose it for good), so this runs
only where PYPERF_TEST_HOTPLUG=1 says that the machine is there for tests.
"""
import os
from pathlib import Path

import pytest

from harness import HZ, Profiler, Target, poll


@pytest.fixture
def cpu1():
    online = Path("/sys/devices/system/cpu/cpu1/online")
    if os.environ.get("PYPERF_TEST_HOTPLUG") != "1":
        pytest.skip("PYPERF_TEST_HOTPLUG is not 1")
    if not online.exists() or online.read_text().strip() != "1":
        pytest.skip("no cpu1 that can be taken offline")
    yield online
    if online.read_text().strip() != "1":
        online.write_text("1")


def ticks(cpu):
    for line in Path("/proc/stat").read_text().splitlines():
        if line.startswith("cpu%d " % cpu):
            return sum(map(int, line.split()[1:3]))
    return None


def test_hotplug(cpu1, any_python):
    with Target(any_python, "spinner.py", "spin_a") as a, \
            Target(any_python, "spinner.py", "spin_b") as b:
        profiler = Profiler("-v", "-f", "-F", HZ, "-p", "%d,%d" % (a.pid, b.pid))
        try:
            profiler.wait_sampling()
            try:
                cpu1.write_text("0")
            except OSError as error:
                pytest.skip("cpu1 cannot be taken offline: %s" % error)
            before = ticks(0)
            poll(lambda: ticks(0) > before + 20, "work on cpu0")
            cpu1.write_text("1")
            os.sched_setaffinity(b.pid, {1})
            before = ticks(1)
            poll(lambda: ticks(1) > before + 100, "work on cpu1")
        finally:
            profiler.interrupt_group()
            result = profiler.wait()
    result.ok().only("spin_a", "spin_b")
    # Both CPUs were sampled after the return: one alone could not have given so many.
    assert result.counters["counted"] > 0
