# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Nothing is left behind, however the profiler ends."""
import json
import os
import signal
import subprocess

import pytest

from harness import HZ, PROGRAMS, Profiler, Target, find_tool, poll, profile

pytestmark = pytest.mark.beside


def listed(kind):
    """The ids of all BPF programs, maps or links of the machine."""
    bpftool = find_tool("bpftool")
    if not bpftool:
        pytest.skip("bpftool is not installed")
    out = subprocess.run([bpftool, "-j", kind, "list"], capture_output=True, text=True, check=True)
    return {entry["id"] for entry in json.loads(out.stdout or "[]")}


def pinned():
    found = set()
    for directory, _, files in os.walk("/sys/fs/bpf"):
        found |= {os.path.join(directory, f) for f in files}
    return found


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_nothing_stays(any_python, directory, end):
    before = pinned()
    with Target(any_python, "spinner.py", "spin") as target:
        profiler = Profiler("-f", "-F", HZ, "-p", target.pid, "-o", directory / "x.folded")
        profiler.wait_sampling()
        ids = profiler.bpf_ids()
        assert ids["prog"] and ids["map"], ids
        for kind, own in ids.items():
            assert own <= listed(kind), "the ids are not those of bpftool"
        os.kill(profiler.pid, end)
        profiler.wait()
        # The kernel frees them from a work queue.
        for kind, own in ids.items():
            poll(lambda k=kind, o=own: not o & listed(k), "the %ss to be freed" % kind)
        # It runs on, undisturbed.
        assert target.process.poll() is None
    assert pinned() <= before
    names = [p.name for p in directory.iterdir()]
    assert end == signal.SIGKILL or names == ["x.folded"], names
    assert "x.folded" not in names or end != signal.SIGKILL, "half-written output"


def test_killed_profiler_leaves_its_command(any_python, directory):
    ready, done = directory / "ready", directory / "done"
    profiler = Profiler("-f", "--", any_python, "-B", PROGRAMS / "command.py", ready, done)
    try:
        poll(ready.exists, "the command to start")
        os.kill(profiler.pid, signal.SIGKILL)
        profiler.wait()
        pid = int(ready.read_text())
        assert os.path.exists("/proc/%d" % pid)
    finally:
        done.touch()
    poll(lambda: not os.path.exists("/proc/%d" % pid), "the command to end")


def test_two_at_once(any_python):
    """Two profilers do not disturb each other."""
    with Target(any_python, "spinner.py", "spin_a") as a, \
            Target(any_python, "spinner.py", "spin_b") as b:
        first = Profiler("-v", "-f", "-F", HZ, "-d", 2, "-p", a.pid)
        second = profile("-f", "-F", HZ, "-d", 1, "-p", b.pid).ok()
        first = first.wait().ok()
    assert first.only("spin_a") == {"spin_a"}
    assert second.only("spin_b") == {"spin_b"}
