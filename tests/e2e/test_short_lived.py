# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""100 processes of 50 to 200 ms: all dead when the report is made, and all in it."""
import ast
import os
import subprocess

import pytest

from conftest import INTERPRETERS, interpreter_name
from harness import HZ, PROGRAMS, Profiler, clean_environment, profile, stolen_seconds, total

COUNT = 100
PROGRAM = str(PROGRAMS / "short_lived.py")


def interpreter(slot):
    if slot not in INTERPRETERS:
        pytest.skip(interpreter_name(slot) + " is not installed")
    return INTERPRETERS[slot]


def lines_of(name):
    tree = ast.parse(open(PROGRAM).read())
    (node,) = [n for n in tree.body if getattr(n, "name", None) == name]
    return range(node.lineno, node.end_lineno + 1)


def check(result, log, stolen):
    """`stolen`: what a hypervisor had taken when it began."""
    spent = [float(line) for line in log.read_text().split()]
    assert len(spent) == COUNT
    lines = lines_of("work")
    in_work = [s for s in result.stacks
               if any(f.name == "work" and f.file == PROGRAM and f.line in lines
                      for f in s.python())]
    attributed = total(in_work) / HZ
    # Not to be seen: what the hypervisor took since.
    stolen = stolen_seconds() - stolen
    assert 0.95 * sum(spent) - stolen <= attributed <= 1.05 * sum(spent), (
        attributed, sum(spent), stolen, result.counters)
    # The whole stack, not just the function.
    rooted = [s for s in in_work if s.python()[0].name == "<module>"]
    assert total(rooted) >= 0.95 * total(in_work)


@pytest.mark.parametrize("slot, mode", [("system", "multiprocessing"), ("3.13", "fork")])
def test_forked(slot, mode, directory):
    log, stolen = directory / "log", stolen_seconds()
    log.touch()
    check(profile("-f", "-F", HZ, "--", interpreter(slot), "-B", PROGRAM, mode, log, COUNT).ok(),
          log, stolen)


@pytest.mark.parametrize("slot", ["system", "3.13"])
def test_exec(slot, directory):
    """Separately started ones, found by watching the whole machine."""
    log, stolen = directory / "log", stolen_seconds()
    log.touch()
    profiler = Profiler("-v", "-f", "-F", HZ)
    try:
        profiler.wait_sampling()
        subprocess.run([interpreter(slot), "-B", PROGRAM, "exec", log, str(COUNT)], check=True,
                       env=clean_environment(), timeout=300)
    finally:
        profiler.interrupt_group()
        result = profiler.wait()
    check(result.ok(), log, stolen)
    assert not os.path.exists("/proc/%d" % profiler.pid)
