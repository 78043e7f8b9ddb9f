# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""pyperf-bpf ... -- COMMAND: from its first instruction to its exit status; Ctrl-C."""
import os
import re
import signal
import subprocess
import time

import pytest

from harness import (HZ, PROGRAMS, Profiler, Target, parse_folded, poll, profile, profiler_argv,
                     total)

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


def test_first_instruction(python):
    """The start of the interpreter is in the profile: before its first line of main, site."""
    result = profile("-f", "-F", 4999, "--", python, "-X", "frozen_modules=off", "-c", BUSY).ok()
    files = {f.file for s in result.stacks for f in s.python()}
    assert any("importlib" in f for f in files), files
    assert any(re.search(r"\bsite\b", f) for f in files), files
    assert "<string>" in files


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


def test_command_without_python():
    result = profile("-F", HZ, "--", "true").ok()
    assert re.search(r"(?i)nothing|no samples", result.stdout + result.stderr)


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


def test_target_ends_before_the_profiler(any_python):
    """What a process did is shown although it is gone."""
    with Target(any_python, "spinner.py", "spin_then_die") as target:
        profiler = Profiler("-v", "-f", "-F", HZ, "-d", 2, "-p", target.pid)
        wait_sampled(profiler, target)
        target.stop()
        result = profiler.wait().ok()
    assert "spin_then_die" in result.only()
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
