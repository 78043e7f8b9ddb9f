# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""heap -- COMMAND: the objects at the end of a command, against what its own collector listed before."""
import json
import os
import select
import signal
import subprocess

import pytest

import harness
import interpreters
from harness import poll
from test_heap import counts, heap

pytestmark = pytest.mark.beside

# Says what its collector lists, and ends as its last argument says. What runs at its end frees all.
PROGRAM = """
import atexit, gc, json, os, signal, sys
class Order(object): pass
orders = [Order() for i in range(2000)]
def free():
    del orders[:]
    sys.stdout.write("freed\\n")
atexit.register(free)
gc.collect()
print(json.dumps({"pid": os.getpid(), "Order": sum(type(o) is Order for o in gc.get_objects())}))
sys.stdout.flush()
end = sys.argv[1]
if end == "exit":
    sys.exit(3)
elif end == "_exit":
    os._exit(4)
elif end == "signal":
    os.kill(os.getpid(), signal.SIGSEGV)
elif end == "stdin":
    sys.stdin.read()
"""

# Workers that live for as long as the server does, forked when it has run for a while.
SERVER = """
import os
class Order(object): pass
wait, never = os.pipe()
ready, told = os.pipe()
for n in (1, 2):
    if not os.fork():
        os.close(never)
        orders = [Order() for i in range(1000 * n)]
        os.write(told, b"x")
        os.read(wait, 1)
        os._exit(0)
for n in (1, 2):
    os.read(ready, 1)
"""


def run(python, end, directory, *options):
    """(what the command printed, the report, the exit status)"""
    report = directory / "heap.json"
    result = heap("--json", "-o", report, *options, "--", python, "-c", PROGRAM, end)
    return result.stdout.decode().split("\n"), json.loads(report.read_text()), result.returncode


def check(said, found):
    truth = json.loads(said)
    assert found["complete"], found["pools"]
    assert (found["pid"], counts(found).get("Order")) == (truth["pid"], truth["Order"])
    assert truth["Order"] == 2000


@pytest.mark.few_pythons
@pytest.mark.parametrize("end, status", [("none", 0), ("exit", 3)])
def test_end(python, directory, end, status):
    """Before it frees anything; and then it ends as it would have."""
    said, found, got = run(python, end, directory)
    check(said[0], found)
    assert (said[1:], got) == (["freed", ""], status)


@pytest.mark.parametrize("name", ["sid/3.14", "sid/3.15"])
def test_end_of_stripped(name, directory):
    """Where finalization begins is a local function, whose name a stripped build does not have."""
    python = interpreters.named(name)
    if not python:
        pytest.skip(name + " is not installed")
    said, found, got = run(python, "exit", directory, "--as-root")
    check(said[0], found)
    assert (said[1:], got) == (["freed", ""], 3)


@pytest.mark.parametrize("end, status", [("_exit", 4), ("signal", 128 + signal.SIGSEGV)])
def test_other_ends(any_python, directory, end, status):
    said, found, got = run(any_python, end, directory)
    check(said[0], found)
    assert (said[1:], got) == ([""], status)


def start(python, directory, *options, wrapper=()):
    argv = [harness.PYPERF, "heap", "--json", "-o", directory / "heap.json", *options, "--", *wrapper, python, "-c",
            PROGRAM, "stdin"]
    return subprocess.Popen(list(map(str, argv)), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env=harness.clean_environment())


@pytest.mark.parametrize("wrapper", [(), ("sh", "-c", '"$@"; true', "sh")])
def test_after_seconds(any_python, directory, wrapper):
    """While it runs on, be it behind a wrapper. A slow machine needs more of them to start it."""
    report = directory / "heap.json"
    for seconds in 1, 5, 25:
        with start(any_python, directory, "-q", "-d", seconds, wrapper=wrapper) as process:
            said = process.stdout.readline().decode()
            poll(lambda: report.exists() or select.select([process.stderr], [], [], 0)[0], "the report")
            running = process.poll() is None
            rest, messages = process.communicate(timeout=harness.PATIENCE)
        if report.exists():
            break
    assert running
    check(said, json.loads(report.read_text()))
    assert (rest, process.returncode) == (b"freed\n", 0), messages


def test_ended_by_a_signal(any_python, directory):
    with start(any_python, directory) as process:
        said = process.stdout.readline().decode()
        process.terminate()
        process.communicate(timeout=harness.PATIENCE)
    assert process.returncode == 128 + signal.SIGTERM
    check(said, json.loads((directory / "heap.json").read_text()))


def test_a_profiler_that_dies_leaves_it_alone(any_python, directory):
    """Also at the place where it would have been held."""
    with start(any_python, directory) as process:
        process.stdout.readline()
        process.kill()
        assert process.wait(harness.PATIENCE) == -signal.SIGKILL
        process.stdin.close()
        assert process.stdout.read() == b"freed\n"
        process.stderr.close()


def test_stopped_and_continued(any_python, directory):
    with start(any_python, directory) as process:
        said = process.stdout.readline().decode()
        pid = json.loads(said)["pid"]
        os.kill(pid, signal.SIGSTOP)
        poll(lambda: harness.Path("/proc/%d/stat" % pid).read_text().split()[2] in "tT", "the stop")
        os.kill(pid, signal.SIGCONT)
        rest, messages = process.communicate(timeout=harness.PATIENCE)
    assert (rest, process.returncode) == (b"freed\n", 0), messages
    check(said, json.loads((directory / "heap.json").read_text()))


def test_children_forked_later(any_python):
    result = heap("--children", "--json", "--", any_python, "-c", SERVER)
    assert result.returncode == 0, result
    orders = [counts(p).get("Order", 0) for p in json.loads(result.stdout)["processes"]]
    assert sorted(orders) == [0, 1000, 2000]


@pytest.mark.parametrize("args, message", [
    (("--",), "-- must be followed by a command"),
    (("-p", "1", "--", "true"), "a process or a command, not both"),
    (("-d", "1", "-p", "1"), "-d is for a command"),
    (("--every", "1", "--", "true"), "--every and --for look at a process that runs"),
])
def test_command_line(args, message):
    result = heap(*args)
    assert result.returncode == 2 and message in result.stderr.decode(), result


def test_what_cannot_be_read(any_python):
    result = heap("--", "sh", "-c", '"$0" -c pass; true', any_python)
    assert result.returncode == 1 and b"only the process of the command itself" in result.stderr
    result = heap("--", "/no/such/program")
    assert result.returncode == 1 and b"/no/such/program: No such file" in result.stderr
