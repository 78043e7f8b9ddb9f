# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""pyperf-bpf ... -- COMMAND: from its first instruction to its exit status; Ctrl-C."""
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness import HZ, PROGRAMS, Profiler, Target, parse_folded, poll, profile, profiler_argv, total

pytestmark = pytest.mark.beside

PROGRAM = str(PROGRAMS / "command.py")
BUSY = "x = 1\nfor i in range(3000000): x = (x * 31 + i) & 0xffff\n"


@pytest.mark.parametrize("status", [0, 1, 7, 255])
def test_exit_status(any_python, status):
    result = profile("-f", "--", any_python, "-c", "raise SystemExit(%d)" % status)
    assert result.status == status, result.stderr
    result.balanced()


def test_killed_command(any_python):
    result = profile("-f", "--", any_python, "-c", "import os; os.kill(os.getpid(), 15)")
    assert result.status == 128 + signal.SIGTERM, result.stderr


@pytest.mark.few_pythons
def test_first_instruction(python):
    """The start of the interpreter is in the profile: before its first line of main, site."""
    result = profile("-f", "-F", 4999, "--", python, "-X", "frozen_modules=off", "-c", BUSY).ok()
    files = {f.file for s in result.stacks for f in s.python()}
    assert any("importlib" in f for f in files), files
    assert any(re.search(r"\bsite\b", f) for f in files), files
    assert "<string>" in files


@pytest.mark.parametrize("first_line", [None, "#!{python}", "#! {python} -I", "#!/usr/bin/env python_here"])
def test_tables_are_there_before_the_command(any_python, directory, first_line):
    """The interpreter's unwind table does not have to be built while it starts: not one of the first samples lacks it."""
    (directory / "python_here").symlink_to(any_python)
    script = directory / "script"
    script.write_text("%s\nraise SystemExit(0)\n" % (first_line or "").format(python=any_python))
    script.chmod(0o755)
    command = [any_python, script] if first_line is None else [script]
    path = "%s:%s" % (directory, os.environ["PATH"])
    result = profile("-v", "-f", "--", *command, env={**os.environ, "PATH": path}).ok()
    built = result.stderr.index("%s: unwind table of" % os.path.realpath(any_python))
    assert built < result.stderr.index(" published as Python"), result.stderr
    # On a busy machine all others are there in time, too.
    lacks = result.stderr.find(" published without all its tables")
    assert lacks < 0 or built < lacks, result.stderr


@pytest.mark.parametrize("first_line, status", [
    ("#!{script}", 1), ("#!/nonexistent/x", 1), ("#!" + "/" * 5000, 0), ("#!", 0), ("#!/usr/bin/env -S true", 0)])
def test_scripts_that_name_nothing_plain(directory, first_line, status):
    """They are run, or cannot be, as without us."""
    script = directory / "script"
    script.write_text(first_line.format(script=script) + "\n")
    script.chmod(0o755)
    result = Profiler("--", script).wait()
    assert result.status == status, result.stderr
    assert status == 0 or len(result.messages) == 1 and str(script) in result.messages[0]


def test_output_of_the_command_is_its_own(any_python, directory):
    out = directory / "x.folded"
    result = profile("-o", out, "--", any_python, "-c", BUSY + "print('from the command')")
    assert result.status == 0 and "from the command" in result.stdout
    assert total(parse_folded(out.read_text())) == result.counters["counted"]


def test_children_of_the_command(any_python, directory):
    code = "import os\nif os.fork():\n    os.wait()\nelse:\n    def in_child(x=1):\n" \
           "        for i in range(3000000): x = (x * 31 + i) & 0xffff\n    in_child()\n"
    result = profile("-f", "-F", HZ, "--", any_python, "-c", code).ok()
    assert "in_child" in result.only()


def test_command_without_python(any_python):
    """All that the command starts counts, without -a: Python or not, its children as well."""
    loop = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done"
    result = profile("-f", "-F", HZ, "--", "sh", "-c", "sh -c '%s'; exec bash -c '%s'" % (loop, loop)).ok()
    assert {"sh", "bash"} <= {s.comm for s in result.stacks if s.native()}, result.stacks
    assert not result.counters["filtered_python"] and not result.counters["filtered_unknown"]


@pytest.mark.parametrize("command", ["/nonexistent/program", "/etc/passwd", "/tmp"])
def test_command_that_cannot_start(command, directory):
    result = Profiler("-o", directory / "x.folded", "--", command).wait()
    assert result.status not in (0, 2) and len(result.messages) == 1, result.stderr
    assert command in result.messages[0]
    assert not list(directory.iterdir())


def test_duration_ends_before_the_command(any_python, directory):
    """The command is not killed when the time is up."""
    ready, done = directory / "ready", directory / "done"
    out = directory / "x.folded"
    profiler = Profiler("-v", "-F", HZ, "-d", "0.5", "-o", out,
                        "--", any_python, PROGRAM, ready, done)
    try:
        poll(lambda: out.exists() and out.stat().st_size, "the report")
        pid = int(ready.read_text())
        assert os.path.exists("/proc/%d" % pid)
    finally:
        done.touch()
        result = profiler.wait()
    result.ok()


AS_WHOM = ("import os, json; print(json.dumps([os.getresuid(), os.getresgid(), os.getgroups(), "
           "{k: v for k, v in os.environ.items() if k in ('HOME', 'USER', 'MARK', 'OWN', 'PATH', 'SUDO_UID')}]))")


def run_as_sudo(argv, **env):
    """As sudo does it: its caller in variables, and above us a process of root called sudo that has the
    environment of the caller's shell."""
    code = "import subprocess, sys, os; sys.exit(subprocess.run(sys.argv[1:], env=%r).returncode)" % {
        "PATH": "/usr/bin:/bin", "HOME": "/root", "USER": "root", "LOGNAME": "root", "SUDO_COMMAND": "x",
        "SUDO_UID": "65534", "SUDO_GID": "65534", "SUDO_USER": "nobody", **env}
    code = "import ctypes; ctypes.CDLL(None).prctl(15, b'sudo', 0, 0, 0); " + code
    return subprocess.run([sys.executable, "-c", code, *map(str, argv)], capture_output=True, text=True, timeout=120,
                          env={"PATH": "/opt/of-nobody:/usr/bin:/bin", "HOME": "/of-nobody", "USER": "nobody",
                               "MARK": "kept"})


def test_runs_as_who_called_sudo(directory):
    """Not as root; with the environment that the command has without sudo, and what was set for it."""
    done = run_as_sudo(profiler_argv("-f", "-F", HZ, "-o", directory / "x.folded", "--", "python3", "-c", AS_WHOM), OWN="set")
    assert done.returncode == 0, done
    uids, gids, groups, env = json.loads(done.stdout.splitlines()[0])
    assert uids == [65534] * 3 and gids == [65534] * 3 and set(groups) <= {65534}
    assert env == {"HOME": "/of-nobody", "USER": "nobody", "MARK": "kept", "OWN": "set",
                   "PATH": "/opt/of-nobody:/usr/bin:/bin"}
    assert (directory / "x.folded").stat().st_size


def test_runs_as_root_if_asked(directory):
    done = run_as_sudo(profiler_argv("--as-root", "-q", "-o", directory / "x.folded", "--", "python3", "-c", AS_WHOM))
    uids, _, _, env = json.loads(done.stdout.splitlines()[0])
    assert uids == [0] * 3 and env["HOME"] == "/root" and env["SUDO_UID"] == "65534"


def cpu_ticks(pid):
    with open("/proc/%d/stat" % pid) as stat:
        return sum(map(int, stat.read().rpartition(")")[2].split()[11:13]))


def wait_sampled(profiler, target):
    """Until there is something to report: the target used CPU time while it was sampled."""
    profiler.wait_sampling()
    used = cpu_ticks(target.pid)
    poll(lambda: cpu_ticks(target.pid) > used + 10, "CPU time of the target")


def start_command(any_python, directory, *args):
    ready, done = directory / "ready", directory / "done"
    profiler = Profiler("-v", "-f", "-F", HZ, "--", any_python, "-B", PROGRAM, ready, done, *args)
    poll(lambda: ready.exists() or profiler.process.poll() is not None, "the command to start")
    return profiler, ready, done


def test_interrupt_reaches_both(any_python, directory):
    profiler, ready, _ = start_command(any_python, directory, "--status", 7)
    profiler.interrupt_group()
    result = profiler.wait()
    assert ready.read_text().endswith(" i"), "the command did not get the signal"
    assert result.status == 7, result.stderr
    result.balanced()
    assert total(parse_folded(result.stdout)) == result.counters["counted"]


def test_interrupt_without_command(any_python):
    with Target(any_python, "spinner.py", "spin_on") as target:
        profiler = Profiler("-v", "-f", "-F", HZ, "-p", target.pid)
        wait_sampled(profiler, target)
        profiler.interrupt_group()
        result = profiler.wait().ok()
        assert "spin_on" in result.only()
        assert target.process.poll() is None


def test_second_interrupt_aborts(any_python, directory):
    """A command that ignores Ctrl-C cannot keep the profiler."""
    profiler, ready, done = start_command(any_python, directory, "--ignore")
    try:
        profiler.interrupt_group()
        poll(lambda: ready.read_text().endswith(" i"), "the first signal")
        end = time.monotonic() + 30
        while profiler.process.poll() is None and time.monotonic() < end:
            os.kill(profiler.pid, signal.SIGINT)
            time.sleep(0.05)
        assert profiler.process.poll() is not None, "still there after many signals"
    finally:
        done.touch()
        profiler.wait()


def test_terminate_is_like_interrupt(any_python):
    with Target(any_python, "spinner.py", "spin_on") as target:
        profiler = Profiler("-v", "-f", "-F", HZ, "-p", target.pid)
        wait_sampled(profiler, target)
        os.kill(profiler.pid, signal.SIGTERM)
        assert "spin_on" in profiler.wait().ok().only()


def test_terminate_is_handed_on(any_python, directory):
    """Only the profiler is told; the command does not stay behind, and its status is the answer."""
    profiler, ready, done = start_command(any_python, directory)
    try:
        os.kill(profiler.pid, signal.SIGTERM)
        result = profiler.wait()
        assert result.status == 128 + signal.SIGTERM, result.stderr
        assert not os.path.exists("/proc/" + ready.read_text().split()[0])
        result.balanced()
        assert total(parse_folded(result.stdout)) == result.counters["counted"]
    finally:
        done.touch()


def test_terminate_while_waiting_for_the_command(any_python, directory):
    """-d is over, the report is out: the profiler can still be ended, with its command."""
    ready, done = directory / "ready", directory / "done"
    out = directory / "x.folded"
    profiler = Profiler("-d", "0.3", "-o", out, "--", any_python, "-B", PROGRAM, ready, done)
    try:
        poll(lambda: out.exists() and ready.exists(), "the report")
        os.kill(profiler.pid, signal.SIGTERM)
        assert profiler.wait().status == 128 + signal.SIGTERM
        assert not os.path.exists("/proc/" + ready.read_text().split()[0])
    finally:
        done.touch()


def test_interrupt_waits_for_the_command(any_python, directory):
    """One that takes its time to end is not left running."""
    profiler, ready, done = start_command(any_python, directory, "--ignore", "--status", 5)
    profiler.interrupt_group()
    poll(lambda: ready.read_text().endswith(" i"), "the signal")
    done.touch()
    assert profiler.wait().status == 5


def test_hangup(any_python):
    """Ends a run like Ctrl-C, but not under nohup."""
    with Target(any_python, "spinner.py", "spin_on") as target:
        args = ["-v", "-f", "-F", HZ, "-p", target.pid]
        plain, nohup = Profiler(*args), Profiler(*args, prefix=["nohup"])
        for profiler in (plain, nohup):
            wait_sampled(profiler, target)
            os.kill(profiler.pid, signal.SIGHUP)
        assert "spin_on" in plain.wait().ok().only()
        used = cpu_ticks(target.pid)
        poll(lambda: cpu_ticks(target.pid) > used + 50, "CPU time of the target")
        assert nohup.process.poll() is None
        os.kill(nohup.pid, signal.SIGTERM)
        assert "spin_on" in nohup.wait().ok().only()


def in_work(pid, directory):
    """Files below the directory that the process has open, with a name or without."""
    found = []
    for fd in Path("/proc/%d/fd" % pid).iterdir():
        with contextlib.suppress(OSError):
            found += [path for path in [os.readlink(fd)] if path.startswith(str(directory) + "/")]
    return found


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGQUIT])
def test_interrupted_before_sampling(any_python, directory, signum):
    """No temporary file stays, whatever it was doing."""
    profiler = Profiler("-o", directory / "x.folded", "-o", directory / "y.pb.gz")
    poll(lambda: list(directory.iterdir()) or in_work(profiler.pid, directory), "the temporary files")
    os.kill(profiler.pid, signum)
    status = profiler.wait().status
    assert status in (0, 128 + signum)
    assert {p.name for p in directory.iterdir()} <= ({"x.folded", "y.pb.gz"} if not status else set())


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_standard_descriptors_closed(any_python, directory, closed):
    """No message and no report ends up in a file that got a standard number."""
    out = directory / "x.folded"
    with Target(any_python, "spinner.py", "spin_on") as target:
        argv = profiler_argv("-v", "-F", HZ, "-d", "0.5", "-p", target.pid, "-o", out)
        done = subprocess.run(["sh", "-c", 'exec "$@" ' + closed, "sh", *argv], timeout=60,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
    assert total(parse_folded(out.read_text())) > 0
    assert done.returncode == (1 if ">&-" in closed.split() else 0), done.stderr


def test_ends_with_its_processes(any_python):
    """-p: there is nothing to wait for when the last one has ended. What it did is shown."""
    with Target(any_python, "spinner.py", "spin_then_die") as target, \
            Target(any_python, "spinner.py", "spin_longer") as other:
        pids = "%d,%d" % (target.pid, other.pid)
        profiler = Profiler("-v", "-f", "-F", HZ, "-d", 3600, "-p", pids)
        wait_sampled(profiler, target)
        target.stop()
        used = cpu_ticks(other.pid)
        poll(lambda: cpu_ticks(other.pid) > used + 100, "CPU time of the other one")
        assert profiler.process.poll() is None
        other.stop()
        result = profiler.wait().ok()
    assert result.only("spin_then_die", "spin_longer")
    result.complete()


def test_stdout_closed(any_python):
    """A reader that goes away is an error with a name, not a crash."""
    read, write = os.pipe()
    os.close(read)
    with Target(any_python, "spinner.py", "spin") as target:
        done = subprocess.run(profiler_argv("-d", "0.3", "-p", target.pid), stdout=write,
                              stderr=subprocess.PIPE, timeout=60)
    os.close(write)
    assert done.returncode in (1, -signal.SIGPIPE, 128 + signal.SIGPIPE), done.stderr


def test_nothing_before_the_command(any_python):
    """The profiler's own child, which waits to become the command, is in no profile of waits."""
    result = profile("-f", "-e", "wall", "-F", HZ, "--", any_python, "-c", "import time; time.sleep(0.3)").ok()
    assert result.stacks and not [s for s in result.stacks if s.comm == "pyperf-bpf"], result.stdout
    assert "without Python" not in result.stderr
    result.balanced()
