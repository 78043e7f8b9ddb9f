# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Many of everything at once: what is shown of each is right, and nothing is lost without a reason.

A thread or process works in a function whose name is its number modulo seven: the truth is the kernel's.
"""
import contextlib
import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import INTERPRETERS
from harness import clean_environment, profile, total

PROGRAM = Path(__file__).parent / "programs" / "many.py"
KINDS = 7
KIND = re.compile(r"kind_(\d)")


@contextlib.contextmanager
def many(python, what, count):
    """The pid of a process with so many; all of it is in a process group of its own."""
    process = subprocess.Popen([str(python), str(PROGRAM), what, str(count)], text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               env=clean_environment(), start_new_session=True)
    try:
        assert process.stdout.readline() == "ready\n"
        yield process.pid
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def kinds_of(names):
    return {int(m[1]) for m in map(KIND.fullmatch, names) if m}


def check_account(result):
    assert result.counters["delivered"] == (
        result.counters["counted"] + result.sum_of("filtered_") + result.sum_of("lost_"))
    assert result.sum_of("lost_") == 0
    assert result.counters["complete"] >= 0.99 * result.counters["user_stacks"]


def test_threads(any_python):
    count = 1000
    with many(any_python, "threads", count) as pid:
        result = profile("-f", "--threads", "-F", 1999, "-d", 4, "-p", pid).ok()
    check_account(result)
    seen = set()
    for stack in result.stacks:
        kinds = kinds_of(f.name for f in stack.frames)
        if kinds:
            assert kinds == {stack.tid % KINDS}, stack
            seen.add(stack.tid)
    assert total(result.stacks) == result.counters["counted"]
    assert len(seen) > count / 4


def check_processes(python, what, count, seconds, tmp_path):
    with many(python, what, count) as pid:
        result = profile("-F", 1999, "-d", seconds, "-p", pid, "--children",
                         "-o", tmp_path / "x.json").ok()
    check_account(result)
    shown = json.loads((tmp_path / "x.json").read_text())
    assert sum(s["samples"] for s in shown["processes"]) == result.counters["counted"]
    seen = set()
    for stack in shown["stacks"]:
        names = [shown["frames"][i].get("function", "") for i in stack["frames"]]
        number = shown["processes"][stack["process"]]["pid"]
        kinds = kinds_of(names)
        if kinds:
            assert kinds == {number % KINDS}, names
            seen.add(number)
    assert len(seen) > count / 2


def test_processes(any_python, tmp_path):
    check_processes(any_python, "processes", 250, 4, tmp_path)


@pytest.mark.parametrize("version", ["3.13"])
def test_twins(version, tmp_path):
    """From 3.13 on code objects are known by their addresses, while their interpreter makes none."""
    if version not in INTERPRETERS:
        pytest.skip("python%s is not installed" % version)
    check_processes(INTERPRETERS[version], "twins", 100, 2, tmp_path)
