# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Commands that look at one process, given the number of what has started it: `sh -c`, timeout, sudo."""
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

import harness
from harness import HZ, Profiler, Target, poll, spend
from test_filters import WRAPPERS

pytestmark = pytest.mark.beside

COMMANDS = {"dump": ["dump"], "tasks": ["dump", "--tasks"], "heap": ["heap", "-p"], "probes": ["probes"],
            "trace": ["trace", "-d", 1, "-p"]}

RESTS = "import os, time\ndef rests():\n    os.write(1, b'ready\\n')\n    time.sleep(600)\nrests()"


def run(command, pid):
    return subprocess.run([harness.PYPERF, *map(str, command), str(pid)], capture_output=True, text=True,
                          timeout=harness.PATIENCE, env=harness.clean_environment())


def children(pid):
    return [int(p) for p in Path("/proc/%d/task/%d/children" % (pid, pid)).read_text().split()]


def python_below(pid):
    """The last of a chain of processes."""
    while children(pid):
        pid, = children(pid)
    return pid


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_stand_in(any_python, command):
    """The only Python process below it is taken, and the message says which."""
    with Target(any_python, "spinner.py", "spin_inside", prefix=WRAPPERS["two"]) as target:
        pid = python_below(target.pid)
        found, itself = run(command, target.pid), run(command, pid)
    assert found.returncode == itself.returncode == 0, (found, itself)
    assert found.stderr.splitlines()[0] == ("pyperf-bpf: process %d is not Python: taking %d, which it started"
                                            % (target.pid, pid))
    assert "which it started" not in itself.stderr
    if command[0] == "probes":
        # Each measures what a hit costs here.
        prices = [re.sub(r"\d+\.\d\d us", "some us", " ".join(each.stdout.split())) for each in (found, itself)]
        assert prices[0] == prices[1] and "some us" in prices[0]
    else:
        assert "Process %d" % pid in found.stdout


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_several(any_python, command):
    """Of several dump shows all; the others name them and take none. Those of a Python process are its own affair."""
    script = '"$@" & "$@" & wait'
    argv = [any_python, "-c", RESTS]
    with subprocess.Popen(["sh", "-c", script, "sh", *argv], stdout=subprocess.PIPE, start_new_session=True) as sh:
        pids = []
        try:
            assert sh.stdout.readline() == sh.stdout.readline() == b"ready\n"
            pids = sorted(children(sh.pid))
            found = run(command, sh.pid)
        finally:
            sh.kill()
            for pid in pids:
                subprocess.run(["kill", str(pid)], check=True)
    named = sorted(map(int, re.findall(r"\d+", found.stderr.splitlines()[0].rpartition(":")[2])))
    assert named == pids and len(pids) == 2, found
    if command == ["dump"]:
        assert found.returncode == 0 and found.stdout.startswith("2 processes, 2 threads"), found
        assert "2 of 2 in rests" in found.stdout
    else:
        assert found.returncode == 1 and not found.stdout and found.stderr.count("\n") == 1, found
        assert "name one that it started" in found.stderr


NAMED = [["dump"], ["heap"], ["probes"], ["trace", "-d", 0.5], ["record", "-d", 0.5], ["memory", "-d", 0.5]]


@pytest.mark.parametrize("command", NAMED, ids=lambda c: c[0])
def test_two_ways_to_name(any_python, command):
    """The number of a process is a word, or that of -p."""
    with Target(any_python, "spinner.py", "spin") as target:
        word, option = run(command, target.pid), run([*command, "-p"], target.pid)
        if "-d" in command:  # the word may stand before options, too
            assert run([command[0], target.pid, "-q", "-d"], 0.1).returncode == 0
    assert word.returncode == option.returncode == 0, (word, option)
    assert word.stderr == option.stderr, (word, option)
    begins = slice(1, 4) if command[0] == "record" else slice(2)  # behind the time it took
    assert word.stdout.split()[begins] == option.stdout.split()[begins] != [], (word, option)
    both = run([*command, "-p", 1], target.pid)
    assert both.returncode and not both.stdout and both.stderr.startswith("pyperf-bpf: "), both


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_none(command):
    """A process without Python and without such descendants stays what it is."""
    with subprocess.Popen(["timeout", "600", "sleep", "600"]) as timeout:
        try:
            poll(lambda: children(timeout.pid), "timeout to start sleep")
            found = run(command, timeout.pid)
        finally:
            timeout.terminate()
    assert found.returncode == 1 and found.stderr.count("\n") == 1 and not found.stdout, found
    assert "is not Python" in found.stderr and "started" not in found.stderr


# ---- before it is Python -------------------------------------------------------------------------

# Becomes Python, or starts it, when it is told to.
LATER = {"exec": 'read line; exec "$@"', "child": 'read line; "$@"; true', "timeout": 'read line; timeout --foreground 600 "$@"; true'}
SPINS = "import os\ndef spins_later(x=1):\n    os.write(1, b'ready\\n')\n    while True: x = x * 31 & 0xffff\nspins_later()"


@pytest.mark.parametrize("script", LATER.values(), ids=LATER)
def test_later(any_python, script):
    """A process that is not Python yet is followed until it is, and what it starts."""
    argv = ["sh", "-c", script, "sh", any_python, "-c", SPINS]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as sh:
        try:
            profiler = Profiler("-v", "-f", "-F", HZ, "-p", sh.pid)
            profiler.wait_said("process %d (sh) is not Python yet: waiting for it and what it starts\n" % sh.pid)
            profiler.wait_sampling()
            sh.stdin.write(b"\n")
            sh.stdin.flush()
            assert sh.stdout.readline() == b"ready\n"
            spend(python_below(sh.pid), 0.5)
            profiler.interrupt_group()
            result = profiler.wait().ok()
        finally:
            os.killpg(sh.pid, signal.SIGKILL)
    assert "spins_later" in result.only("spins_later")
    assert result.stderr.count("not Python yet") == 1 and "did not become" not in result.stderr, result.stderr


def test_never():
    """The end is an error with the remedy, and there is no output; a command is profiled all the same."""
    with subprocess.Popen(["sh", "-c", "read line; exit"], stdin=subprocess.PIPE) as sh:
        profiler = Profiler("-f", "-p", sh.pid)
        profiler.wait_sampling()
        sh.stdin.close()
        result = profiler.wait()
    assert result.status == 1 and not result.stdout, result
    assert result.messages[-1] == ("pyperf-bpf: process %d did not become Python, nor did any process that it has "
                                   "started (-a profiles it anyway)" % sh.pid), result.messages
    command = Profiler("-f", "--", "sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done").wait()
    assert command.status == 0 and command.stdout, command
    assert "sh: neither it nor what it started was Python" in command.stderr
