# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""trace --args and --ret: what functions are called with and what they return, as they say themselves."""
import json
import re
import signal
import subprocess

import pytest

import harness
from harness import PROGRAMS, Target
from tracing import FOLLOWS, Trace

pytestmark = pytest.mark.beside

PROGRAM = PROGRAMS / "arguments.py"
FUNCTIONS = "arguments.py:*do_*"


def version_of(python):
    answer = subprocess.run([python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], capture_output=True,
                            text=True, check=True, timeout=harness.PATIENCE, env=harness.clean_environment())
    return tuple(map(int, answer.stdout.split(".")))


def work(target):
    """What the program says of what it has done."""
    target.process.stdin.write(b"go\n")
    target.process.stdin.flush()
    return json.loads(target.read_line())


def traced(python, *options):
    """(what the program says, events of its functions)"""
    with Target(python, "arguments.py") as target:
        trace = Trace(target.pid, "--calls", "--force", "-f", FUNCTIONS, *options)
        truth = work(target)
        lines = trace.lines()
    last = json.loads(lines[-1])
    assert last["lost_events"] == 0
    events = map(json.loads, lines[:-1])
    return truth, [e for e in events if name_of(e).startswith("do_")], lines


def name_of(event):
    return event["function"].rpartition(".")[2]


def first_difference(found, truth):
    for mine, theirs in zip(found, truth):
        if mine != theirs:
            return mine, theirs
    return (len(found), len(truth)) if len(found) != len(truth) else None


def arguments_of(events):
    return [[name_of(e), [[a["name"], a["value"]] for a in e["arguments"]], e["more_arguments"]]
            for e in events if e["event"] == "call"]


def first(calls, cnt):
    return [[function, arguments[:cnt], len(arguments) > cnt] for function, arguments in calls]


def check_arguments(python):
    truth, events, _ = traced(python, "--args=6")
    assert len(truth["calls"]) > 250
    found, wanted = arguments_of(events), first(truth["calls"], 6)
    assert not first_difference(found, wanted), first_difference(found, wanted)
    assert not [e for e in events if "returned" in e]


def returns_of(events):
    return [[name_of(e), e["returned"]] for e in events if "returned" in e]


def returned(python, truth):
    if version_of(python) < (3, 11):  # a yield is as good as a return
        return truth["returns"]
    return [value for i, value in enumerate(truth["returns"]) if i not in truth["yields"]]


def check_returns(python):
    truth, events, _ = traced(python, "--ret")
    found, wanted = returns_of(events), returned(python, truth)
    assert not first_difference(found, wanted), first_difference(found, wanted)
    ends = [e for e in events if e["event"] in ("return", "leave") and name_of(e) != "do_raise"]
    assert all("returned" in e for e in ends)
    assert not [e for e in events if "arguments" in e or ("returned" in e and e not in ends)]


def test_arguments(python):
    """Ints, strings, types, of positional, keyword and variable arguments, in cells, generators and coroutines."""
    check_arguments(python)


def test_returns(python):
    """Variables and constants, from loops, handlers, generators and coroutines."""
    check_returns(python)


def test_secrets(any_python):
    """What looks like a secret is nowhere in the output; without an option no value is."""
    _, events, lines = traced(any_python, "--args=6", "--ret")
    secret = [a for e in events if name_of(e) == "do_secrets" and e["event"] == "call" for a in e["arguments"]]
    assert [a["value"] for a in secret] == ["'bob'"] + 5 * ["***"]
    assert "geheim" not in "".join(lines) and "'815'" not in repr([a["value"] for a in secret])
    assert [e["returned"] for e in events if name_of(e) == "do_get_secret" and "returned" in e] == ["***"]
    _, events, _ = traced(any_python)
    assert events and not [e for e in events if {"arguments", "more_arguments", "returned"} & set(e)]


def test_three_arguments(any_python):
    truth, events, _ = traced(any_python, "--args")
    found, wanted = arguments_of(events), first(truth["calls"], 3)
    assert not first_difference(found, wanted), first_difference(found, wanted)


def test_text(any_python):
    """In the lines, and nothing that acts on a terminal."""
    with Target(any_python, "arguments.py") as target:
        with subprocess.Popen([harness.PYPERF, "trace", "-p", str(target.pid), "--calls", "--force", "--args=2", "--ret",
                               "-f", FUNCTIONS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env=harness.clean_environment()) as process:
            assert "counting the " in process.stderr.readline()
            work(target)
            process.send_signal(signal.SIGINT)
            out = process.communicate(timeout=harness.PATIENCE)[0]
    assert re.search(r"=> do_plain\(a=255, b=1, \.\.\.\) \(%s:\d+\)\n.*<= do_plain -> 255\n" % re.escape(str(PROGRAM)), out)
    assert re.search(r"=> (Order\.)?do_method\(self=<Order>, n=2, \.\.\.\) ", out)
    assert re.search(r"=> do_none\(\) .*\n.*<= do_none -> None\n", out)
    assert re.search(r"=> do_plain\(a='m{32}'\.\.\., b=1, \.\.\.\) ", out)
    assert r"a='\x1b]0;title\x07', " in out
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029\u202a-\u202e]", out)


CONDITIONS = [
    ("a > 5", lambda a: float(a) > 5),
    ("a <= -1.5", lambda a: float(a) <= -1.5),
    ("a == 'text'", lambda a: a == "'text'"),
    ("a == None", lambda a: a == "None"),
    ("a != None", lambda a: a != "None" and not a.startswith("<")),
]


@pytest.mark.parametrize("condition, holds", CONDITIONS, ids=[c for c, _ in CONDITIONS])
def test_condition(any_python, condition, holds):
    """Only the calls that Python itself selects, with their ends."""
    def is_wanted(call):
        value = dict(call[1]).get("a", "<none>")
        big = re.match("<int of up to", value)
        try:
            return holds({"True": "1", "False": "0"}.get(value, value)) and not big
        except ValueError:
            return False
    truth, events, lines = traced(any_python, "--args=6", "--if", condition)
    wanted = first(list(filter(is_wanted, truth["calls"])), 6)
    found = [call for call in arguments_of(events) if not call[1][0][1].startswith("<int")]
    assert wanted and not first_difference(found, wanted), first_difference(found, wanted)
    begins, ends = ([e for e in events if (e["event"] in kinds)] for kinds in (("call", "resume"), ("return", "yield", "exception")))
    assert len(begins) == len(ends) and json.loads(lines[-1])["calls_as_wanted"] == len(arguments_of(events))


def test_condition_of_generator(python):
    """What goes on belongs to its call; a histogram has these calls alone."""
    _, events, _ = traced(python, "--if", "s == 's'")
    ends = ["leave"] * 3 if version_of(python) < (3, 11) else ["yield", "yield", "return"]
    of_generator = [e["event"] for e in events if name_of(e) == "do_generator"]
    assert of_generator == ["call", ends[0], "resume", ends[1], "resume", ends[2]]
    assert all("arguments" not in e for e in events)
    assert not [e for e in events if name_of(e) == "do_delegates"]
    with Target(python, "arguments.py") as target:
        trace = Trace(target.pid, "--hist", "--force", "-f", "do_hot", "--if", "n >= 150")
        work(target)
        last = trace.finish()
    assert [(f["function"], f["calls"], f["ended"]) for f in last["functions"]] == [("do_hot", 50, 50)]


FORKS = """
import os
def do_it(n, s, x): return s * n
do_it(2, 'a', None)
if not os.fork():
    do_it(3, 'b', 1.5)
    os._exit(0)
os.wait()
"""


def test_arguments_of_children(python):
    """Types are known by their addresses, which differ in each process, and only when it runs."""
    with subprocess.Popen([harness.PYPERF, "trace", "--calls", "--force", "--json", "--args", "--ret", "-f", "do_it",
                           "--python", getattr(python, "elf", python), "--", python, "-c", FORKS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=harness.clean_environment()) as process:
        out, messages = process.communicate(timeout=harness.PATIENCE)
    assert process.returncode == 0, messages
    events = [json.loads(line) for line in out.splitlines()[:-1]]
    found = [([a["value"] for a in e["arguments"]], end["returned"]) for e, end in zip(events[::2], events[1::2])]
    assert found == [(["2", "'a'", "None"], "'aa'"), (["3", "'b'", "1.5"], "'bbb'")][:2 if FOLLOWS else 1]


@pytest.mark.parametrize("options, message", [
    (["--args"], "--args goes with --calls"),
    (["--ret", "--hist"], "--ret goes with --calls"),
    (["--args", "--calls", "--slow", "1ms"], "--args goes with --calls, without --slow"),
    (["--args=2", "--calls", "--exceptions"], "--args goes with --calls"),
    (["--args=0", "--calls"], "--args=0: must be a number of arguments from 1 to 6"),
    (["--args=7", "--calls"], "--args=7: must be "),
    (["--args=x", "--calls"], "--args=x: must be "),
    (["--if", "n > 5"], "--if goes with --calls or --hist"),
    (["--if", "n > 5", "--hist", "--gc"], "--hist does not go with --gc"),
    (["--if", "n", "--hist"], "--if n: must be like 'n > 5'"),
    (["--if", "n > x", "--hist"], "must be compared with a number"),
    (["--if", "n > None", "--hist"], "compared by == and != only"),
    (["--if", "token == 'x'", "--hist"], "the name looks like that of a secret"),
    (["--if", "n > 1", "--if", "n < 5", "--hist"], "only one condition"),
])
def test_refused(options, message):
    answer = subprocess.run([harness.PYPERF, "trace", "-p", "1", *options], capture_output=True, text=True,
                            timeout=harness.PATIENCE, env=harness.clean_environment())
    assert answer.returncode == 2 and message in answer.stderr and not answer.stdout
