# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""trace --from: what happens inside of the calls of one function, as the program itself says."""
import json
import subprocess

import pytest

import harness
import interpreters
from harness import Target
from tracing import FOLLOWS, PROGRAM, Trace, events_of, work

pytestmark = pytest.mark.beside


def truth_of(python):
    answer = subprocess.run([python, "-B", PROGRAM, "events"], capture_output=True, check=True,
                            timeout=harness.PATIENCE, env=harness.clean_environment())
    return json.loads(answer.stdout)


def inside(thread, name):
    """Those events of a thread at which a function of this name runs."""
    stack, found = [], []
    for event in thread:
        if event[0] == "+":
            stack.append(event[1:].rpartition(":")[0].rpartition(".")[2] == name)
        if any(stack):
            found.append(event)
        if event[0] == "-" and stack:
            stack.pop()
    return found


def trace(python, *options):
    with Target(python, "counted.py", "run") as target:
        trace = Trace(target.pid, "--top", 0, "--force", *options)
        work(target)
        return trace.lines(), trace.messages


def check_inside(python, functions):
    truth = truth_of(python)
    for name in functions:
        wanted = sorted(filter(None, (inside(thread, name) for thread in truth)))
        assert wanted and len(wanted) <= len(truth)
        lines, messages = trace(python, "--calls", "--from", "counted:" + name)
        found = events_of(lines, PROGRAM)
        assert found == wanted, (name, [len(thread) for thread in found], [len(thread) for thread in wanted])
        last = json.loads(lines[-1])
        assert last["lost_events"] == 0 and last["calls"] == sum(f["calls"] for f in last["functions"])
        assert not [m for m in messages if "not shown" in m or "not seen" in m]


def test_inside(python):
    """Each call and each end inside, and nothing else: of what catches exceptions, of generators, in threads."""
    check_inside(python, ["catcher", "steps", "in_thread"])


@pytest.mark.parametrize("name", ["pyenv/2.7", "pyenv/3.6", "pyenv/3.7", "sid/3.14", "sid/3.15"])
def test_inside_of_all_versions(name):
    """Of the whole work in one thread: recursion, exceptions, generators, coroutines, classes. Its threads are outside."""
    python = interpreters.named(name)
    if not python:
        pytest.skip(name + " is not installed")
    check_inside(python, ["work"])


def test_inside_of_others(any_python):
    """Recursion, exceptions out of the function, what is thrown into generators, coroutines."""
    check_inside(any_python, ["fib", "deep", "throws", "numbers", "later"])


def test_filter_inside(any_python):
    """With -f only these functions, and only inside; the function itself is none of them."""
    wanted = [event for thread in truth_of(any_python) for event in inside(thread, "catcher") if "raiser" in event]
    lines, _ = trace(any_python, "--calls", "--from", "catcher", "-f", "counted:raiser", "-f", "counted:deep")
    assert wanted and events_of(lines, PROGRAM) == [wanted]
    lines, _ = trace(any_python, "--hist", "--from", "catcher", "-f", "counted:raiser")
    raiser, = json.loads(lines[-1])["functions"]
    assert raiser["calls"] == sum(event[0] == "+" for event in wanted)


def test_wrong_name(any_python):
    lines, messages = trace(any_python, "--calls", "--from", "counted:catchr")
    assert json.loads(lines[-1])["functions"] == [] and len(lines) == 1
    assert "did you mean catcher (%s:" % PROGRAM in "".join(messages)


FORKS = """
import os
def note(n): pass
def start(n):
    note(n)
    if not os.fork():
        note(n + 1)
        return True
    os.wait()
note(0)
child = start(1)
note(3)
if child:
    os._exit(0)
start(5)
note(7)
"""


@pytest.mark.skipif(not FOLLOWS, reason="children are traced from Linux 6.12 on")
def test_children(any_python):
    """A child that is forked inside is inside, until it returns."""
    with subprocess.Popen([harness.PYPERF, "trace", "--calls", "--force", "--json", "--args", "--from", "start", "-f", "note",
                           "--", any_python, "-c", FORKS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=harness.clean_environment()) as process:
        out, messages = process.communicate(timeout=harness.PATIENCE)
    assert process.returncode == 0, messages
    events = [json.loads(line) for line in out.splitlines()[:-1]]
    assert [e["arguments"][0]["value"] for e in events if e["event"] == "call"] == ["1", "2", "5", "6"]


RUNS = """
import os
def outside(): pass
def serve():
    os.write(1, b"ready\\n")
    os.read(0, 1)
    page()
def page(): pass
serve()
outside()
os.write(1, b"done\\n")
os.read(0, 1)
"""


def test_call_that_began_before(any_python):
    """What a function calls is inside of it, also if it runs already when the trace begins."""
    with subprocess.Popen([any_python, "-c", RUNS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        try:
            assert process.stdout.readline() == b"ready\n"
            trace = Trace(process.pid, "--calls", "--force", "--from", "serve")
            process.stdin.write(b"x")
            assert process.stdout.readline() == b"done\n"
            lines = trace.lines()
        finally:
            process.kill()
    assert [json.loads(line)["function"] for line in lines[:-1]] == ["page", "page"]


FAILS = """
import os
class Thing(object):
    @property
    def caught(self): raise AttributeError
    @property
    def cleared(self): raise AttributeError
def outside(): pass
def main():
    os.write(1, b"ready\\n")
    os.read(0, 1)
    try:
        Thing().caught
    except AttributeError:
        pass
    getattr(Thing(), "cleared", None)
    outside()
    os.write(1, b"done\\n")
    os.read(0, 1)
main()
"""


@pytest.mark.parametrize("function", ["caught", "cleared"])
def test_exception_is_the_end(any_python, function):
    """The function is called once, and an exception ends it: its caller goes on, or C code clears it."""
    with subprocess.Popen([any_python, "-c", FAILS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        try:
            assert process.stdout.readline() == b"ready\n"
            trace = Trace(process.pid, "--calls", "--force", "--from", function)
            process.stdin.write(b"x")
            assert process.stdout.readline() == b"done\n"
            lines = [json.loads(line) for line in trace.lines()]
        finally:
            process.kill()
    assert [e["event"] for e in lines[:-1]] in (["call", "exception"], ["call", "leave"])
    assert lines[-1]["functions"][0]["ended"] == 1 and lines[-1]["calls"] == 1


@pytest.mark.parametrize("options, message", [
    (["--from", "f"], "--from goes with --calls or --hist"),
    (["--from", "f", "--calls", "--slow", "1ms"], "--from goes with --calls or --hist, without --slow"),
    (["--from", "f", "--calls", "--exceptions"], "--from goes with --calls"),
    (["--from", "f*", "--calls"], "--from f*: must be one function"),
    (["--from", "f:", "--calls"], "--from f:: must be FUNCTION"),
    (["--from", "f", "--from", "g", "--calls"], "only one function"),
])
def test_refused(options, message):
    answer = subprocess.run([harness.PYPERF, "trace", "-p", "1", *options], capture_output=True, text=True,
                            timeout=harness.PATIENCE, env=harness.clean_environment())
    assert answer.returncode == 2 and message in answer.stderr and not answer.stdout
