# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""trace --exceptions: each exception is counted once, where it was raised, by type and stack."""
import collections
import json
import subprocess

import pytest

import harness
from harness import Target
from tracing import FOLLOWS, STOP_TRACER, Trace, compare_exceptions, differences, exceptions_of, exceptions_truth, key_of, work

pytestmark = pytest.mark.beside


def test_exceptions(python):
    """By `raise`, C code, the interpreter, in generators and coroutines, by throw(), in threads, in deep stacks; not where they
    pass, not where they are raised once more, not where C code deals with them."""
    compare_exceptions(python)


def test_each_exception(any_python):
    """--calls shows each, of the functions that -f means; the sums are the same."""
    truth = collections.Counter({key: n for key, n in exceptions_truth(any_python).items()
                                 if key[1][0].startswith("simple:")})
    with Target(any_python, "raising.py", "run") as target:
        trace = Trace(target.pid, "--exceptions", "--calls", "--top", 0, "--force", "-f", "raising.py:simple")
        work(target)
        lines = [json.loads(line) for line in trace.lines()]
    each = [line for line in lines if line.get("event") == "raise"]
    assert not differences(collections.Counter(map(key_of, each)), truth)
    assert not differences(exceptions_of(lines[-1]), truth)
    assert {e["process"] for e in each} == {target.pid} and len({e["thread"] for e in each}) == 5
    for thread in {e["thread"] for e in each}:
        seconds = [e["seconds"] for e in each if e["thread"] == thread]
        assert seconds == sorted(seconds)


COMPILED = """
import sys
from lxml import etree
def parse():
    etree.fromstring("<a><b></a>")
print("ready", flush=True)
for line in sys.stdin:
    for i in range(20):
        try:
            parse()
        except etree.XMLSyntaxError:
            pass
    print("done", flush=True)
"""


def test_exceptions_of_compiled_code(any_python):
    """Cython puts a frame of its own into the traceback, which the thread does not run: its callers are there nevertheless."""
    if subprocess.run([any_python, "-c", "import lxml.etree"], capture_output=True, check=False).returncode:
        pytest.skip("no lxml")
    with harness.Process([any_python, "-c", COMPILED]) as target:
        trace = Trace(target.pid, "--exceptions", "--top", 0, "--force", "-f", "*_raiseParseError")
        work(target)
        (row,) = trace.finish()["exceptions"]
    assert row["count"] == 20 and row["type"] == "XMLSyntaxError"
    assert [f["function"].split(".")[-1] for f in row["stack"]] == ["_raiseParseError", "parse", "<module>"]


FORKS = """
import os, sys
def fail(n):
    for i in range(n):
        try:
            {}[i]
        except KeyError:
            pass
child = len(sys.argv) == 1 and not os.fork()
if not child and len(sys.argv) == 1:
    os.wait()
fail(5 if child else 3 if len(sys.argv) > 1 else 7)
if child:
    os.execv(sys.executable, [sys.executable, __file__, "executed"])
"""


@pytest.mark.few_pythons
@pytest.mark.skipif(not FOLLOWS, reason="children are traced from Linux 6.12 on")
def test_exceptions_of_children(python, tmp_path):
    """One row for all processes, though each has other addresses."""
    script = tmp_path / "forks.py"
    script.write_text(FORKS)
    result = subprocess.run([harness.PYPERF, "trace", "--exceptions", "--json", "--top", "0", "--force", "-f", "fail", "--",
                             python, "-B", script], capture_output=True, text=True, check=False, timeout=harness.PATIENCE,
                            env=harness.clean_environment())
    assert result.returncode == 0, result.stderr
    last = json.loads(result.stdout.splitlines()[-1])
    assert [(row["type"], row["count"], [f["line"] for f in row["stack"]]) for row in last["exceptions"]] == \
        [("KeyError", 7 + 5 + 3, [6, 12])]
    assert last["processes"] == 2


def test_messages(any_python):
    """What raises nothing brings a name that does; histograms are refused."""
    with Target(any_python, "raising.py", "run") as target:
        trace = Trace(target.pid, "--exceptions", "--force", "-f", "simpel")
        work(target)
        assert trace.finish()["exceptions"] == []
        assert "no matching function raised an exception; did you mean simple (" in "".join(trace.messages)
    result = subprocess.run([harness.PYPERF, "trace", "-p", "1", "--exceptions", "--hist"], capture_output=True, text=True,
                            check=False)
    assert result.returncode == 2 and "--hist does not go with --exceptions" in result.stderr


# The trace stands still until all is over, and no event comes behind those that found no room.
LOST_AT_THE_END = STOP_TRACER + """
def fail():
    try:
        raise KeyError
    except KeyError:
        pass
for _ in range(100000):
    fail()
os.execv("/bin/sh", ["sh", "-c", "kill -CONT $0", str(tracer)])
"""


def test_lost_at_the_end(any_python):
    result = subprocess.run([harness.PYPERF, "trace", "--exceptions", "--json", "--force", "-f", "fail", "--as-root", "--",
                             any_python, "-c", LOST_AT_THE_END], capture_output=True, text=True, check=False,
                            timeout=harness.PATIENCE, env=harness.clean_environment())
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout.splitlines()[-1])
    assert found["lost_events"] > 0 and found["raised"] + found["lost_events"] == 100000, found
