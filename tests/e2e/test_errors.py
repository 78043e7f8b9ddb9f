# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What goes wrong: one line that says what and what to do, the right status, no file left.

-d 3600 in these: whoever finds the error only after sampling fails by the time limit.
"""
import contextlib
import os
import re
import shutil
import subprocess

import pytest

import harness
from harness import Profiler, Target

pytestmark = pytest.mark.beside

NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"]


def fails(status, *args, **popen):
    """Runs the profiler; it must fail with this status. Returns its only line."""
    result = Profiler("-d", 3600, *args, **popen).wait()
    assert result.status == status, (result.status, result.stderr)
    assert len(result.messages) == 1, result.stderr
    assert result.stdout == ""
    return result.messages[0]


def unused_pid():
    child = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(child, 0)
    return child


@pytest.mark.parametrize("args", [
    ["-d", "x"], ["-d", "0"], ["-d", "-1"], ["-d", "1s"], ["-d", "nan"], ["-d", "inf"], ["-d", ""],
    ["-d", "1e99"], ["-F", "0"], ["-F", "-5"], ["-F", "99.5"], ["-F", "1000000000"],
    ["-F", "99999999999999999999"], ["-F", ""], ["-F", "0x10"], ["-p", "x"], ["-p", "-1"],
    ["-p", "0"], ["-p", "1,,2"], ["-p", ""], ["-p", "99999999999"],
    ["--nonsense"], ["-Z"], ["-d"], ["nonsense"], ["--"], ["--children"],
], ids=lambda args: " ".join(args) or "empty")
def test_usage(args):
    line = fails(2, *args)
    # The line names what is wrong.
    assert args[0].lstrip("-") in line


@pytest.mark.parametrize("name", ["x", "x.xyz", "x.pbz", "x.folded.gz", ".folded/x"])
def test_unknown_suffix(name, directory):
    line = fails(2, "-o", directory / name)
    assert name in line
    assert all(suffix in line for suffix in (".pb.gz", ".folded", ".txt"))
    assert not list(directory.iterdir())


def test_no_such_process(directory):
    pid = unused_pid()
    line = fails(1, "-p", pid, "-o", directory / "x.folded")
    assert str(pid) in line and re.search("(?i)no such|not exist|not running|gone", line)
    assert not list(directory.iterdir())


def test_no_python(directory):
    sleeper = subprocess.Popen(["sleep", "1000"])
    try:
        line = fails(1, "--no-children", "-p", sleeper.pid, "-o", directory / "x.folded")
    finally:
        sleeper.kill()
        sleeper.wait()
    assert str(sleeper.pid) in line and "sleep" in line, line
    assert re.search(r"(^|\W)(-a|--all)\b", line), line
    assert not list(directory.iterdir())


def test_one_bad_process_among_good_ones(any_python):
    pid = unused_pid()
    with Target(any_python, "spinner.py", "spin") as target:
        line = fails(1, "-p", "%d,%d" % (target.pid, pid))
    assert str(pid) in line


@pytest.mark.parametrize("place", ["/nonexistent/x.folded", "/proc/x.folded", "{d}/a/x.folded",
                                   "{d}/dir.folded", "{d}/file/x.folded"])
def test_unwritable_output(place, directory, any_python):
    (directory / "dir.folded").mkdir()
    (directory / "file").touch()
    path = place.format(d=directory)
    good = directory / "good.folded"
    with Target(any_python, "spinner.py", "spin") as target:
        line = fails(1, "-p", target.pid, "-o", good, "-o", path)
    assert path in line
    assert sorted(p.name for p in directory.iterdir()) == ["dir.folded", "file"]


def test_failure_keeps_the_old_file(directory):
    old = directory / "x.folded"
    old.write_text("old")
    fails(1, "-p", unused_pid(), "-o", old)
    assert [p.name for p in directory.iterdir()] == ["x.folded"] and old.read_text() == "old"


def test_success_replaces_the_old_file(directory, any_python):
    old = directory / "x.folded"
    old.write_text("old")
    with Target(any_python, "spinner.py", "spin_new") as target:
        harness.profile("-d", "0.5", "-F", 999, "-p", target.pid, "-o", old).ok()
    assert [p.name for p in directory.iterdir()] == ["x.folded"]
    assert "spin_new" in old.read_text()


def test_no_permission(directory):
    if not harness.find_tool("setpriv"):
        pytest.skip("setpriv is not installed")
    program = shutil.copy(harness.PYPERF, directory / "pyperf-bpf")
    out = directory / "out"
    out.mkdir()
    os.chmod(out, 0o777)
    done = subprocess.run([*NOBODY, program, "-d", "3600", "-o", str(out / "x.folded")],
                          capture_output=True, text=True, timeout=60)
    lines = done.stderr.splitlines()
    assert done.returncode == 1 and len(lines) == 1 and done.stdout == "", done
    assert re.search(r"CAP_BPF|CAP_PERFMON|CAP_SYS_ADMIN", lines[0]), lines[0]
    assert re.search(r"sudo|setcap|root", lines[0]), lines[0]
    assert not list(out.iterdir())


def test_no_such_cgroup():
    assert "/nonexistent" in fails(1, "-C", "/nonexistent")


def test_not_a_cgroup(directory):
    assert str(directory) in fails(1, "-C", directory)


@pytest.mark.parametrize("option", ["-h", "--help", "--version"])
def test_help(option):
    result = Profiler(option).wait()
    assert result.status == 0 and result.stdout and not result.stderr


def test_full_disk(directory, any_python):
    """The write fails: the status says so, the target keeps its old content."""
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", str(directory)],
                           capture_output=True, text=True)
    if mount.returncode:
        pytest.skip("cannot mount: " + mount.stderr.strip())
    try:
        old = directory / "x.folded"
        old.write_text("old")
        with open(directory / "filler", "wb", buffering=0) as filler:
            with contextlib.suppress(OSError):
                while filler.write(b"x" * 4096):
                    pass
            with Target(any_python, "spinner.py", "spin") as target:
                result = Profiler("-d", "0.5", "-F", 999, "-p", target.pid, "-o", old).wait()
        assert result.status == 1 and str(old) in result.stderr, result.stderr
        assert old.read_text() == "old"
        assert sorted(p.name for p in directory.iterdir()) == ["filler", "x.folded"]
    finally:
        subprocess.run(["umount", str(directory)], check=True)


# System calls of a start, of the helper processes, and of what they and the profiler tell each other: the error that each
# may give, and which of the first ones of each thread fail. scripts/fail-syscalls goes over all that there are.
FAILURES = [("openat", "EMFILE", (9, 14, 20, 27)), ("bpf", "EPERM", (1, 5, 30)), ("perf_event_open", "EMFILE", (1, 3)),
            ("socketpair", "EMFILE", (1, 2)), ("clone3", "EAGAIN", (1, 2)), ("epoll_create1", "EMFILE", (1, 2)),
            ("epoll_ctl", "ENOMEM", (1, 3)), ("renameat2,renameat,rename", "ENOSPC", (1,)),
            ("memfd_create", "ENOMEM", (1, 2)), ("fallocate", "ENOSPC", (1,)), ("process_vm_readv", "EIO", (1, 4)),
            ("sendmsg", "ENOMEM", (1, 2)), ("recvmsg", "ENOMEM", (1, 5))]


def failing(call, error, *which):
    """What runs the profiler so that a system call fails."""
    if not shutil.which("strace"):
        pytest.skip("no strace")
    return ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "signal=none", "-e", "trace=" + call, "-e",
            "inject=%s:error=%s%s" % (call, error, "".join(":when=%d" % n for n in which))]


def ends_well(result, directory, out, what):
    """A failure with a message, or a profile: no crash, no success without a result; nothing else is left, nobody blamed."""
    assert result.status in (0, 1), (what, result.status, result.stderr)
    if result.status:
        assert "pyperf-bpf: " in result.stderr, (what, result.stderr)
    else:
        assert out.stat().st_size or "the process that does it cannot be had: " in result.stderr, (what, result.stderr)
    assert {p.name for p in directory.iterdir()} <= {out.name}, what
    assert not re.search("not answer|ended the process that read", result.stderr), (what, result.stderr)


@pytest.mark.parametrize("call, error, which", FAILURES, ids=[f[0].split(",")[-1] for f in FAILURES])
def test_a_failing_call(directory, any_python, call, error, which):
    out = directory / "x.folded"
    with Target(any_python, "spinner.py", "spin") as target:
        for n in which:
            out.unlink(missing_ok=True)
            result = Profiler("-q", "-F", 499, "-d", 0.5, "-p", target.pid, "-o", out, prefix=failing(call, error, n)).wait()
            ends_well(result, directory, out, (call, n))


def test_a_helper_that_cannot_begin(directory, any_python):
    """A run that is too short for all attempts says it, too."""
    with Target(any_python, "spinner.py", "spin") as target:
        result = Profiler("-q", "-d", 0.3, "-p", target.pid, "-o", directory / "x.folded",
                          prefix=failing("prctl", "EPERM", 1)).wait()
    assert "the process that does it cannot be had: " in result.stderr, result.stderr


@pytest.mark.parametrize("files", [12, 40])
def test_few_open_files(any_python, directory, files):
    """The limit is what is named, no version of the kernel."""
    with Target(any_python, "spinner.py", "spin") as target:
        result = Profiler("-d", 0.1, "-p", target.pid, "-o", directory / "x.folded",
                          prefix=["sh", "-c", 'ulimit -n %d; exec "$@"' % files, "sh"]).wait()
    assert result.status == 1 and "Too many open files" in result.stderr, result.stderr
    assert "ulimit -n" in result.stderr and "5.15" not in result.stderr, result.stderr


def test_unknown_number_of_cpus(directory, any_python):
    """The kernel writes a value for each CPU, whatever we have room for."""
    path = "/sys/devices/system/cpu/possible"
    with Target(any_python, "spinner.py", "spin") as target:
        result = Profiler("-d", 0.1, "-p", target.pid, prefix=[*failing("openat", "EMFILE"), "-P", path]).wait()
    assert result.status == 1 and path in result.stderr, (result.status, result.stderr)
