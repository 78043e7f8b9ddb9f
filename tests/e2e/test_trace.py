# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""trace and probes: every call is counted, exactly, and nothing is left behind."""
import json
import signal
import subprocess
from pathlib import Path

import pytest

import harness
from harness import Target, poll
from tracing import PROGRAM, Trace, compare, counts_of, work

SPIN = "import sys\ndef f(): pass\nprint('ready', flush=True)\nwhile True: f()\n"


def run(*args):
    return subprocess.run([harness.PYPERF, *map(str, args)], capture_output=True, text=True,
                          timeout=harness.PATIENCE, env=harness.clean_environment())


def test_counts(python):
    """Recursion, generators, await, throw, exceptions, __init__, C callbacks, threads, code that is replaced."""
    compare(python)


def test_counts_add_up(any_python):
    """What was counted for one run is there twice after two, and a table a second says so meanwhile."""
    with Target(any_python, "counted.py", "run") as target:
        trace = Trace(target.pid, "--top", 0, "--force", "-i", "0.1")
        work(target)
        work(target)
        trace.process.send_signal(signal.SIGTERM)
        lines = [json.loads(line) for line in trace.process.stdout]
    assert trace.process.wait(harness.PATIENCE) == 0
    fib = [f["calls"] for f in lines[-1]["functions"] if f["function"] == "fib"]
    assert fib == [2 * (1973 + 4 * 30 * 25)]
    totals = [line["calls"] for line in lines]
    assert totals == sorted(totals) and [line["final"] for line in lines] == [False] * (len(lines) - 1) + [True]


def test_filter(any_python):
    """Only what is asked for; a name that is not there brings one that is."""
    with Target(any_python, "counted.py", "run") as target:
        trace = Trace(target.pid, "--top", 0, "--force", "-f", "counted:fi?", "-f", "counted.py:deep")
        work(target)
        found = trace.finish()
        assert {f["function"]: f["calls"] for f in found["functions"]} == {"fib": 1973 + 4 * 30 * 25, "deep": 301}
        assert found["calls"] == 1973 + 4 * 30 * 25 + 301
        trace = Trace(target.pid, "--force", "-f", "counted:raisr")
        work(target)
        assert trace.finish()["functions"] == []
        assert "did you mean raiser (%s:" % PROGRAM in "".join(trace.messages)


def spots(python):
    """File and offsets of the breakpoints that count calls."""
    with subprocess.Popen([python, "-c", "print(flush=True); input()"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        found = json.loads(run("probes", process.pid, "--json").stdout)
        process.stdin.close()
    assert found["why_no_calls"] is None
    return found["path"], [c["offset"] for c in found["calls"] if c["what"] == "call"]


def code_at(pid, path, offset):
    """The byte that the process has there."""
    for line in Path("/proc/%d/maps" % pid).read_text().splitlines():
        fields = line.split()
        start, end = (int(x, 16) for x in fields[0].split("-"))
        at = start + offset - int(fields[2], 16)
        if fields[-1] == path and "x" in fields[1] and start <= at < end:
            with open("/proc/%d/mem" % pid, "rb") as mem:
                mem.seek(at)
                return mem.read(1)
    raise AssertionError("%s is not mapped there" % path)


def test_nothing_is_left(python):
    """Breakpoints are in that process alone, and go with the tracer, however it ends."""
    path, offsets = spots(python)
    with open(path, "rb") as f:
        own = [(f.seek(offset), f.read(1))[1] for offset in offsets]

    def bytes_of(pid):
        return [code_at(pid, path, offset) for offset in offsets]

    with Target(python, "counted.py", "run") as target, Target(python, "counted.py", "run") as other:
        for sig in signal.SIGINT, signal.SIGKILL:
            trace = Trace(target.pid)
            assert set(bytes_of(target.pid)) == {b"\xcc"}
            work(other)
            assert bytes_of(other.pid) == own
            trace.process.send_signal(sig)
            trace.process.communicate()
            poll(lambda: bytes_of(target.pid) == own, "the breakpoints to go")
            work(target)


def test_too_expensive(any_python):
    with subprocess.Popen([any_python, "-c", SPIN], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        try:
            refused = run("trace", "-p", process.pid)
            assert refused.returncode == 1 and not refused.stdout
            assert "would slow it down by" in refused.stderr and "more than 10%" in refused.stderr
            allowed = run("trace", "-p", process.pid, "--force", "-d", "0.3")
            assert allowed.returncode == 0 and " f (<string>:2)" in allowed.stdout
        finally:
            process.kill()


def test_target_ends(any_python):
    with Target(any_python, "counted.py", "run") as target:
        trace = Trace(target.pid, "--top", 0, "--force")
        work(target)
        target.end()
        found = trace.finish(sig=None)
    assert counts_of(found, PROGRAM)["Point.__init__:%d" % line_of("Point")
                                     if "Point.__init__" in str(found) else
                                     "__init__:%d" % line_of("Point")][0] == 500


def line_of(name):
    """Of the __init__ of a class."""
    lines = PROGRAM.read_text().splitlines()
    return lines.index("class %s(object):" % name) + 2


def test_target_executes(any_python):
    """Another program in its place: the counts end, and a message says why."""
    code = "import os, sys\nprint('ready', flush=True)\ninput()\nos.execv('/bin/sleep', ['sleep', '600'])"
    with subprocess.Popen([any_python, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"ready\n"
            trace = Trace(process.pid)
            process.stdin.write(b"\n")
            process.stdin.flush()
            trace.finish(sig=None)
            assert "runs another program" in "".join(trace.messages)
        finally:
            process.kill()


SECCOMP = """
import ctypes, struct, sys
# Every system call from 335 on kills: that is where those of uprobes are (uretprobe, uprobe).
libc = ctypes.CDLL(None, use_errno=True)
code = b"".join(struct.pack("HBBI", *i) for i in (
    (0x20, 0, 0, 0), (0x35, 0, 2, 335), (0x35, 1, 0, 424), (0x06, 0, 0, 0x80000000), (0x06, 0, 0, 0x7fff0000)))
program = ctypes.create_string_buffer(code)
fprog = struct.pack("HxxxxxxP", 5, ctypes.addressof(program))
assert not libc.prctl(38, 1, 0, 0, 0)
assert not libc.prctl(22, 2, fprog, 0, 0), ctypes.get_errno()
sys.argv = ["counted.py", "run"]
__file__ = %r
exec(compile(open(__file__).read(), __file__, "exec"))
"""


def test_seccomp(any_python):
    """Breakpoints make the process execute no system call, which a filter would kill it for."""
    argv = [any_python, "-c", SECCOMP % str(PROGRAM)]
    process = harness.Process(argv)
    with process as target:
        assert "Seccomp:\t2" in Path("/proc/%d/status" % target.pid).read_text()
        trace = Trace(target.pid, "--top", 0, "--force")
        work(target)
        assert counts_of(trace.finish(), PROGRAM)
        target.end()


@pytest.mark.parametrize("args, message", [
    (["trace"], "-p PID is missing"),
    (["trace", "-p", "x"], "not the number of a process"),
    (["trace", "-p", "1", "2"], "what is '2'"),
    (["trace", "-p", "1", "--top", "-1"], "whole number"),
    (["trace", "-p", "1", "-f", "shop:"], "must be FUNCTION"),
    (["trace", "-p", "1", "--max-slowdown", "x"], "number from"),
    (["probes"], "is missing"),
    (["probes", "a", "b"], "one process or file"),
])
def test_bad_lines(args, message):
    result = run(*args)
    assert result.returncode == 2 and message in result.stderr and result.stderr.count("\n") == 1


def test_no_python():
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            for args in ["trace", "-p", process.pid], ["probes", process.pid]:
                result = run(*args)
                assert result.returncode == 1 and "is not Python" in result.stderr
        finally:
            process.kill()
    result = run("trace", "-p", process.pid)
    assert result.returncode == 1 and "no such process" in result.stderr


def test_probes_of_files(directory):
    """Without root; other files have static probes, too."""
    found = json.loads(run("probes", "/bin/sh", "--json").stdout)
    assert found["python"] is None and found["calls"] == []
    text = run("probes", "/bin/sh").stdout
    assert "no Python interpreter" in text
    (directory / "text").write_text("no program")
    result = run("probes", directory / "text")
    assert result.returncode == 1 and "not a program" in result.stderr
