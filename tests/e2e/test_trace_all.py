# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""trace of all processes. Each case has a PID namespace of its own, so no other Python of the machine is looked at."""
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import harness
from conftest import INTERPRETERS

pytestmark = pytest.mark.beside

BPFTOOL = harness.find_tool("bpftool")
UNSHARE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]

# Runs inside. A trace shows in `processes` whom it has found.
COMMON = """
import json, os, signal, subprocess, sys, tempfile
sys.path.insert(0, sys.argv[1])
import harness
from tracing import PROGRAM, Target, counts_of, truth_of, work
one, other = sys.argv[2:4]
UNSHARE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
def inner(pid, levels):
    for _ in range(levels):
        with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
            pid, = map(int, f.read().split())
    return pid
class All:
    def __init__(self, *args, stdout=subprocess.PIPE):
        self.err = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([harness.PYPERF, "trace", "--json", "--top", "0", "-i", "0.1", *args],
                                        stdout=stdout, stderr=self.err, text=True)
    def wait_for(self, good):
        for line in self.process.stdout:
            if good({p["pid"]: p for p in json.loads(line)["processes"]}):
                return
        raise AssertionError(self.messages())
    def messages(self):
        self.err.seek(0)
        return self.err.read()
    def wait_said(self, text, meanwhile=bool):
        harness.poll(lambda: meanwhile() or text in self.messages(), text)
    def stand_still(self):
        self.process.send_signal(signal.SIGSTOP)
        stat = "/proc/%d/stat" % self.process.pid
        harness.poll(lambda: open(stat).read().rpartition(")")[2].split()[0] == "T", "the trace to stop")
    def interrupt(self):
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(harness.PATIENCE) == 0, self.messages()
    def finish(self):
        self.process.send_signal(signal.SIGINT)
        lines = self.process.stdout.read().splitlines()
        assert self.process.wait(harness.PATIENCE) == 0, self.messages()
        assert json.loads(lines[-1])["final"]
        return json.loads(lines[-1])
"""

# Two interpreters, and a program that starts while the trace runs.
COUNTED = COMMON + """
truth = truth_of(one), truth_of(other)
with Target(one, "counted.py", "run") as a, Target(other, "counted.py", "run") as b:
    trace = All("--force")
    trace.wait_for(lambda found: a.pid in found and b.pid in found)
    with Target(one, "counted.py", "run") as late:
        trace.wait_for(lambda found: late.pid in found)
        for target in a, b, late:
            work(target)
        late_pid = late.pid
    trace.wait_for(lambda found: found[late_pid]["ended"])
    last = trace.finish()
expected = {}
for factor, counts in (2, truth[0]), (1, truth[1]):
    for name, pair in counts.items():
        expected.setdefault(name, []).append([factor * n for n in pair])
found = {}
for f in last["functions"]:
    if f["file"] == str(PROGRAM):
        found.setdefault("%s:%d" % (f["function"], f["line"]), []).append([f["calls"], f["resumed"]])
hits = {p["pid"]: p["hits"] for p in last["processes"]}
print(json.dumps({
    "functions": len(found),
    # What starts late may be found while it still defines its functions and classes.
    "wrong": {name: (sorted(found.get(name, [])), sorted(rows)) for name, rows in expected.items()
              if sorted(found.get(name, [])) != sorted(rows) and not name.startswith("<module>")},
    "hits": [hits[pid] for pid in (a.pid, b.pid, late_pid)],
    "calls": [sum(map(sum, counts.values())) for counts in (truth[0], truth[1], truth[0])],
    "messages": trace.messages()}))
"""


REFUSED = COMMON + """
levels = int(sys.argv[5])
SPIN = "import sys\\ndef f(): pass\\nprint('ready', flush=True)\\nwhile True: f()\\n"
with Target(one, "counted.py", "run") as a, Target(other, "counted.py", "run") as b, \\
        subprocess.Popen(levels * UNSHARE + [one, "-c", SPIN], stdout=subprocess.PIPE) as spin:
    assert spin.stdout.readline() == b"ready\\n"
    spin_pid = inner(spin.pid, levels)
    out = tempfile.TemporaryFile("w+")
    trace = All("-v", *json.loads(sys.argv[4]), stdout=out)
    for said in ["process %d (counted.py) is traced" % t.pid for t in (a, b)] + ["would slow it down", "counting the"]:
        trace.wait_said(said)
    trace.interrupt()
    spin.kill()
    out.seek(0)
    last = json.loads(out.readlines()[-1])
print(json.dumps({"refused": [p["pid"] for p in last["processes"] if p["refused"]], "spin": spin_pid,
                  "others": [a.pid, b.pid], "all": [p["pid"] for p in last["processes"]], "messages": trace.messages()}))
"""


# In namespaces within the one of the tracer, two and three levels deep.
NESTED = COMMON + """
calls = sum(map(sum, truth_of(one).values()))
with Target(one, "counted.py", "run", prefix=UNSHARE) as a, Target(one, "counted.py", "run", prefix=2 * UNSHARE) as b:
    pids = inner(a.pid, 1), inner(b.pid, 2)
    trace = All("--force")
    trace.wait_for(lambda found: all(pid in found for pid in pids))
    work(a)
    work(b)
    last = trace.finish()
hits = {p["pid"]: p["hits"] for p in last["processes"]}
print(json.dumps({"hits": [hits[pid] for pid in pids], "calls": calls, "messages": trace.messages()}))
"""


# A copy of the interpreter, which another process has mapped so that it tells nothing of it; a count that the kernel
# forgets; more functions than one process has.
HIDDEN = COMMON + """
import shutil
place = tempfile.TemporaryDirectory()
copy = os.path.realpath(shutil.copy("/usr/bin/python3", place.name))
with open(copy, "ab") as f:
    f.write(bytes(8192))
own = dict(env=dict(harness.clean_environment(), PYTHONHOME="/usr"))
MAP = '''
import ctypes, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
c = ctypes.CDLL(None)
c.mmap.restype = ctypes.c_void_p
c.mmap.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long
# PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED: before all others, of what is behind the program.
assert c.mmap(0x200000, 4096, 5, 0x12, fd, os.fstat(fd).st_size // 4096 * 4096 - 4096) == 0x200000
print("ready", flush=True)
sys.stdin.read()
'''
FUNCTIONS = '''
import sys, types
def f(): pass
all = [types.FunctionType(f.__code__.replace(), {}) for _ in range(70000)]
print("ready", flush=True)
sys.stdin.readline()
for g in all:
    g()
print("done", flush=True)
sys.stdin.read()
'''
def forget(pid):
    for number in os.listdir("/proc/%d/fdinfo" % trace.process.pid):
        try:
            with open("/proc/%d/fdinfo/%s" % (trace.process.pid, number)) as f:
                of_map = [line.split()[1] for line in f if line.startswith("map_id:")]
        except FileNotFoundError:  # of a scan
            continue
        for number in of_map:
            key = ["%02x" % b for b in pid.to_bytes(4, "little")]
            subprocess.run([sys.argv[4], "map", "delete", "id", number, "key", "hex", *key], capture_output=True)
hits = {}
def counted(found, pid, least):
    hits[pid] = found[pid]["hits"]
    return hits[pid] >= least
with harness.Process(["/usr/bin/python3", "-c", MAP, copy]) as odd, Target(copy, "counted.py", "run", **own) as a, \\
        harness.Process([copy, "-c", FUNCTIONS], **own) as many:
    trace = All("--force")
    trace.wait_for(lambda found: a.pid in found and many.pid in found)
    work(a)
    work(many)
    trace.wait_for(lambda found: counted(found, a.pid, 1000))
    trace.wait_for(lambda found: counted(found, many.pid, 70000))
    before = hits[a.pid]
    forget(a.pid)
    last = trace.finish()
called = {name: sum(f["calls"] for f in last["functions"] if f["function"] == name) for name in ("f", "<unknown>")}
print(json.dumps({"before": before, "after": [p["hits"] for p in last["processes"] if p["pid"] == a.pid],
                  "called": called, "messages": trace.messages()}))
"""


# Programs that log their calls, of as many interpreters as are given, a log for each.
LOGGED = COMMON + """
from harness import PROGRAMS
LOGGED = str(PROGRAMS / "logged.py")
pythons, options = json.loads(sys.argv[4]), json.loads(sys.argv[5])
FUNCTIONS = {"leaf", "steps", "fails", "handles", "branch"}
places = tempfile.TemporaryDirectory()
def log_of(i):
    return "%s/%d" % (places.name, i)
def start(i):
    python = pythons[i % len(pythons)]
    if not subprocess.run([python, "-c", "import sys; sys.exit(not hasattr(sys, 'monitoring'))"]).returncode:
        # There a profile function changes the code, so that some calls begin twice: a twin has one.
        with Target(python, "logged.py", str(7 * i), log_of(i)) as twin:
            work(twin)
        return Target(python, "logged.py", str(7 * i), "")
    return Target(python, "logged.py", str(7 * i), log_of(i))
targets = [start(i) for i in range(len(pythons))]
"""

# And one more that starts while the trace runs.
CALLED = LOGGED + """
out = tempfile.TemporaryFile("w+")
trace = All("-v", "--calls", "--force", *options, stdout=out)
trace.wait_said("counting the calls of")
targets.append(start(len(pythons)))
trace.wait_said("process %d (logged.py) is traced" % targets[-1].pid)
for t in targets:
    work(t)
trace.interrupt()
out.seek(0)
lines = [json.loads(line) for line in out]
events = {t.pid: {} for t in targets}
names = {t.pid: set() for t in targets}
for e in lines[:-1]:
    if e.get("file") == LOGGED and e["function"] in FUNCTIONS:
        sign = "+" if e["event"] in ("call", "resume") else "-"
        events[e["pid"]].setdefault(e["thread"], []).append("%s%s:%d" % (sign, e["function"], e["line"]))
        names[e["pid"]].add(e["name"])
for t in targets:
    t.process.kill()
print(json.dumps({"events": [sorted(events[t.pid].values()) for t in targets],
                  "truth": [json.load(open(log_of(i))) for i in range(len(targets))],
                  "names": [sorted(names[t.pid]) for t in targets],
                  "last": lines[-1], "messages": trace.messages()}))
"""

# More events than there is room for, while the trace stands still; and some behind them.
STORMING = COMMON + """
STORM = '''
import sys
def leaf():
    pass
def storm(n):
    for _ in range(n):
        leaf()
print("ready", flush=True)
for n in sys.stdin:
    storm(int(n))
    print("done", flush=True)
'''
def storm(n):
    target.process.stdin.write(b"%d\\n" % n)
    assert target.read_line() == b"done\\n"
def lose(mode):
    trace = All(mode, "--force", "-f", "leaf", "-f", "storm", stdout=out)
    trace.wait_said("counting the calls of")
    trace.stand_still()
    storm(150000)
    trace.process.send_signal(signal.SIGCONT)
    return trace
out = tempfile.TemporaryFile("w+")
"""

OVERFLOWING = STORMING + """
storms = 0
def last_storm_is_shown(): # so the ring is empty
    global storms
    storm(1)
    storms += 1
    size = os.fstat(out.fileno()).st_size
    last = os.pread(out.fileno(), 4096, max(size - 4096, 0)).split(b"\\n")
    if last.pop(): # half a line
        return False
    return [json.loads(line).get("function") for line in last[-4:]] == ["storm", "leaf", "leaf", "storm"]
with harness.Process([other, "-c", STORM]) as target:
    trace = lose("--calls")
    harness.poll(lambda: os.fstat(out.fileno()).st_size, "calls")
    harness.poll(last_storm_is_shown, "the last storm")
    trace.interrupt()
out.seek(0)
lines = [json.loads(line) for line in out]
print(json.dumps({"storms": storms,
                  "events": [e for e in lines[:-1] if e.get("python") or e.get("pid") == target.pid][-1000:],
                  "seen": sum(e.get("pid") == target.pid and e["event"] != "unknown" for e in lines[:-1]),
                  "lost": [e["events"] for e in lines[:-1] if e["event"] == "lost"],
                  "last": lines[-1], "messages": trace.messages()}))
"""

# More interpreters than may be traced at a time: the first one has ended, and makes room.
MADE_ROOM = STORMING + """
import contextlib, shutil
with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as all:
    pythons = [shutil.copy(other, "%s/python%d" % (directory, n)) for n in range(17)]
    with harness.Process([pythons[0], "-c", STORM]) as target:
        trace = lose("--hist")
    for python in pythons[1:]:
        all.enter_context(harness.Process([python, "-c", STORM]))
    trace.wait_said("no process runs any more")
    trace.interrupt()
out.seek(0)
print(json.dumps({"last": json.loads(out.readlines()[-1]), "messages": trace.messages()}))
"""

# A program that was none of Python's executes Python while the rings have no room to tell of it.
UNSAID = COMMON + """
from harness import PROGRAMS
sys.path.insert(0, str(PROGRAMS))
from mapping_storm import storm
line = 'echo ready; read go; exec "$@"'
later = harness.Process(["sh", "-c", line, "sh", one, "-B", str(PROGRAMS / "counted.py"), "run"])
trace = All("-v", "--force", stdout=subprocess.DEVNULL)
trace.wait_said("counting the calls of")
trace.stand_still()
storm(2000)
later.process.stdin.write(b"go\\n")
later.process.stdin.flush()
assert later.read_line() == b"ready\\n"
trace.process.send_signal(signal.SIGCONT)
# The loss is said with the next record that finds room.
trace.wait_said("process %d (counted.py) is traced" % later.pid, lambda: storm(1))
trace.interrupt()
later.process.kill()
print(json.dumps({"messages": trace.messages()}))
"""


# A program executes another one while the trace stands still, and what it did is still on its way.
RENAMED = COMMON + """
place = tempfile.TemporaryDirectory()
def program(name, function, then):
    path = os.path.join(place.name, name)
    with open(path, "w") as f:
        f.write("import os, sys\\ndef %s(): pass\\nprint('ready', flush=True)\\nsys.stdin.readline()\\n"
                "for i in range(100): %s()\\n%s\\n" % (function, function, then))
    return path
after = program("after.py", "second", "print('done', flush=True); sys.stdin.readline()")
before = program("before.py", "first", "os.execv(sys.executable, [sys.executable, %r])" % after)
out = tempfile.TemporaryFile("w+")
with harness.Process([one, before]) as target:
    trace = All("-v", "--calls", "--force", "-f", "first", "-f", "second", *sys.argv[4:], stdout=out)
    trace.wait_said("counting the calls of")
    trace.stand_still()
    target.process.stdin.write(b"go\\n")
    target.process.stdin.flush()
    assert target.read_line() == b"ready\\n"
    trace.process.send_signal(signal.SIGCONT)
    trace.wait_said("process %d (after.py) is traced" % target.pid)
    target.process.stdin.write(b"go\\n")
    target.process.stdin.flush()
    assert target.read_line() == b"done\\n"
    trace.interrupt()
out.seek(0)
names = {}
for e in map(json.loads, out):
    if e.get("event") == "call":
        names.setdefault(e["function"], []).append(e["name"])
print(json.dumps({"names": {f: {n: all.count(n) for n in set(all)} for f, all in names.items()}, "messages": trace.messages()}))
"""


# The tracer is killed while what it traces works, one that started later, and who started them, too.
KILLED = COMMON + """
def changed(pids):
    return [bool(harness.changed_code(pid)) for pid in pids]
with Target(one, "counted.py", "run") as a, Target(other, "counted.py", "run") as b:
    before = changed([a.pid, b.pid, os.getpid()])
    out = tempfile.TemporaryFile("w+")
    trace = All("-v", "--force", *sys.argv[4:], stdout=out)
    trace.wait_said("counting the calls of")
    with Target(other, "counted.py", "run") as late:
        targets = a, b, late
        pids = [t.pid for t in targets] + [os.getpid()]
        trace.wait_said("process %d (counted.py) is traced" % late.pid)
        harness.poll(lambda: all(changed(pids)), "breakpoints in all")
        for t in targets:
            work(t)
        traced = changed(pids)
        for t in targets:
            t.process.stdin.write(b"go\\n")
        trace.process.kill()
        trace.process.wait()
        harness.poll(lambda: not any(changed(pids)), "the breakpoints to go", 30)
        for t in targets:
            assert t.read_line() == b"done\\n"
            work(t)
        print(json.dumps({"before": before, "traced": traced, "killed": changed(pids)}))
"""


def run_inside(code, *args):
    if subprocess.run([*UNSHARE, "true"], check=False).returncode:
        pytest.skip("cannot unshare")
    done = subprocess.run([*UNSHARE, sys.executable, "-c", code, str(Path(__file__).parent), *args],
                          capture_output=True, text=True, timeout=harness.PATIENCE, env=harness.clean_environment())
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("mode", ["--count", "--calls", "--hist"])
def test_killed(any_python, another_python, mode):
    """After kill -9 the code of all is that of their files again, and they work on."""
    found = run_inside(KILLED, any_python, another_python, mode)
    assert found == {"before": 3 * [False], "traced": 4 * [True], "killed": 4 * [False]}


@pytest.mark.skipif(not BPFTOOL, reason="no bpftool")
def test_hidden(any_python):
    """Neither one process nor the kernel's tables hide others, or what was counted."""
    found = run_inside(HIDDEN, any_python, any_python, BPFTOOL)
    assert found["after"] and found["after"][0] >= found["before"] > 0, found
    assert sum(found["called"].values()) >= 70000, found  # there is no time to read the name of each


def test_executed_meanwhile(any_python):
    found = run_inside(RENAMED, any_python, any_python)
    assert found["names"] == {"first": {"before.py": 100}, "second": {"after.py": 100}}, found


def test_stdout_is_full():
    """It says so, once, and why."""
    if subprocess.run([*UNSHARE, "true"], check=False).returncode:
        pytest.skip("cannot unshare")
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*UNSHARE, harness.PYPERF, "trace", "-d", "0.1"], stdout=full, stderr=subprocess.PIPE,
                              text=True, timeout=harness.PATIENCE)
    assert done.returncode == 1 and done.stderr.count("standard output: No space left on device") == 1, done


def test_counts(any_python, another_python):
    """Of all interpreters, and of what starts later: each call once."""
    found = run_inside(COUNTED, any_python, another_python)
    with harness.certain():
        assert found["functions"] > 80 and not found["wrong"], found["wrong"]
    for hits, calls in zip(found["hits"], found["calls"]):
        assert hits >= calls
    assert "tracing 3 Python processes of" in found["messages"]  # with the one inside that starts them


@pytest.fixture(scope="module")
def three_pythons(any_python, another_python):
    """Of three files and, as far as there are, of three kinds: the frame is an argument, in a register, or else."""
    found = [p for slot, p in INTERPRETERS.items() if p not in (any_python, another_python)]
    if not found:
        pytest.skip("only two CPython 3.8 to 3.13 are installed")
    return [any_python, another_python, found[-1]]


def inside_of(function, events):
    """Those of a thread's log that are inside of that function, and its own."""
    chosen, depth, begun = [], 0, []
    for event in events:
        if event[0] == "+":
            depth += 1
            if event.startswith("+%s:" % function):
                begun.append(depth)
        if begun:
            chosen.append(event)
        if event[0] == "-":
            if begun and begun[-1] == depth:
                begun.pop()
            depth -= 1
    return chosen


def of_functions(names, events):
    return [event for event in events if event[1:].split(":")[0] in names]


CHOICES = {
    "all": ([], list),
    "filter": (["-f", "logged.py:leaf", "-f", "logged:h*"], lambda log: of_functions(("leaf", "handles"), log)),
    "from": (["--from", "handles"], lambda log: inside_of("handles", log)),
}


@pytest.mark.parametrize("choice", CHOICES)
def test_calls(three_pythons, choice):
    """Each call and each end in each thread of each process, also of one that starts later, as its own log has them."""
    options, choose = CHOICES[choice]
    found = run_inside(CALLED, three_pythons[0], three_pythons[1], json.dumps(three_pythons), json.dumps(options))
    for mine, log in zip(found["events"], found["truth"]):
        theirs = sorted(map(choose, log))
        assert len(theirs) == 2 and sum(map(len, theirs)) > 100
        assert mine == theirs, [(a[:5], b[:5], len(a), len(b)) for a, b in zip(mine, theirs)]
    assert found["names"] == [["logged.py"]] * 4
    assert found["last"]["final"] and not [i["lost_events"] for i in found["last"]["interpreters"] if i["lost_events"]]


def test_lost(any_python, another_python):
    """What found no room is said in its place, and all add up; calls that were open then have no end."""
    found = run_inside(OVERFLOWING, any_python, another_python)
    total = 2 * (150000 + 1 + 2 * found["storms"])
    assert sum(found["lost"]) > 10000
    assert total - 4 * len(found["lost"]) <= found["seen"] + sum(found["lost"]) <= total, found["seen"]
    lost, = [i for i in found["last"]["interpreters"] if i["lost_events"]]
    assert lost["lost_events"] == sum(found["lost"])
    kinds = [e["event"] for e in found["events"]]
    at = kinds.index("lost")
    assert found["events"][at]["python"] == lost["python"] and "unknown" in kinds[at - 2:at]
    names = [e.get("function") for e in found["events"]]
    assert names[-4:] == ["storm", "leaf", "leaf", "storm"] and "unknown" not in kinds[-4:]
    assert "events were lost" in found["messages"]


def test_lost_of_one_that_made_room(any_python):
    """The total has what was lost of interpreters that are not shown any more."""
    alone = os.path.realpath("/usr/bin/python3")
    if not os.path.exists(alone):
        pytest.skip("no interpreter of the system")
    found = run_inside(MADE_ROOM, any_python, alone)
    lost, = re.findall(r"(\d+) events were lost", found["messages"])
    assert not [i for i in found["last"]["interpreters"] if i["lost_events"]]
    assert found["last"]["lost_events"] == int(lost) > 10000


def test_unsaid(any_python, another_python):
    """Who executed Python while the kernel had no room to tell of it is found, because a loss is said."""
    run_inside(UNSAID, any_python, another_python)


def test_nested_namespaces(any_python):
    """Hits of a process in a namespace within that of the tracer are its own."""
    found = run_inside(NESTED, any_python, any_python)
    assert all(found["calls"] <= hits for hits in found["hits"]), found


# Two programs of two interpreters work; each of `names` is looked for while they do.
MEANT = COMMON + """
said = {}
with Target(one, "counted.py", "run") as a, Target(other, "counted.py", "run") as b:
    for options in json.loads(sys.argv[4]):
        trace = All("--force", *options)
        trace.wait_for(lambda found: a.pid in found and b.pid in found)
        work(a)
        work(b)
        trace.wait_said("did you mean")
        trace.finish()
        said[options[-1]] = [line for line in trace.messages().splitlines() if "no matching" in line]
print(json.dumps(said))
"""


def test_names_that_were_meant(any_python, another_python):
    """A name that nothing has brings a similar one of any of the processes, once, while they run."""
    options = [["-f", "counted:raisr"], ["-f", "cuonted:fib"], ["-f", "cuonted.*"], ["--hist", "--from", "counted:raisr"]]
    found = run_inside(MEANT, any_python, another_python, json.dumps(options))
    meant = {"counted:raisr": "raiser (", "cuonted:fib": "counted:fib?", "cuonted.*": "counted.*?"}
    for name, lines in found.items():
        line, = lines
        assert "%s: no matching function was called; did you mean %s" % (name, meant[name]) in line


@pytest.mark.parametrize("options, levels", [([], 0), (["--calls", "-f", "counted.py:fib"], 0), ([], 2)],
                         ids=["count", "calls", "nested"])
def test_too_expensive(any_python, another_python, options, levels):
    """One is called too often: it is refused by name, and the others go on. Also if no filter means what it calls, and in a
    namespace within that of the tracer."""
    found = run_inside(REFUSED, any_python, another_python, json.dumps(options), str(levels))
    assert found["refused"] == [found["spin"]], found["messages"]
    assert set(found["others"]) <= set(found["all"])
    assert "process %d (" % found["spin"] in found["messages"] and "would slow it down" in found["messages"]
    if not options:
        assert "; 100% of the calls are of f (<string>:2): -f '!f' would leave " in found["messages"]
    assert "tracing 4 Python processes of" in found["messages"]
