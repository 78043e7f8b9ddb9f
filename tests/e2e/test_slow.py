# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""trace --slow: the calls that took long, what they spent, and who called them."""
import json
import re
import subprocess

import pytest

import harness
from harness import PROGRAMS, Target
from tracing import Trace

PROGRAM = PROGRAMS / "slow_calls.py"
TICK_NS = 1e9 / 100  # of the slowest kernel; the CPU time of a thread that changes its CPU is that inexact, twice
CALLERS = {3: "computes", 6: "waits"}


def trace(python, *args):
    """What the program measured of its calls, and what `trace` prints."""
    with Target(python, "slow_calls.py") as target:
        tracing = Trace(target.pid, "--force", "-f", "handle", "--slow", "50ms", *args)
        target.process.stdin.write(b"go\n")
        truth = json.loads(target.read_line())
        return truth, [json.loads(line) for line in tracing.lines()]


def check_times(call, total_ns, cpu_ns):
    assert call["own_ns"] <= call["total_ns"] <= total_ns
    assert abs(call["cpu_ns"] - cpu_ns) < 2 * TICK_NS, (call, cpu_ns)
    assert call["cpu_ns"] + call["waiting_ns"] == call["total_ns"]


def line_of(text):
    return 1 + next(i for i, line in enumerate(PROGRAM.read_text().split("\n")) if line.startswith(text))


def test_each(old_or_new_python):
    """--calls has those that were slow, with what the program itself says that they took."""
    truth, lines = trace(old_or_new_python, "--calls")
    events = lines[:-1]
    slow = [n for n in range(20) if truth[n][0] >= 50e6 and n % 10 in CALLERS]
    named = [e for e in events if e["callers"][0]["function"] in CALLERS.values()]
    assert len(named) == len(slow) == 4
    for e, n in zip(named, slow):
        check_times(e, *truth[n])
        callers = [c["function"] for c in e["callers"] if "<listcomp>" not in c["function"]]
        assert callers == [CALLERS[n % 10], "measure", "work", "main", "<module>"]
        assert e["callers"][0]["file"] == str(PROGRAM) and e["callers"][0]["line"] == line_of("def " + CALLERS[n % 10]) + 1


def test_difference(old_or_new_python):
    """--hist says what the slow ones and the others took on average, and has the slowest."""
    truth, lines = trace(old_or_new_python, "--hist")
    (f,) = lines[-1]["functions"]
    assert f["slow"]["count"] + f["others"]["count"] == f["ended"] == 20 and f["slow"]["count"] >= 4
    totals = [call["total_ns"] for call in f["slowest"]]
    assert totals == sorted(totals, reverse=True) and len(totals) == min(5, f["slow"]["count"]) and f["longest_ns"] == totals[0]
    assert f["others"]["total_ns"] < 50e6 <= f["slow"]["total_ns"]
    assert f["slow"]["cpu_ns"] + f["slow"]["waiting_ns"] == f["slow"]["total_ns"]
    assert abs(f["slow"]["count"] * f["slow"]["cpu_ns"] - sum(cpu for total, cpu in truth if cpu > 5e7)) < 8 * TICK_NS
    # What slow calls call is no row, and what it takes is told: two of them compute in spin(), two sleep in C.
    spin, = f["callees"]
    computed = sum(cpu for _, cpu in truth if cpu > 5e7)
    # Others may have the CPU when they wake up.
    asleep, until_awake = 2 * 0.1e9, sum(truth[n][0] for n in range(20) if CALLERS.get(n % 10) == "waits")
    assert spin["function"] == "spin" and spin["slow_calls"] == 2 / f["slow"]["count"] and spin["other_calls"] == 0
    assert abs(f["slow"]["count"] * spin["more"]["on a CPU"] - computed) < 8 * TICK_NS and "sleep" not in spin["more"]
    assert 0.99 * asleep < f["slow"]["count"] * f["itself"]["more"]["sleep"] <= until_awake
    # Calls that slow ones come from, and others do not.
    by = {c["callers"][0]["function"]: (c["slow_calls"], c["other_calls"]) for c in f["called_by"]}
    assert by["computes"] == by["waits"] == (2, 0) and sum(map(sum, by.values())) == 20 and by["fails"][1] >= 12


def test_histograms(old_or_new_python):
    """--hist alone also says how long each call was on a CPU, and waited, as the program's own clocks do."""
    with Target(old_or_new_python, "slow_calls.py") as target:
        tracing = Trace(target.pid, "--force", "-f", "handle", "--hist")
        target.process.stdin.write(b"go\n")
        truth = json.loads(target.read_line())
        (f,) = tracing.finish()["functions"]
    assert f["ended"] == len(truth) == sum(f["cpu_log2_ns"]) == sum(f["waiting_log2_ns"])
    for found, times in (f["cpu_log2_ns"], [cpu for _, cpu in truth]), (f["waiting_log2_ns"], [total - cpu for total, cpu in truth]):
        assert len([t for t in times if t >= 9e7]) >= 2
        for i in range(24, 27):  # 17 to 67 ms
            surely = len([t for t in times if t >= (1 << i) + 2 * TICK_NS])
            perhaps = len([t for t in times if t >= (1 << i) - 2 * TICK_NS])
            assert surely <= sum(found[i:]) <= perhaps, (i, found, times)


REASONS = {"wait_sleep": "sleep", "wait_lock": "lock", "wait_net": "net", "wait_pipe": "pipe", "wait_poll": "poll",
           "wait_child": "child process", "wait_gil": "GIL"}


def test_reasons(python):
    """What each call is said to have waited for is what it does wait for."""
    with Target(python, "slow_waits.py") as target:
        tracing = Trace(target.pid, "--force", *(arg for name in REASONS for arg in ("-f", name)), "--slow", "50ms", "--calls")
        target.process.stdin.write(b"go\n")
        truth = json.loads(target.read_line())
        lines = [json.loads(line) for line in tracing.lines()]
    functions = {f["function"]: f for f in lines[-1]["functions"]}
    for name, reason in REASONS.items():
        events = [e for e in lines[:-1] if e["function"] == name]
        assert len(events) == len(truth[name]) == functions[name]["slow"]["count"]
        for e, waited in [*zip(events, truth[name]), (functions[name]["slow"], sum(truth[name]) / len(events))]:
            waits = e["waits"]
            assert sum(waits.values()) <= e["total_ns"] and waited <= e["total_ns"]
            # It has to get its CPU, and the GIL, before it can look at its clock.
            assert waits.get(reason, 0) + waits.get("CPU", 0) + (reason != "GIL") * waits.get("GIL", 0) > (
                0.4 if reason == "GIL" else 0.9) * waited - 5e6, (name, waits, waited)
            assert waits[reason] > (reason == "GIL") * waits.get("lock", 0), (name, waits)


def test_slow_for_people(any_python):
    with Target(any_python, "slow_calls.py") as target:
        with subprocess.Popen([harness.PYPERF, "trace", "-p", str(target.pid), "--force", "--calls", "--slow", "50ms", "handle"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=harness.clean_environment()) as process:
            assert "counting the calls of" in process.stderr.readline()
            target.process.stdin.write(b"go\n")
            target.read_line()
            process.send_signal(2)
            out = process.communicate(timeout=harness.PATIENCE)[0]
    assert re.search(r"handle  \[sleep [0-9.]+ ms\] < waits \(%s:" % re.escape(str(PROGRAM)), out) and "=>" not in out
    assert " of 20 took 50.00 ms or longer\n" in out and re.search(r" these, on average  \[.*sleep ", out)
    assert " the others, on average" in out and re.search(r"ms more in itself: .*sleep [0-9.]+ ms more", out)
    assert re.search(r"ms more in spin \(%s:[0-9]+\): .*on a CPU [0-9.]+ ms more.*; called 0\.[0-9]+ times, else 0.00\n" % re.escape(str(PROGRAM)), out)
    assert re.search(r"  [0-9.]+% of these and 0.0% of the others: handle < (waits|computes) \(", out)


@pytest.mark.parametrize("args, message", [
    (["--slow", "50"], "must be a time with its unit"),
    (["--slow", "0ms", "--hist"], "must be a time with its unit"),
    (["--slow", "50ms", "--gc", "--calls"], "--slow does not go with --gc: it is about calls"),
    (["--slow", "50ms", "--imports"], "--slow does not go with --imports: it is about calls"),
])
def test_bad_lines(args, message):
    result = subprocess.run([harness.PYPERF, "trace", "-p", "1", *args], capture_output=True, text=True, check=False)
    assert result.returncode == 2 and message in result.stderr and result.stderr.count("\n") == 1
