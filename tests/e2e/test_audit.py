# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""trace --audit: each audit event, with and without a hook in the process."""
import collections
import json
import subprocess

import pytest

import harness
from harness import PROGRAMS, Target
from tracing import FRAME, RUN, Trace, check_form, differences, work

pytestmark = pytest.mark.beside

PROGRAM = PROGRAMS / "audited.py"
WORK = ("work:", "in_thread:")


def truth_of(python):
    answer = subprocess.run([python, "-B", PROGRAM, "truth"], capture_output=True, check=True,
                            timeout=harness.PATIENCE, env=harness.clean_environment())
    truth = collections.Counter()
    for name, stack, n in json.loads(answer.stdout):
        if any(f.startswith(WORK) for f in stack):
            truth[name, tail(stack)] += n
    return truth


def tail(stack):
    """Without what differs from mode to mode: work() and what has called it."""
    at = next(i for i, f in enumerate(stack) if f.startswith(WORK))
    return tuple(stack[:at + 1])


def events_of(result):
    found = collections.Counter()
    for row in result["audit_events"]:
        stack = ["%s:%d:%s" % (f["function"], f["first_line"], f["line"]) for f in row["stack"]]
        if any(f.startswith(WORK) for f in stack):
            found[row["name"], tail(stack)] += row["count"]
    return found


def run(python, mode, names, *args):
    with Target(python, "audited.py", mode) as target:
        trace = Trace(target.pid, "--audit", names, "--top", 0, "--force", *args)
        work(target)
        lines = trace.lines()
    assert not any("not found" in m or "lost" in m for m in trace.messages), trace.messages
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("mode", ["run", "hooked"])
def test_events(python, mode):
    """The events that a hook sees, each with its stack, whether there is a hook or not."""
    truth = truth_of(python)
    names = {name for name, _ in truth}
    assert {"audited.own", "audited.module", "open", "import", "exec", "compile", "glob.glob", "os.listdir", "socket.connect",
            "subprocess.Popen", "sys.setprofile"} <= names
    result = run(python, mode, "*")[-1]
    assert not differences(events_of(result), truth), differences(events_of(result), truth)[:5]
    assert result["raised"] == sum(row["count"] for row in result["audit_events"]) and result["lost_events"] == 0


def test_names(any_python):
    """Only the events that are named, also longer than what the kernel compares; and each, with --calls."""
    truth = truth_of(any_python)
    lines = run(any_python, "run", "audited.own,socket.*,audited.generator", "--calls")
    wanted = {key: n for key, n in truth.items()
              if key[0] in ("audited.own", "audited.generator") or key[0].startswith("socket.")}
    assert len({name for name, _ in wanted}) >= 5
    assert events_of(lines[-1]) == wanted
    each = [e for e in lines[:-1] if e["event"] == "audit"]
    assert collections.Counter(e["name"] for e in each) == collections.Counter(
        {n: sum(c for (m, _), c in wanted.items() if m == n) for n, _ in wanted})
    assert not any("secret" in json.dumps(line) for line in lines)


def test_functions(any_python):
    """-f selects the functions that raise them."""
    result = run(any_python, "run", "*", "-f", "generate")[-1]
    assert [(row["name"], row["count"]) for row in result["audit_events"]] == [("audited.generator", 3)]


def test_for_people(any_python):
    with Target(any_python, "audited.py", "run") as target:
        with subprocess.Popen([harness.PYPERF, "trace", "-p", str(target.pid), "--force", "--calls", "--audit", "audited.*"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=harness.clean_environment()) as process:
            assert "counting the audit events of" in process.stderr.readline()
            work(target)
            process.send_signal(2)
            out = process.communicate(timeout=harness.PATIENCE)[0]
    assert "  audited.own: own (%s:" % PROGRAM in out and " audit events raised in " in out
    assert "  RAISED/S         RAISED  AUDIT EVENT\n" in out


def test_json(any_python):
    """The members of each event, and of the last object."""
    *each, last = run(any_python, "run", "audited.*", "--calls")
    row = {"name": str, "stack": list, "cut": bool}
    for event in each:
        check_form(event, {"event": str, "seconds": float, "process": int, "thread": int, **row})
        assert event["event"] == "audit" and event["name"].startswith("audited.") and not event["cut"]
    check_form(last, {**RUN, "raised": int, "audit_events": list})
    assert last["final"] and last["processes"] == 1 and each
    assert last["raised"] == len(each) == sum(r["count"] for r in last["audit_events"])
    for event in last["audit_events"]:
        check_form(event, {"count": int, **row})
    for frame in (frame for r in each + last["audit_events"] for frame in r["stack"]):
        check_form(frame, FRAME)
    # Without --calls there are tables alone, the last of which says so.
    tables = run(any_python, "run", "audited.*", "-i", 0.1)
    assert [table["final"] for table in tables] == [False] * (len(tables) - 1) + [True]
    assert tables[-1]["raised"] == last["raised"] and all(set(table) == set(last) for table in tables)


@pytest.mark.parametrize("args, message", [
    (["--audit", ""], "names of audit events"),
    (["--audit", "open,"], "names of audit events"),
    (["--audit", "--calls"], "names of audit events"),
    (["--audit", "--", "true"], "names of audit events"),
    (["--audit", "*open"], "names of audit events"),
    (["--audit", "a,b,c,d,e,f,g,h,i"], "up to 8 names"),
    (["--audit", "x" * 101], "names of audit events"),
    (["--audit", "open", "--audit", "exec"], "name all events at once"),
    (["--audit", "open", "--gc"], "one at a time"),
    (["--audit", "open", "--hist"], "--hist does not go with --audit"),
])
def test_bad_lines(args, message):
    result = subprocess.run([harness.PYPERF, "trace", "-p", "1", *args], capture_output=True, text=True, check=False)
    assert result.returncode == 2 and message in result.stderr and result.stderr.count("\n") == 1


def test_old_python():
    """2.7 to 3.7 have no audit events."""
    import interpreters
    old = [path for name, path in interpreters.find().items() if name in ("pyenv/2.7", "pyenv/3.6", "pyenv/3.7")]
    if not old:
        pytest.skip("no CPython before 3.8")
    with Target(old[0], "slow_calls.py") as target:
        result = subprocess.run([harness.PYPERF, "trace", "-p", str(target.pid), "--audit", "open"], capture_output=True, text=True,
                                check=False)
    assert result.returncode == 1 and "PySys_Audit() was not found" in result.stderr
