# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Threads are called as Python calls them, or as the kernel does; never as another thread."""
import os
import signal

import pytest

import interpreters
import pprof_read
from harness import Profiler, Target, profile, profile_target, spend

pytestmark = pytest.mark.beside

OLD = ["2.7", "3.6", "3.7"]


def shown(name):
    """The name as it stands in a folded line."""
    name = "".join("\ufffd" if ord(c) < 32 else c for c in name)
    return name.replace(";", ":")


def check_names(python, *options):
    result, truth = profile_target(python, "thread_names.py", seconds=1,
                                   options=["--threads", *options])
    got = {s.tid: s.thread for s in result.stacks}
    assert len(set(truth["names"].values())) == len(truth["names"]), truth
    names = {int(tid): shown(name) for tid, name in truth["names"].items()}
    assert got == {tid: name for tid, name in names.items() if tid in got}
    assert len(got) > len(names) / 2  # on a busy machine not every thread has its turn
    return {tid: truth["names"][str(tid)] for tid in got}


def test_thread_names(python):
    check_names(python)


@pytest.mark.parametrize("version", OLD)
def test_thread_names_old(version):
    for path in sorted(interpreters.PYENV.glob("%s.*/bin/python%s" % (version, version))):
        check_names(str(path))
        return
    pytest.skip("python%s is not installed" % version)


def test_thread_names_pprof(any_python, directory):
    names = check_names(any_python, "-o", directory / "out.pb.gz")
    labels = [sample["labels"] for sample in pprof_read.read(directory / "out.pb.gz")["samples"]]
    got = {each["tid"]: each["thread"] for each in labels if "tid" in each}
    assert got == {int(tid): shown(name).replace(":", ";") for tid, name in names.items()}


def test_threads_that_have_ended(any_python):
    """Their counts are read when they are gone."""
    with Target(any_python, "brief_threads.py") as target:
        profiler = Profiler("-v", "-f", "-F", 499, "-p", target.pid, "--threads")
        profiler.wait_sampling()
        spend(target.pid, 1)
        os.kill(target.pid, signal.SIGUSR1)
        assert target.read_line() == b"ended\n"
        spend(target.pid, 0.2)
        profiler.interrupt_group()
        result, truth = profiler.wait().ok(), target.stop()
    names = {int(tid): name for tid, name in truth["names"].items()}
    assert len(names) == 5
    got = {s.tid: s.thread for s in result.stacks}
    assert set(got) > {tid for tid, name in names.items() if name.startswith("brief")}
    assert got == {tid: names[tid] for tid in got}


def test_main_thread(any_python):
    """Also of a program that never imports threading."""
    code = "import sys\nassert 'threading' not in sys.modules\nx = 1\nfor i in range(20000000): x = (x * 31 + i) & 0xffff\n"
    result = profile("-f", "-F", 499, "--threads", "--", any_python, "-S", "-c", code).ok()
    spinning = [s for s in result.stacks if s.leaf()]
    assert {s.thread for s in spinning} == {"MainThread"}, spinning
