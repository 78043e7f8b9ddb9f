# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A run ends soon after a signal, with what there is, wherever its output goes and whatever its target does."""
import contextlib
import ctypes
import fcntl
import os
import re
import signal
import subprocess
import sys
import threading

import pytest

import harness
import owntime
from conftest import ENDS, NAME, SOON
from test_attacks import names_of_children

SEIZE, INTERRUPT, WALL = 0x4206, 0x4207, 0x40000000
FULL = "standard output: No space left on device"


@contextlib.contextmanager
def fifo(ground):
    """In a directory of root's, where it may be written to."""
    path = ground.path / "pipe.folded"
    os.mkfifo(path, 0o600)
    yield path


def ends(run, what):
    harness.poll(lambda: run.process.poll() is not None, "the end of " + what, bound=SOON)
    return run.wait()


def ends_by(run, number, what):
    """The signal ends it soon."""
    ending = owntime.Ending(run.pid, lambda: run.process.send_signal(number))
    return has_ended(run, ending, what)


def has_ended(run, ending, what):
    result = ends(run, what)
    took = ending.took()
    assert took < ENDS, "the end of %s took %.2f s" % (what, took)
    return result


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda n: n.name)
def test_fifo_that_nobody_reads(ground, number):
    """It says that it waits, and one signal ends that; the report, which goes elsewhere, is there."""
    with fifo(ground) as path, ground.neighbour() as neighbour:
        run = harness.Profiler("-v", "-F", 299, "-d", 0.5, "-p", neighbour.pid, "-o", path)
        try:
            run.wait_said("waits up to")
            result = ends_by(run, number, "the wait")
        finally:
            if run.process.poll() is None:
                run.process.kill()
    assert result.status == 1 and "nobody reads this FIFO" in result.stderr, (result.status, result.stderr)
    assert NAME in result.stdout, result.stdout


def test_fifo_that_is_read_late(ground):
    with fifo(ground) as path, ground.neighbour() as neighbour:
        run = harness.Profiler("-v", "-F", 299, "-d", 0.5, "-p", neighbour.pid, "-o", path)
        try:
            run.wait_said("waits up to")
            text = path.read_text()
            result = ends(run, "the run")
        finally:
            if run.process.poll() is None:
                run.process.kill()
    assert result.status == 0 and NAME in text, (result.stderr, text[:300])


def test_full_disk(ground):
    """One sentence, and neither a part of the file nor its draft."""
    place = ground.path / "small"
    place.mkdir()
    script = 'mount -t tmpfs -o size=8k none "$0" && "$@"; status=$?; ls -A "$0" >&2; exit $status'
    with ground.neighbour() as neighbour:
        run = harness.Profiler("-q", "-F", 299, "-d", 0.5, "-p", neighbour.pid, "-o", place / "x.html",
                               prefix=["unshare", "--mount", "sh", "-c", script, place])
        result = ends(run, "the run")
    assert result.status == 1, (result.status, result.stderr)
    lines = result.stderr.splitlines()
    assert len(lines) == 1 and lines[0].endswith("not written: No space left on device"), lines


@pytest.mark.parametrize("args", [("-d", 0.3, "-p", "PID"), ("dump", "PID"), ("heap", "PID"), ("check", "-p", "PID"),
                                  ("probes", "PID"), ("trace", "-p", "PID", "-d", 0.3)], ids=lambda a: a[0].strip("-"))
def test_output_that_is_full(ground, args):
    """Whatever writes there says why it could not."""
    with ground.neighbour() as neighbour, open("/dev/full", "wb") as full:
        args = [str(a).replace("PID", str(neighbour.pid)) for a in args]
        done = subprocess.run([harness.PYPERF, *args], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1 and done.stderr.count(FULL) == 1, done


@contextlib.contextmanager
def debugged(pid):
    """A debugger has stopped it, as long as this lasts. The tracer is a thread: all of a tracer's calls are its own."""
    libc, stopped, over, said = ctypes.CDLL(None, use_errno=True), threading.Event(), threading.Event(), []

    def trace():
        said.append(libc.ptrace(SEIZE, pid, None, None) or libc.ptrace(INTERRUPT, pid, None, None))
        if not said[0]:
            os.waitpid(pid, WALL)
        stopped.set()
        over.wait()
        libc.ptrace(17, pid, None, None)  # PTRACE_DETACH

    tracer = threading.Thread(target=trace)
    tracer.start()
    try:
        stopped.wait()
        if said[0]:
            pytest.skip("ptrace() is not permitted")
        yield
    finally:
        over.set()
        tracer.join()


@contextlib.contextmanager
def stopped(pid):
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("still", [stopped, debugged])
def test_target_that_stands_still(ground, still):
    """All commands at once: what ends by itself does, and one signal ends the others."""
    with ground.neighbour() as neighbour, still(neighbour.pid):
        endless = [harness.Profiler(*args, neighbour.pid, *more) for *args, more in (
            ("-v", "-p", []), ("trace", "-p", []), ("trace", "-p", ["--exceptions"]),
            ("heap", "-p", ["--every", 1, "--for", 60]))]
        single = [harness.Profiler(*args, neighbour.pid) for args in (
            ("dump",), ("dump", "--native"), ("heap", "-p"), ("probes",))]
        for run in single:
            assert ends(run, "one that looks once").status == 0
        profiler, *traces, heap = endless
        profiler.wait_sampling()
        for run in traces:
            run.wait_said("; Ctrl-C ends it")
        harness.poll(lambda: b"pyperf-reader" in names_of_children(heap.pid), "its reader")
        endings = [owntime.Ending(run.pid, run.process.terminate) for run in endless]
        for run, ending in zip(endless, endings):
            assert has_ended(run, ending, "one that is endless").status == 0


def test_dump_as_it_goes(ground):
    """The first threads are printed before the last ones are read: those, a signal leaves out."""
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    with ground.tenant("threads.py", 3000) as tenant, open(read, encoding="utf-8") as out:
        there = set(os.listdir("/proc/%d/task" % tenant.pid))
        run = harness.Profiler("dump", tenant.pid, stdout=write)
        os.close(write)
        text = out.read(1)
        run.process.terminate()
        text += out.read()
        result = ends(run, "the dump")
        there &= set(os.listdir("/proc/%d/task" % tenant.pid))  # some come and go
    assert result.status == 0 and "before the signal" in result.stderr, (result.status, result.stderr)
    shown = re.findall(r'^Thread (\d+) .*\n(.*)', text, re.M)
    assert text.startswith("Process ") and text.count("\nProcess ") == 0
    ids = [tid for tid, _ in shown]
    assert len(set(ids)) == len(ids) and there <= set(ids), (len(ids), len(set(ids)), there - set(ids))
    unread = ["(its stack could not be read)" in line for _, line in shown]
    assert not any(unread[:500]) and all(unread[-500:]), (unread.index(True), sum(unread))


OBJECTS = """import sys
kept = [[n] for n in range(1000000)]
print("ready", flush=True)
sys.stdin.read()
"""


def test_heap_that_is_ended(ground):
    """What was read when the signal came is shown."""
    with harness.Process([sys.executable, "-c", OBJECTS]) as target:
        run = harness.Profiler("heap", target.pid)
        # A reading gives way to all others.
        harness.poll(lambda: run.process.poll() is not None or os.getpriority(os.PRIO_PROCESS, run.pid) == 19,
                     "its reading")
        result = ends_by(run, signal.SIGTERM, "the reading")
    assert result.status == 0 and "objects" in result.stdout, (result.status, result.stdout, result.stderr)
