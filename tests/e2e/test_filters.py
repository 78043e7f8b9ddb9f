# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Which processes are sampled, and what a stack shows."""
import contextlib
import os
from pathlib import Path

import pytest

from harness import HZ, Target, poll, profile, profile_target, total


@pytest.fixture
def spin(any_python):
    """spin(NAME, ...) starts a process that spins in a function of that name."""
    with contextlib.ExitStack() as stack:
        yield lambda *args: stack.enter_context(Target(any_python, "spinner.py", *args))


def test_several_pids(spin):
    a, b, _ = spin("spin_a"), spin("spin_b"), spin("spin_c")
    for pids in (["-p", "%d,%d" % (a.pid, b.pid)], ["-p", a.pid, "-p", b.pid]):
        result = profile("-f", "-F", HZ, "-d", 1, *pids).ok()
        assert result.only("spin_a", "spin_b") == {"spin_a", "spin_b"}
        assert result.counters["filtered_target"] > 0


def test_pid_beside_a_command(spin, any_python):
    a, _ = spin("spin_a"), spin("spin_b")
    code = "def of_command(x=1):\n    for i in range(9000000): x = (x * 31 + i) & 0xffff\nof_command()"
    result = profile("-f", "-F", HZ, "-p", a.pid, "--", any_python, "-c", code).ok()
    names = result.only("spin_a", "of_command")
    assert "spin_b" not in names


def test_default_is_every_python(spin):
    spin("spin_a"), spin("spin_b")
    result = profile("-f", "-F", HZ, "-d", 1).ok()
    result.only("spin_a", "spin_b")


def test_comm(spin):
    spin("spin_x", "--comm", "pyt-xa"), spin("spin_y", "--comm", "pyt-ya")
    spin("spin_z", "--comm", "pyt-z [b]")
    for glob, names in (("pyt-x*", {"spin_x"}), ("pyt-?a", {"spin_x", "spin_y"}),
                        ("pyt-[!x]*", {"spin_y", "spin_z"}), ("*[[]b]", {"spin_z"}),
                        ("pyt-xa", {"spin_x"}), ("yt-*", set())):
        result = profile("-f", "-F", HZ, "-d", 0.5, "--comm", glob).ok()
        assert result.only(*names) == names, glob
        assert {s.comm for s in result.stacks} <= {"pyt-xa", "pyt-ya", "pyt-z [b]"}
        assert result.counters["filtered_comm"] > 0


def test_without_children(any_python):
    result, _ = profile_target(any_python, "family.py", seconds=2)
    names = {f.name for s in result.stacks for f in s.python()}
    assert "parent_work" in names and not names & {"child_work", "elder_work"}


def test_children(any_python):
    result, _ = profile_target(any_python, "family.py", seconds=2, options=["--children"])
    names = {f.name for s in result.stacks for f in s.python()}
    assert {"parent_work", "child_work", "elder_work"} <= names
    result.complete()


# ---- control groups ------------------------------------------------------------------------------

def hierarchy(version):
    """Where a hierarchy is mounted in which processes can be grouped, or None."""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, path, kind, options, *_ = line.split()
        if version == 2 and kind == "cgroup2":
            return path
        if version == 1 and kind == "cgroup" and "cpu" in options.split(","):
            return path
    return None


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def cgroups(request):
    """(outer, inner): two nested control groups, empty."""
    top = hierarchy(request.param)
    if not top:
        pytest.skip("no cgroup v%d hierarchy is mounted" % request.param)
    outer = Path(top) / ("pyperf-e2e-%d" % os.getpid())
    inner = outer / "inner"
    try:
        inner.mkdir(parents=True)
    except OSError as error:
        pytest.skip("cannot make a cgroup v%d: %s" % (request.param, error))
    yield outer, inner
    for group in (inner, outer):
        def gone(group=group):
            with contextlib.suppress(OSError):
                group.rmdir()
            return not group.exists()
        poll(gone, "the control group to be empty")


def test_cgroup(cgroups, any_python):
    outer, inner = cgroups
    with contextlib.ExitStack() as stack:
        def spin(name, group=None):
            target = stack.enter_context(Target(any_python, "spinner.py", name))
            if group:
                (group / "cgroup.procs").write_text(str(target.pid))
        spin("spin_outer", outer), spin("spin_inner", inner), spin("spin_outside")
        for group, names in ((outer, {"spin_outer", "spin_inner"}), (inner, {"spin_inner"})):
            result = profile("-f", "-F", HZ, "-d", 1, "-C", group).ok()
            assert result.only(*names) == names
            assert result.counters["filtered_cgroup"] > 0


# ---- what a stack shows --------------------------------------------------------------------------

def test_no_kernel(spin):
    target = spin("in_kernel", "--syscalls")
    full = profile("-f", "-F", HZ, "-d", 1, "-p", target.pid).ok()
    # Kernel frames come last, below the Python and native ones that called the kernel.
    with_kernel = [s for s in full.stacks if s.kernel() and s.python()]
    assert total(with_kernel) >= 0.3 * total(full.stacks)
    for stack in with_kernel:
        kinds = [f.kind == "kernel" for f in stack.frames]
        assert kinds == sorted(kinds), stack
    bare = profile("-f", "-F", HZ, "-d", 1, "-p", target.pid, "--no-kernel").ok()
    assert not any(s.kernel() for s in bare.stacks)
    # The sample is still there, under the function that called the kernel.
    assert "in_kernel" in bare.only()


def test_no_lines(spin):
    target = spin("spin_a")
    result = profile("-f", "-F", HZ, "-d", 1, "-p", target.pid, "--no-lines").ok()
    leaves = {str(s.leaf()) for s in result.stacks if s.leaf() and s.leaf().name == "spin_a"}
    assert leaves == {"spin_a (/spinner/spin_a.py)"}


def test_no_native_no_kernel(spin):
    target = spin("in_kernel", "--syscalls")
    result = profile("-f", "-F", HZ, "-d", 1, "-p", target.pid, "--no-native", "--no-kernel").ok()
    kinds = {f.kind for s in result.stacks for f in s.frames}
    assert kinds <= {"python", "marker"}
    assert "in_kernel" in result.only()
