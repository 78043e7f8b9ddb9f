# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""trace of all processes in the other ways of showing calls, against what the programs say themselves."""
import collections
import json
import re

import pytest

import pprof_read
import test_arguments
from programs.slowest import SLOW_S
from test_call_pictures import ways_of
from test_trace_all import COMMON, LOGGED, run_inside, three_pythons  # noqa: F401 (a fixture)

pytestmark = pytest.mark.beside

FUNCTIONS = [word for name in ("leaf", "steps", "fails", "handles", "branch") for word in ("-f", "logged.py:" + name)]

# All as they are printed.
FORMATTED = LOGGED + """
class Plain(All):
    def __init__(self, *args):
        self.err, self.out = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([harness.PYPERF, "trace", "-v", "--force", *args], stdout=self.out, stderr=self.err)
trace = Plain(*options)
for t in targets:
    trace.wait_said("process %d (logged.py) is traced" % t.pid)
for t in targets:
    work(t)
commands = [open("/proc/%d/comm" % t.pid).read().strip() for t in targets]
trace.interrupt()
for t in targets:
    t.process.kill()
trace.out.seek(0)
print(json.dumps({"lines": trace.out.read().splitlines(), "pids": [t.pid for t in targets], "commands": commands,
                  "truth": [json.load(open(log_of(i))) for i in range(len(targets))]}))
"""

FORMATS = {
    "pythonflow": r"(?:\d+|-) +(?P<pid>\d+) +(?P<tid>\d+) +[\d.]+ +(?P<arrow>->|<-) .*/logged\.py\.(?P<function>[^.]*)",
    "systemtap": r" *\d+ (?P<command>.*)\((?P<tid>\d+)\): +(?P<arrow>=>|<=) (?P<function>.*) in .*/logged\.py:\d+",
}


@pytest.mark.parametrize("name", FORMATS)
def test_formats(three_pythons, name):  # noqa: F811
    """As other tools have it: each call and each end of each process, below a line with its number and its name."""
    options = ["--calls", "--format", name, *FUNCTIONS]
    found = run_inside(FORMATTED, three_pythons[0], three_pythons[1], json.dumps(three_pythons), json.dumps(options))
    lines, events, pid = found["lines"], {pid: {} for pid in found["pids"]}, None
    if name == "pythonflow":
        assert lines.pop(0).split() == ["CPU", "PID", "TID", "TIME(us)", "METHOD"]
    commands = dict(zip(found["pids"], found["commands"]))
    for line in lines:
        process = re.fullmatch(r"# process (\d+) \(logged\.py\)", line)
        if process:
            pid = int(process.group(1))
            continue
        match = re.fullmatch("(?:# end not seen: )?" + FORMATS[name], line)
        assert match, line
        event = match.groupdict()
        assert int(event.get("pid", pid)) == pid
        if int(event["tid"]) == pid:
            assert event.get("command", commands[pid]) == commands[pid]
        events[pid].setdefault(event["tid"], []).append("-+"[">" in event["arrow"]] + event["function"])
    for pid, log in zip(found["pids"], found["truth"]):
        truth = sorted([event.rpartition(":")[0] for event in thread] for thread in log)
        assert sum(map(len, truth)) > 100 and sorted(events[pid].values()) == truth


# And one that starts later, and has ended when the picture is drawn.
PICTURED = LOGGED + """
out = tempfile.TemporaryFile("w+")
trace = All("-v", "--hist", "-i", "1000", "--force", *options, stdout=out)
for t in targets:
    trace.wait_said("process %d (logged.py) is traced" % t.pid)
targets.append(start(len(pythons)))
trace.wait_said("process %d (logged.py) is traced" % targets[-1].pid)
commands = [open("/proc/%d/comm" % t.pid).read().strip() for t in targets]
for t in targets[::-1]:
    work(t)
targets[-1].process.kill()
targets[-1].process.wait()
trace.interrupt()
for t in targets[:-1]:
    t.process.kill()
out.seek(0)
print(json.dumps({"pids": [t.pid for t in targets], "commands": commands, "last": json.loads(out.readlines()[-1]),
                  "truth": [json.load(open(log_of(i))) for i in range(len(targets))], "messages": trace.messages()}))
"""


def test_pictures(three_pythons, directory):  # noqa: F811
    """Each process has the ways of calls of its own log, by its number and names, and the times of its interpreter."""
    pprof, folded, html = (directory / name for name in ("x.pb.gz", "x.folded", "x.html"))
    options = [*FUNCTIONS, "-o", str(pprof), "-o", str(folded), "-o", str(html)]
    found = run_inside(PICTURED, three_pythons[0], three_pythons[1], json.dumps(three_pythons), json.dumps(options))
    profile = pprof_read.read(pprof)
    time, = (t.partition("/")[0] for t in profile["types"] if t.endswith("/nanoseconds"))
    version = {p["pid"]: p["python"] for p in found["last"]["processes"]}
    ways, own, folded_ns = {}, collections.Counter(), collections.Counter()
    for s in profile["samples"]:
        way = tuple(f["func"] for f in reversed(s["stack"]))
        pid, ns = s["labels"]["pid"], s["values"][time]
        ways.setdefault(pid, set()).add(way)
        own[version[pid], way[-1]] += ns
        command = found["commands"][found["pids"].index(pid)]
        assert s["labels"]["title"] == "logged.py" and s["labels"]["comm"] == command
        folded_ns[command, way] += ns
    for pid, log in zip(found["pids"], found["truth"]):
        truth = ways_of(log)
        assert len(truth) > 10 and ways[pid] == truth.keys(), ways[pid] ^ truth.keys()
    expected = collections.Counter()
    for interpreter in found["last"]["interpreters"]:
        for f in interpreter["functions"]:
            expected[interpreter["python"], f["function"]] += f["own_ns"]
    assert own == expected
    lines = collections.Counter()
    for line in folded.read_text().splitlines():
        (command, *way), ns = line.rpartition(" ")[0].split(";"), line.rpartition(" ")[2]
        lines[command, tuple(frame.partition(" (")[0] for frame in way)] += int(ns)
    assert lines == folded_ns
    assert html.read_text().rstrip().endswith("</html>")


# A program by several interpreters, each of which is told a word and says what is true.
TOLD = COMMON + """
def traced(program, pythons, words, *options):
    targets = [Target(python, program) for python in pythons]
    out = tempfile.TemporaryFile("w+")
    trace = All("-v", "-i", "1000", "--force", *options, stdout=out)
    for t in targets:
        trace.wait_said("process %d (%s) is traced" % (t.pid, program))
    truth = []
    for t, word in zip(targets, words):
        t.process.stdin.write(b"%s\\n" % str(word).encode())
        t.process.stdin.flush()
        truth.append(json.loads(t.read_line()))
    trace.interrupt()
    for t in targets:
        t.process.kill()
    out.seek(0)
    return [t.pid for t in targets], truth, [json.loads(line) for line in out]
"""

# Two processes of one interpreter, and one of another.
SLOWEST = TOLD + """
calls, options = json.loads(sys.argv[4]), json.loads(sys.argv[5])
pids, truth, lines = traced("slowest.py", (one, one, other), calls, *options)
print(json.dumps({"pids": pids, "truth": truth, "lines": lines}))
"""


def slowest_of(any_python, another_python, calls, mode, *more):
    functions = ("wait_elsewhere", "compute", "fail")
    options = [mode, "--slow", "p99", *map(str, more), *[word for f in functions for word in ("-f", f)]]
    found = run_inside(SLOWEST, any_python, another_python, json.dumps(calls), json.dumps(options))
    python = {p["pid"]: p["python"] for p in found["lines"][-1]["processes"]}
    groups = [(found["pids"][:2], found["truth"][:2]), (found["pids"][2:], found["truth"][2:])]
    for pids, truth in groups:
        table, = [i for i in found["lines"][-1]["interpreters"] if i["python"] == python[pids[0]]]
        assert {f["function"] for f in table["functions"]} == set(functions)
        yield pids, truth, table["functions"], found["lines"][:-1]


def test_slowest(any_python, another_python, directory):
    """The slowest 1% of a function in all processes of an interpreter, as these say themselves, and where each was."""
    calls, folded, averages = 300, directory / "slow.folded", []
    for pids, truth, functions, _ in slowest_of(any_python, another_python, 3 * [calls], "--hist", "-o", folded):
        averages += [f["slow"]["total_ns"] for f in functions]
        seen = set()
        for f in functions:
            slow = calls * len(pids) // 100
            assert f["compared"] == f["ended"] == calls * len(pids) and f["slow"]["count"] == slow
            times = sorted(ns for process in truth for ns in process[f["function"]])
            # The program's clock is read around the call, so it is longer.
            assert 0.9 * SLOW_S * 1e9 < f["limit_ns"] <= times[-slow] and f["longest_ns"] <= times[-1]
            assert {row["name"] for row in f["slowest"]} == {"slowest.py"}
            assert {row["callers"][0]["function"] for row in f["slowest"]} == {"caught"}
            seen |= {row["pid"] for row in f["slowest"]}
        assert seen == set(pids)
    lines = [line.rsplit(" ", 2) for line in folded.read_text().splitlines()]
    assert {way.partition(";")[0] for way, _, _ in lines} == {"all processes"}
    # An average slow call of each function and interpreter; parts of one are rounded down.
    assert sum(averages) - 500 < sum(int(slow) for _, _, slow in lines) <= sum(averages)


def test_each_of_the_slowest(any_python, another_python):
    """--calls: by one limit for all processes of an interpreter, from the 200th call of them on."""
    (pids, _, _, events), _ = slowest_of(any_python, another_python, [200, 190, 190], "--calls")
    # Which are slow may be told of the second process, though it has not 200 calls itself; not of the third.
    assert pids[1] in [e["pid"] for e in events] and {e["pid"] for e in events} <= set(pids)
    assert all(e["name"] == "slowest.py" and e["total_ns"] > 0.9 * SLOW_S * 1e9 for e in events)


# Two processes of the first interpreter, whose types are at different addresses, and one of each other.
VALUED = TOLD + """
pythons, options = json.loads(sys.argv[4]), json.loads(sys.argv[5])
pids, truth, lines = traced("arguments.py", pythons, len(pythons) * ["go"], "--calls", "-f", "arguments.py:*do_*", *options)
print(json.dumps({"truth": truth, "events": [[e for e in lines[:-1] if e.get("pid") == pid] for pid in pids], "last": lines[-1]}))
"""


def valued(three_pythons, *options):  # noqa: F811
    """(interpreter, what the program says, events of its functions) of each process; and the last object."""
    pythons = [three_pythons[0], *three_pythons]
    found = run_inside(VALUED, three_pythons[0], three_pythons[1], json.dumps(pythons), json.dumps(options))
    events = [[e for e in of if test_arguments.name_of(e).startswith("do_")] for of in found["events"]]
    return list(zip(pythons, found["truth"], events)), found["last"]


def check(found, wanted):
    assert len(wanted) > 2
    assert not test_arguments.first_difference(found, wanted), test_arguments.first_difference(found, wanted)


def test_values(three_pythons):  # noqa: F811
    """What each program says that its functions were called with, and have returned."""
    for python, truth, events in valued(three_pythons, "--args=6", "--ret")[0]:
        check(test_arguments.arguments_of(events), test_arguments.first(truth["calls"], 6))
        check(test_arguments.returns_of(events), test_arguments.returned(python, truth))
        assert "geheim" not in json.dumps(events)


def test_condition(three_pythons):  # noqa: F811
    """Only the calls that Python itself selects, in each process."""
    found, last = valued(three_pythons, "--args=6", "--if", "a == 'text'")
    calls = 0
    for _, truth, events in found:
        wanted = [call for call in truth["calls"] if dict(call[1]).get("a") == "'text'"]
        assert wanted and test_arguments.arguments_of(events) == test_arguments.first(wanted, 6)
        calls += len(wanted)
    assert last["calls"] == calls
