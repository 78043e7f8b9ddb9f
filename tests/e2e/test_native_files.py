# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Files that come, go and change under running processes: a name is right, or there is none.

The truth is in each stack: in_N() of programs/libs.c calls the function work_N() of library N.
"""
import contextlib
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

import harness

pytestmark = pytest.mark.beside

HZ = 1999
OPTIONS = ["-v", "-f", "-a", "-F", HZ, "--no-kernel"]


def make_library(path, number, *flags):
    # The same function lies elsewhere in each: a wrong file would show a wrong name.
    return harness.compile_c(path, "spinlib.c", "-shared", "-fPIC", "-nostartfiles",
                             "-DNAME=work_%d" % number, "-DPAD=%d" % (64 + 64 * number), *flags)


@pytest.fixture
def libs(directory):
    """(the program, three libraries)"""
    # --comm looks at the whole machine, where another run of the tests may be under way.
    program = harness.compile_c(directory / ("libs%d" % os.getpid()), "libs.c")
    return program, [make_library(directory / ("lib%d.so" % n), n) for n in range(3)]


def start(program, *args, **popen):
    return harness.Process([program, *args], **popen)


def caller(stack):
    """(index, N) of the frame in_N()."""
    for i, frame in enumerate(stack.frames):
        if match := re.fullmatch(r"in_(\d)", frame.name):
            return i, int(match[1])
    return None, None


def check_names(stacks, expect=None):
    """The libraries that are shown, where no stack shows another one, or another function, than it is in."""
    shown = set()
    for stack in stacks:
        # Between its functions a library is never: it is another one that is there.
        assert not any(re.fullmatch(r"(lib\d\.so\+)?0x[0-9a-f]+ \[lib\d\.so\]", f.text)
                       for f in stack.frames), stack
        i, number = caller(stack)
        if i is None:
            continue
        number = expect[number] if expect else number
        for frame in stack.frames[i + 1:]:
            if frame.kind == harness.NATIVE and frame.file != "anon" and frame.name != "spin":
                assert frame.name == "work_%d" % number, stack
                shown.add(number)
    return shown


def test_address_reuse(libs):
    """Each library is opened where another one was a moment before."""
    program, paths = libs
    with start(program, "reopen", 300000, 0, 0, *paths) as target:
        result = harness.profile(*OPTIONS, "-d", 2, "-p", target.pid).ok()
        assert target.stop()["reused"] > 20
    assert check_names(result.stacks) == {0, 1, 2}


def one_cpu():
    """Before the command of each of two: none runs on while the other waits for its turn behind a third."""
    return ["taskset", "-c", str(min(os.sched_getaffinity(0)))]


def start_profiler(pid):
    profiler = harness.Profiler(*OPTIONS, "-p", pid, prefix=one_cpu())
    profiler.wait_sampling()
    return profiler


def test_address_reuse_unseen(libs):
    """The same while user space does not look: the kernel's part must not believe what it was told."""
    program, paths = libs
    with start(*one_cpu(), program, "reopen", 300000, 0, 0, *paths) as target:
        profiler = start_profiler(target.pid)
        harness.spend(target.pid, 0.7)
        os.kill(profiler.pid, signal.SIGSTOP)
        harness.spend(target.pid, 0.5)
        os.kill(profiler.pid, signal.SIGCONT)
        harness.spend(target.pid, 0.7)
        profiler.interrupt_group()
        result = profiler.wait().ok()
        assert target.stop()["reused"] > 20
    assert check_names(result.stacks) == {0, 1, 2}
    assert harness.total(filter(unmapped, result.stacks)) > 20 and result.counters["note_remapped"], result.counters


def unmapped(stack):
    return any(m.name == "unmapped" for m in stack.markers())


def busy_or_waiting(pid):
    """Seconds that the threads of a process had of a CPU, and that they waited for one."""
    text = [path.read_text().split() for path in Path("/proc/%d/task" % pid).glob("*/schedstat")]
    return sum(int(on_cpu) + int(delay) for on_cpu, delay, _ in text) / 1e9


def test_opened_among_others(libs):
    """With -p what others map does not wake the profiler each time; what the process maps does.

    On a machine with many runnable processes the target runs on while the profiler waits for its turn:
    that much more may have no name.
    """
    program, paths = libs
    noise = ["bash", "-c", "while read -t 0.01; [ $? -gt 128 ]; do /bin/true; done"]  # until its stdin ends
    with subprocess.Popen(noise, stdin=subprocess.PIPE) as others, \
             start(program, "renew", 200000000, 50, 0, *paths) as target:
        profiler = harness.Profiler(*OPTIONS, "-p", target.pid)
        profiler.wait_sampling()
        before = busy_or_waiting(profiler.pid)
        harness.spend(target.pid, 3)
        late = busy_or_waiting(profiler.pid) - before
        profiler.interrupt_group()
        result = profiler.wait().ok()
        others.communicate()
        target.stop()
    assert check_names(result.stacks) == {0, 1, 2}
    nameless = harness.total(filter(unmapped, result.stacks)) / HZ
    assert nameless < 0.12 * harness.total(result.stacks) / HZ + late, (nameless, late)


def test_replaced_and_deleted(libs, directory):
    """A package upgrade under a running process: rename over the file, and later its removal."""
    program, paths = libs
    path = directory / "package.so"
    with contextlib.ExitStack() as stack:
        make_library(path, 0)
        old = stack.enter_context(start(program, "keep", 100000, 0, 0, path))
        make_library(directory / "new.so", 1)
        os.rename(directory / "new.so", path)
        new = stack.enter_context(start(program, "keep", 100000, 0, 0, path))
        make_library(directory / "newer.so", 2)
        os.rename(directory / "newer.so", path)
        newest = stack.enter_context(start(program, "keep", 100000, 0, 0, path))
        path.unlink()
        for number, target in enumerate([old, new, newest]):
            result = harness.profile(*OPTIONS, "-d", 1, "-p", target.pid).ok()
            assert check_names(result.stacks, [number]) == {number}
            result.complete(0.98)


def test_replaced_while_sampling(libs, directory):
    """One profile over an upgrade: both names, each in its process."""
    program, paths = libs
    path = directory / "package.so"
    make_library(path, 0)
    with start(program, "keep", 100000, 0, 0, path) as old:
        os.rename(paths[1], path)
        with start(program, "keep", 100000, 0, 0, path, paths[2]) as new:
            profiler = harness.Profiler(*OPTIONS, "--threads", "-d", 2, "-p",
                                        "%d,%d" % (old.pid, new.pid))
            profiler.wait_sampling()
            path.unlink()
            result = profiler.wait().ok()
        assert check_names([s for s in result.stacks if s.tid == old.pid], [0]) == {0}
        assert check_names([s for s in result.stacks if s.tid == new.pid], [1, 2]) == {1, 2}


def test_memfd(libs):
    """A library in memory, of no file system; its name in /proc ends in (deleted)."""
    program, paths = libs
    fd = os.memfd_create("package", 0)
    os.write(fd, paths[1].read_bytes())
    with start(program, "keep", 100000, 0, 0, "/proc/self/fd/%d" % fd, paths[2],
                        pass_fds=[fd]) as target:
        os.close(fd)
        result = harness.profile(*OPTIONS, "-d", 1, "-p", target.pid).ok()
    assert check_names(result.stacks, [1, 2]) == {1, 2}
    result.complete(0.98)


def flags_of(run, path):
    """With which flags it has that file open."""
    flags = []
    for fd in run.descriptors(str(path)):
        with contextlib.suppress(FileNotFoundError), open("/proc/%d/fdinfo/%s" % (run.pid, fd)) as f:
            flags.append(int(re.search(r"flags:\s*(\d+)", f.read())[1], 8))
    return flags


def test_overlayfs(libs, directory):
    """A library below an overlay, before and after a write has copied it up."""
    program, _ = libs
    for name in ("lower", "upper", "work", "merged"):
        (directory / name).mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", directory / "upper"], check=True)
    try:
        (directory / "upper/up").mkdir()
        (directory / "upper/work").mkdir()
        make_library(directory / "lower/package.so", 0)
        mount = subprocess.run(["mount", "-t", "overlay", "overlay", "-o",
                                "lowerdir=%s/lower,upperdir=%s/upper/up,workdir=%s/upper/work"
                                % (directory, directory, directory), directory / "merged"],
                               capture_output=True, text=True)
        if mount.returncode:
            pytest.skip("no overlayfs here: " + mount.stderr.strip())
        path = directory / "merged/package.so"
        try:
            with start(program, "keep", 100000, 0, 0, path) as below:
                os.chmod(path, 0o755)  # copies it up
                with start(program, "keep", 100000, 0, 0, path) as above:
                    for target in (below, above):
                        result = harness.profile(*OPTIONS, "-d", 1, "-p", target.pid).ok()
                        assert check_names(result.stacks, [0]) == {0}
                        result.complete(0.98)
                    # To close an open file may wait for the server of what lies below: it has none.
                    run, flags = harness.Profiler(*OPTIONS, "-d", 1, "-p", above.pid), []
                    harness.poll(lambda: flags.extend(flags_of(run, path)) or flags or run.process.poll() is not None,
                                 "its descriptor")
                    run.wait().ok()
                    assert flags and all(f & os.O_PATH for f in flags), flags
        finally:
            subprocess.run(["umount", "-l", directory / "merged"], check=True)
    finally:
        subprocess.run(["umount", "-l", directory / "upper"], check=True)


def test_thousands_of_mappings(libs):
    program, paths = libs
    with start(program, "keep", 100000, 0, 4000, *paths) as target:
        result = harness.profile(*OPTIONS, "-d", 1, "-p", target.pid).ok()
    assert check_names(result.stacks) == {0, 1, 2}
    result.complete(0.98)


def test_hundreds_of_processes(libs, directory):
    """All at once, each with its libraries, some of them mapping another one meanwhile."""
    program, paths = libs
    with contextlib.ExitStack() as stack:
        for i in range(200):
            mode = "keep" if i % 10 else "reopen"
            stack.enter_context(start(program, mode, 20000, 100, 0, *paths))
        result = harness.profile(*OPTIONS, "-d", 2, "--comm", program.name).ok()
    assert check_names(result.stacks) == {0, 1, 2}
    assert result.counters["lost_no_proc"] <= 0.01 * result.counters["delivered"], result.counters
