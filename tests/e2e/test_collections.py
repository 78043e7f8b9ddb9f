# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""trace --gc: each collection of garbage, with its generation, what it found, and the stack that began it."""
import collections
import json
import re
import subprocess

import pytest

import harness
import interpreters
from harness import PROGRAMS, Target
from tracing import FOLLOWS, FRAME, RUN, Trace, check_form

pytestmark = pytest.mark.beside

PROGRAM = PROGRAMS / "collected.py"


def collect(target):
    """What the program notes of its work."""
    target.process.stdin.write(b"go\n")
    return json.loads(target.read_line())


def noted(notes):
    """Counts by generation and stack, and all that was found in them."""
    counts, found = collections.Counter(), collections.Counter()
    for generation, stack, garbage, n in notes:
        counts[generation, tuple(stack)] += n
        found[generation, tuple(stack)] += garbage * n
    return counts, found


def key_of(row):
    return row["generation"], tuple("%s:%s" % (f["function"].split(".")[-1], f["line"]) for f in row["stack"])


def traced(rows):
    counts, found = collections.Counter(), collections.Counter()
    for row in rows:
        counts[key_of(row)] += row.get("count", 1)
        found[key_of(row)] += row["found"]
    return counts, found


def test_collections(python):
    """By gc.collect(), by the interpreter, deep in a recursion, in a thread: as gc.callbacks and gc.collect() say."""
    with Target(python, "collected.py") as target:
        trace = Trace(target.pid, "--gc", "--top", 0, "--force")
        notes = collect(target)
        result = trace.finish()
    assert traced(result["collections"]) == noted(notes)
    assert len({generation for generation, *_ in notes}) == 3
    assert result["collected"] == sum(row["count"] for row in result["collections"]) and result["lost_events"] == 0
    for row in result["collections"]:
        assert 0 < row["longest_ns"] <= row["total_ns"] <= row["count"] * row["longest_ns"]
    assert [row["total_ns"] for row in result["collections"]] == \
        sorted((row["total_ns"] for row in result["collections"]), reverse=True)


def test_each_collection(any_python):
    """--calls shows each, in order; -f means the functions that begin them."""
    with Target(any_python, "collected.py") as target:
        trace = Trace(target.pid, "--gc", "--calls", "--top", 0, "--force", "collect")
        notes = [n for n in collect(target) if n[1][0].startswith("collect:")]
        lines = [json.loads(line) for line in trace.lines()]
    each = [line for line in lines if line.get("event") == "collection"]
    assert traced(each) == noted(notes)
    assert {e["process"] for e in each} == {target.pid} and len({e["thread"] for e in each}) == 2
    assert [e["generation"] for e in each] == [0, 1, 2, 2] * 3
    seconds = [e["seconds"] for e in each]
    assert seconds == sorted(seconds)


def test_waiting(any_python):
    """A finalizer holds the GIL for long; threads that sleep and want it back wait at the end."""
    with Target(any_python, "collected.py", "3") as target:
        trace = Trace(target.pid, "--gc", "--top", 0, "--force")
        collect(target)
        (row,) = trace.finish()["collections"]
    assert row["generation"] == 2 and row["longest_ns"] > 0.2e9
    assert 1 <= row["waiting"] <= 3


FORKS = """
import gc, os
gc.disable()
if not os.fork():
    gc.collect(1)
    os._exit(0)
os.wait()
gc.collect(2)
"""


@pytest.mark.skipif(not FOLLOWS, reason="children are traced from Linux 6.12 on")
def test_collections_of_children(any_python):
    result = subprocess.run([harness.PYPERF, "trace", "--gc", "--calls", "--json", "--top", "0", "--force", "--", any_python, "-c", FORKS],
                            capture_output=True, text=True, check=False, timeout=harness.PATIENCE, env=harness.clean_environment())
    assert result.returncode == 0, result.stderr
    each = [json.loads(line) for line in result.stdout.splitlines()]
    asked = [(e["process"], e["generation"], [f["line"] for f in e["stack"]]) for e in each
             if e.get("event") == "collection" and e["stack"] and e["stack"][0]["file"] == "<string>"]
    assert [(generation, lines) for _, generation, lines in asked] == [(1, [5]), (2, [8])]
    assert asked[0][0] != asked[1][0] and each[-1]["processes"] == 2


def test_collections_for_people(any_python):
    """A sum, and stacks."""
    with Target(any_python, "collected.py") as target:
        with subprocess.Popen([harness.PYPERF, "trace", "--gc", "-p", str(target.pid), "--force"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, env=harness.clean_environment()) as process:
            assert "counting the collections of" in process.stderr.readline()
            collect(target)
            process.send_signal(2)
            out = process.communicate(timeout=harness.PATIENCE)[0]
    assert "collections took" in out and "generation 2\n" in out and "deep (%s:" % PROGRAM in out


def test_ends_of_interpreters(any_python):
    """No Python function begins the collections at an interpreter's end: the row says so."""
    result = subprocess.run([harness.PYPERF, "trace", "--gc", "--top", "0", "--force", "--", any_python, "-c", "import gc; gc.disable()"],
                            capture_output=True, text=True, check=True, timeout=harness.PATIENCE, env=harness.clean_environment())
    assert re.search(r"generation 2, while no Python function ran: the interpreter began or ended\n", result.stdout)


PAUSES = {"generation": int, "total_ns": int, "longest_ns": int, "found": int, "waiting": (int, type(None)), "stack": list, "cut": bool}


def test_json(any_python):
    """The members of each collection, and of the last object."""
    with Target(any_python, "collected.py") as target:
        trace = Trace(target.pid, "--gc", "--calls", "--top", 0, "--force")
        notes = collect(target)
        *each, last = map(json.loads, trace.lines())
    assert len(each) == sum(n for *_, n in notes)
    for event in each:
        check_form(event, {"event": str, "seconds": float, "process": int, "thread": int, **PAUSES})
        assert event["event"] == "collection" and event["total_ns"] == event["longest_ns"] > 0 and not event["cut"]
    check_form(last, {**RUN, "collected": int, "collections": list})
    assert last["final"] and last["pid"] == target.pid and last["processes"] == 1 and last["python"].startswith("3.")
    assert last["collected"] == len(each) and last["lost_events"] == 0
    for row in last["collections"]:
        check_form(row, {"count": int, **PAUSES})
    for frame in (frame for row in each + last["collections"] for frame in row["stack"]):
        check_form(frame, FRAME)


@pytest.mark.parametrize("name", ["builds/3.13t", "builds/3.14t"])
def test_free_threaded(name):
    """Its collector is called without need: what is no collection is not shown as one."""
    python = interpreters.named(name)
    if not python:
        pytest.skip("%s is not installed" % name)
    with Target(python, "collected.py") as target:
        result = subprocess.run([harness.PYPERF, "trace", "-p", str(target.pid), "--gc"], capture_output=True, text=True, check=False,
                                timeout=harness.PATIENCE, env=harness.clean_environment())
        assert result.returncode == 1 and "a free-threaded interpreter calls its collector without need" in result.stderr


@pytest.mark.parametrize("args, message", [
    (["--gc", "--exceptions"], "one at a time"),
    (["--gc", "--hist"], "--hist does not go with --gc"),
])
def test_bad_lines(args, message):
    result = subprocess.run([harness.PYPERF, "trace", "-p", "1", *args], capture_output=True, text=True, check=False)
    assert result.returncode == 2 and message in result.stderr and result.stderr.count("\n") == 1
