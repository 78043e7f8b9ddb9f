# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""trace --native-from with a command: processes that come and end, and what goes wrong."""
import contextlib
import json
import os
import re
import resource
import signal
import subprocess

import pytest

import harness
from tracing import STOP_TRACER

pytestmark = pytest.mark.beside

CALLS = """
import ctypes, sys
lib = ctypes.CDLL(sys.argv[1])
back = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_long)(lambda n: n)
def call(cnt):
    for n in range(cnt):
        lib.run(ctypes.c_long(2 * n), back)
"""


@pytest.fixture(scope="module")
def lib(tmp_path_factory):
    return harness.compile_c(tmp_path_factory.mktemp("lib") / "nested.so", "nested.c", "-O2", "-shared", "-fPIC",
                             "-foptimize-sibling-calls")


@contextlib.contextmanager
def trace(lib, *args, **popen):
    """From first() on; `args` are options, and behind "--" the command, which does not outlive the test."""
    profiler = harness.Profiler("trace", "--native-from", "first", "--lib", lib, "--as-root", *args, **popen)
    try:
        yield profiler
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(profiler.pid, signal.SIGKILL)


def test_names_in_the_picture(any_python, lib, directory):
    """Those of the program that the command became, not of what waited to execute it."""
    (directory / "shop.py").write_text(CALLS + "call(1)")
    with trace(lib, "--force", "-o", directory / "calls.json", "--", "sh", "-c", 'exec "$0" "$@"', any_python,
               directory / "shop.py", lib) as profiler:
        profiler.wait().ok()
    process, = json.loads((directory / "calls.json").read_text())["processes"]
    assert process["title"] == "shop.py" and "python" in process["comm"], process


def test_full_disk(any_python, lib):
    """What is written at the end says why it was not, too, and once."""
    with open("/dev/full", "w") as full, \
             trace(lib, "--force", "--", any_python, "-c", CALLS + "call(1)", lib, stdout=full) as profiler:
        result = profiler.wait()
    assert result.status == 1
    assert result.stderr.count("standard output: No space left on device") == 1, result.stderr


# The tracer is its parent. It ends once that has opened the file, and has no breakpoints yet.
ENDS = CALLS + """
import os, time
def is_open():
    for fd in os.listdir("/proc/%s/fd" % sys.argv[2]):
        try:
            if os.path.samefile("/proc/%s/fd/%s" % (sys.argv[2], fd), sys.argv[1]):
                return True
        except OSError:
            pass
while not is_open():
    time.sleep(0.001)
"""
SPINS = CALLS + """
import os
print("pid", os.getpid(), flush=True)
while True:
    call(1000)
"""


def test_first_process_ends_early(any_python, lib):
    """The price is that of a process that has breakpoints."""
    line = '"$0" -c "$1" "$2" $PPID; exec "$0" -c "$3" "$2"'
    with trace(lib.name, "--", "sh", "-c", line, any_python, ENDS, lib, SPINS) as profiler:
        profiler.wait_said("would slow it down")
        said = profiler.read(profiler.err)
        pid = re.search(r"^pid (\d+)$", profiler.read(profiler.out), re.M)[1]
    assert "process %s (" % pid in said, said


FILES_MAX = 96


def trace_preloaded(lib, line, *words):
    """The line is of sh; it and all that it starts have the file."""
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (FILES_MAX // 2, FILES_MAX))

    return trace(lib, "--force", "--", "env", "LD_PRELOAD=%s" % lib, "sh", "-c", line, *words, preexec_fn=limit)


CALLS_ON = CALLS + """
import os, time
while not os.path.exists(sys.argv[2]):
    call(1)
    time.sleep(0.01)
"""


def test_more_processes_than_files(any_python, lib, directory):
    """Those that have ended make room: the last one is traced, too."""
    with trace_preloaded(lib, 'for i in $(seq 70); do sleep 0.01; done; "$0" "$@"', any_python, "-c", CALLS_ON, lib,
                         directory / "stop") as profiler:
        harness.poll(lambda: "-> first" in profiler.read(profiler.out), "a call of first()")
        (directory / "stop").write_text("")
        assert "not traced" not in profiler.wait().ok().stderr


def test_more_processes_than_files_at_once(lib, directory):
    """Further ones are left out, and the trace goes on."""
    os.mkfifo(directory / "end")
    # The shell opens the FIFO once, so a cat that starts when its writer has gone ends, too.
    line = 'exec 9<"$0"; for i in $(seq 70); do cat <&9 & done; wait; exit 3'
    with open(os.open(directory / "end", os.O_RDWR), "w") as end, \
             trace_preloaded(lib, line, directory / "end") as profiler:
        profiler.wait_said("are not traced: at most %d at a time" % (FILES_MAX // 2))
        end.close()
        result = profiler.wait()
    assert result.status == 3, result.stderr


# More mappings than the rings have room for, while the tracer stands still; the file is one of them.
# A child makes the others, and the next one, with which the loss is said.
STORM = CALLS + """
import os, signal, time
sys.path.insert(0, sys.argv[4])
from mapping_storm import storm
def wait_for(end, rest):
    while not os.path.exists(end):
        rest()
        time.sleep(0.01)
stop = sys.argv[3]
stormed, loaded = stop + ".stormed", stop + ".loaded"
""" + STOP_TRACER + """
if not os.fork():
    storm(2000)
    open(stormed, "w").close()
    wait_for(loaded, bool)
    wait_for(stop, lambda: storm(1))
    os._exit(0)
wait_for(stormed, bool)
lib = ctypes.CDLL(sys.argv[2])
os.kill(tracer, signal.SIGCONT)
open(loaded, "w").close()
wait_for(stop, bool)
call(1)
"""


def test_lost_mappings(any_python, lib, directory):
    """The file is found in a process of which nothing was said."""
    other = directory / "other.so"
    other.write_bytes(lib.read_bytes())
    with trace(lib.name, "--force", "--json", "--", any_python, "-c", STORM, other, lib, directory / "stop",
               harness.PROGRAMS) as profiler:
        profiler.wait_said("tracing first")
        (directory / "stop").write_text("")
        events = [json.loads(line) for line in profiler.wait().ok().stdout.splitlines()]
    assert [e["depth"] for e in events if e["event"] == "call" and e["function"] == "first"] == [0]


# Fills the ring, and calls nothing behind that.
MANY = CALLS + """
import os, signal, time
os.kill(os.getppid(), signal.SIGSTOP)
call(22000)
os.kill(os.getppid(), signal.SIGCONT)
"""


def test_lost_at_the_end(any_python, lib):
    """No event says so behind the loss."""
    with trace(lib, "--force", "--json", "--", any_python, "-c", MANY, lib, stdout=subprocess.DEVNULL) as profiler:
        result = profiler.wait().ok()
    assert " events found no room" in result.stderr, result.stderr


# The same of Python functions: what executes the shell is lost, too.
MANY_OF_PYTHON = CALLS + """
import os, signal
def leaf():
    pass
def storm(n):
    tracer = os.getppid()
    os.kill(tracer, signal.SIGSTOP)
    for _ in range(200000):
        leaf()
    os.execv("/bin/sh", ["sh", "-c", "kill -CONT $0", str(tracer)])
back = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_long)(storm)
call(1)
"""


def test_python_lost_at_the_end(any_python, lib):
    """Nor does one of Python."""
    with trace(lib, "--calls", "--force", "--json", "--", any_python, "-c", MANY_OF_PYTHON, lib,
               stdout=subprocess.DEVNULL) as profiler:
        result = profiler.wait().ok()
    assert " events found no room" in result.stderr, result.stderr
