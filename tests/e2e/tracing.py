# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Runs `trace`, and the program whose calls are known. Also for virtual machines, where there is no pytest."""
import collections
import itertools
import json
import platform
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import harness
from harness import PROGRAMS, Target

PROGRAM = PROGRAMS / "counted.py"
# An event of an older kernel cannot be inherited in a way that holds (user/trace/family.c).
FOLLOWS = tuple(map(int, platform.release().replace("-", ".").split(".")[:2])) >= (6, 12)
MILLION = PROGRAMS / "million.py"
RAISING = PROGRAMS / "raising.py"
FRAMES_MAX = 127  # shown of the stack of an exception


# No breakpoint is set while any process of the machine holds its mappings, as one of the attacks beside does.
HELD = "the kernel might wait for it too"


def start(pid, *args):
    """A `trace` of a process, which counts, and what it has said."""
    end = time.monotonic() + 2 * harness.PATIENCE
    while True:
        process = subprocess.Popen([harness.PYPERF, "trace", "-p", str(pid), *map(str, args)], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=harness.clean_environment())
        messages = []
        for line in process.stderr:
            messages.append(line)
            if "counting the " in line:
                return process, messages
        process.communicate()
        assert HELD in "".join(messages) and time.monotonic() < end, "".join(messages)
        time.sleep(0.5)


# A part of a program that `trace -- PROGRAM` runs: from its end on, the trace stands still until somebody continues `tracer`.
STOP_TRACER = """
import os, signal, time
def state(pid):
    return open("/proc/%d/stat" % pid).read().rpartition(")")[2].split()[0]
tracer = os.getppid()
os.kill(tracer, signal.SIGSTOP)
while state(tracer) != "T":
    time.sleep(0.001)
"""


class Trace:
    """`trace` of a process, which counts when the constructor returns."""

    def __init__(self, pid, *args):
        self.process, self.messages = start(pid, "--json", *args)

    def finish(self, sig=signal.SIGINT):
        """The last object that it prints."""
        return json.loads(self.lines(sig)[-1])

    def lines(self, sig=signal.SIGINT):
        """All that it prints."""
        if sig:
            self.process.send_signal(sig)
        out, messages = self.process.communicate(timeout=harness.PATIENCE)
        self.messages.append(messages)
        assert self.process.returncode == 0, self.messages
        lines = out.splitlines()
        assert json.loads(lines[-1])["final"]
        return lines


BEGINNINGS = ("call", "resume", "throw")


def events_of(lines, path):
    """Calls and ends of functions of the program, as it logs them: a list for each thread."""
    threads = {}
    for e in map(json.loads, lines):
        if e.get("file") == str(path) and "event" in e:
            threads.setdefault(e["thread"], []).append(
                "%s%s:%d" % ("+" if e["event"] in BEGINNINGS else "-", e["function"], e["line"]))
    return sorted(threads.values())


def counts_of(result, path):
    """As the program prints them."""
    return {"%s:%d" % (f["function"], f["line"]): [f["calls"], f["resumed"]]
            for f in result["functions"] if f["file"] == str(path)}


def printed(python, format_name):
    """The events of each thread as the interpreter itself says, like "+f", and the lines of `trace` in a format."""
    answer = subprocess.run([python, "-B", PROGRAM, "events"], capture_output=True, check=True,
                            timeout=harness.PATIENCE, env=harness.clean_environment())
    truth = sorted([event.rpartition(":")[0] for event in thread] for thread in json.loads(answer.stdout))
    with Target(python, "counted.py", "run") as target:
        with subprocess.Popen([harness.PYPERF, "trace", "-p", str(target.pid), "--force", "--calls",
                               "--format", format_name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env=harness.clean_environment()) as process:
            try:
                assert "counting the " in process.stderr.readline()
                with ThreadPoolExecutor(1) as reader:
                    out = reader.submit(process.stdout.read)
                    work(target)
                    process.send_signal(signal.SIGINT)
                    return truth, out.result(harness.PATIENCE).splitlines()
            finally:
                process.kill()


def truth_of(python):
    answer = subprocess.run([python, "-B", PROGRAM, "truth"], capture_output=True, check=True,
                            timeout=harness.PATIENCE, env=harness.clean_environment())
    return json.loads(answer.stdout)


def work(target):
    target.process.stdin.write(b"go\n")
    assert target.read_line() == b"done\n"


def compare(python):
    """The counts of all functions of the program, and what the interpreter itself counted."""
    truth = truth_of(python)
    assert len(truth) > 80
    with Target(python, "counted.py", "run") as target:
        trace = Trace(target.pid, "--top", 0, "--force")
        work(target)
        found = trace.finish()
    counts = counts_of(found, PROGRAM)
    assert counts == truth, {name: (counts.get(name), truth.get(name)) for name in counts.keys() | truth.keys()
                             if counts.get(name) != truth.get(name)}
    assert not any("not counted" in m for m in trace.messages), trace.messages
    assert found["calls"] == sum(f["calls"] for f in found["functions"])


def compare_events(python):
    """Each call and each end of the program, in order, by thread, and the interpreter's own log of them: how many."""
    answer = subprocess.run([python, "-B", PROGRAM, "events"], capture_output=True, check=True,
                            timeout=harness.PATIENCE, env=harness.clean_environment())
    truth = sorted(json.loads(answer.stdout))
    assert len(truth) == 5
    with Target(python, "counted.py", "run") as target:
        trace = Trace(target.pid, "--calls", "--top", 0, "--force")
        work(target)
        lines = trace.lines()
    found = events_of(lines, PROGRAM)
    assert len(found) == len(truth)
    for mine, theirs in zip(found, truth):
        differs = next((i for i, pair in enumerate(zip(mine, theirs)) if pair[0] != pair[1]), None)
        assert differs is None, (mine[differs - 3:differs + 5], theirs[differs - 3:differs + 5])
        assert len(mine) == len(theirs), (len(mine), len(theirs))
    last = json.loads(lines[-1])
    assert last["lost_events"] == 0
    assert not [f for f in last["functions"] if f["file"] == str(PROGRAM) and f["unknown_ends"]]
    return sum(map(len, truth))


def compare_million(python, rounds=0):
    """Each of a million calls, or of so many rounds, and its end, in order, with its depth: how many events, all as in the interpreter's own log.

    The next round begins when all of the last one has come: what is compared has not found its room by luck.
    """
    answer = subprocess.run([python, "-B", MILLION, "truth"], capture_output=True, check=True,
                            timeout=harness.PATIENCE, env=harness.clean_environment())
    truth = json.loads(answer.stdout)
    rounds = rounds or -(-1000000 // sum("=>" in event for event in truth))
    with Target(python, "million.py", "run") as target:
        trace, said = start(target.pid, "--calls", "--format", "systemtap", "--force", "-f", "million.py:*")
        late = threading.Timer(harness.PATIENCE, trace.kill)  # what is missing never comes
        late.start()
        for n in range(rounds):
            target.process.stdin.write(b"go\n")
            target.process.stdin.flush()
            lines = list(itertools.islice(trace.stdout, len(truth)))
            remarks = [line for line in lines if line.startswith("#")]
            assert not remarks, remarks[:3]
            found = [line.partition("): ")[2].partition(" in ")[0] for line in lines]
            assert found == truth, (n, len(found), next((pair for pair in enumerate(zip(found, truth)) if pair[1][0] != pair[1][1]), 0))
        late.cancel()
        trace.send_signal(signal.SIGINT)
        out, messages = trace.communicate(timeout=harness.PATIENCE)
    assert not out and trace.returncode == 0 and "lost" not in messages, (out[:500], said, messages)
    return rounds * len(truth)


def exceptions_truth(python):
    answer = subprocess.run([python, "-B", RAISING, "truth"], capture_output=True, check=True,
                            timeout=harness.PATIENCE, env=harness.clean_environment())
    truth = collections.Counter()
    for kind, stack, n in json.loads(answer.stdout):
        truth[kind, tuple(stack[:FRAMES_MAX]), len(stack) > FRAMES_MAX] += n
    return truth


def key_of(row):
    return row["type"], tuple("%s:%d:%s" % (f["function"], f["first_line"], f["line"]) for f in row["stack"]), row["cut"]


def is_raised_there(row):
    return bool(row["stack"]) and row["stack"][0]["file"] == str(RAISING)


# What `trace --json` has: the members of the last object beside its lists, and those of a frame.
RUN = {"final": bool, "pid": int, "processes": int, "python": str, "seconds": float, "slowdown_percent": float, "lost_events": int}
FRAME = {"function": str, "file": str, "first_line": int, "line": int}


def check_form(value, form):
    """Exactly these members, of these types: slowdown_percent may not be known."""
    assert set(value) == set(form), (sorted(value), sorted(form))
    for name, kind in form.items():
        null = name == "slowdown_percent" and value[name] is None
        assert null or isinstance(value[name], (kind, int) if kind is float else kind), (name, value[name])


def differences(found, truth):
    return [(key, found[key], truth[key]) for key in found.keys() | truth.keys() if found[key] != truth[key]]


def exceptions_of(result):
    return collections.Counter({key_of(row): row["count"] for row in result["exceptions"] if is_raised_there(row)})


def compare_exceptions(python):
    """The counts of all types and stacks of the program, and what it noted itself."""
    truth = exceptions_truth(python)
    assert sum(truth.values()) > 1500 and len({kind for kind, _, _ in truth}) > 25
    with Target(python, "raising.py", "run") as target:
        trace = Trace(target.pid, "--exceptions", "--top", 0, "--force")
        work(target)
        result = trace.finish()
    assert not differences(exceptions_of(result), truth), differences(exceptions_of(result), truth)[:5]
    assert result["lost_events"] == 0
    assert result["raised"] == sum(row["count"] for row in result["exceptions"])
    assert not any("not counted" in m for m in trace.messages), trace.messages
