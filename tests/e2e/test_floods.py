# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""trace of programs that call faster than lines are written: it ends when it is told to, and what is not shown is lost."""
import contextlib
import json
import os
import signal
import subprocess
import time

import pytest

import harness

pytestmark = pytest.mark.beside

PATIENCE = 5  # seconds, of which half a one is for what waits in the rings: the machine may be busy
ENOUGH = 16 << 20  # bytes of lines
SPINS = "def f(): pass\nwhile True:\n    f(); f(); f(); f(); f(); f(); f(); f()"
NATIVE = """
import ctypes, os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
lib = ctypes.CDLL(sys.argv[1])
back = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_long)(lambda n: n)
os.fork() or os.fork() or os.fork()
while True:
    lib.run(ctypes.c_long(2), back)
"""


def interrupt(trace, log):
    """When many lines were written: how long it took, and the last one."""
    harness.poll(lambda: log.stat().st_size > ENOUGH, "lines")
    trace.send_signal(signal.SIGINT)
    begun = time.monotonic()
    messages = trace.communicate(timeout=2 * harness.PATIENCE)[1]
    took = time.monotonic() - begun
    assert trace.returncode == 0, messages
    return took, messages


def start(log, *args, **popen):
    with open(log, "w") as out:
        return subprocess.Popen([harness.PYPERF, "trace", "--force", "--json", "--calls", *map(str, args)], stdout=out,
                                stderr=subprocess.PIPE, text=True, env=harness.clean_environment(), **popen)


def test_several(any_python, directory):
    """What was lost by then is said in its place, and at the end, and it is the same."""
    log = directory / "log"
    with contextlib.ExitStack() as stack:
        targets = [stack.enter_context(subprocess.Popen([any_python, "-c", SPINS])) for _ in range(3)]
        stack.callback(lambda: [target.kill() for target in targets])
        trace = start(log, "-p", ",".join(str(target.pid) for target in targets))
        took, messages = interrupt(trace, log)
    lost, last = 0, None
    with open(log) as lines:
        for line in lines:
            if '"event":"lost"' in line:
                lost += json.loads(line)["events"]
            last = line
    assert json.loads(last)["lost_events"] == lost > 0 and "%d events were lost" % lost in messages, messages
    assert took < PATIENCE, took


def test_native(any_python, directory):
    lib = harness.compile_c(directory / "nested.so", "nested.c", "-O2", "-shared", "-fPIC", "-foptimize-sibling-calls")
    log = directory / "log"
    trace = start(log, "--native-from", "first", "--lib", lib, "--as-root", "--", any_python, "-c", NATIVE, lib,
                  start_new_session=True)
    try:
        # The command is told to end by whoever presses Ctrl-C.
        harness.poll(lambda: log.stat().st_size > ENOUGH, "lines")
        begun = time.monotonic()
        os.killpg(trace.pid, signal.SIGINT)
        messages = trace.communicate(timeout=2 * harness.PATIENCE)[1]
        took = time.monotonic() - begun
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(trace.pid, signal.SIGKILL)
    assert trace.returncode >= 128 and "lost" not in messages, messages
    assert took < PATIENCE, (took, messages)
