# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""trace of processes that run already, with what they have started: --children, and -p of several."""
import json
import re
import subprocess

import pytest

import harness
from test_trace_all import COMMON, run_inside

pytestmark = pytest.mark.beside

# A parent starts two programs before the trace, and one meanwhile; then it is killed, and they work. A stranger works, too.
FAMILY = COMMON + """
PARENT = '''
import subprocess, sys
for files in sys.argv[2:]:
    to, out = map(int, files.split(","))
    print(subprocess.Popen([sys.executable, "-B", sys.argv[1], "run"], stdin=to, stdout=out).pid, flush=True)
    sys.stdin.readline()
'''
class Child:
    def __init__(self):
        self.theirs, to = os.pipe()
        out, self.writes = os.pipe()
        os.set_inheritable(self.theirs, True)
        os.set_inheritable(self.writes, True)
        self.to, self.out = open(to, "w"), open(out)
    def word(self):
        return "%d,%d" % (self.theirs, self.writes)
    def start(self):
        parent.stdin.write("next\\n")
        parent.stdin.flush()
        return self.started()
    def started(self):
        self.pid = int(parent.stdout.readline())
        assert self.out.readline() == "ready\\n"
        return self.pid
    def work(self):
        self.to.write("go\\n")
        self.to.flush()
        assert self.out.readline() == "done\\n"
truth = truth_of(one)
children = [Child() for _ in range(3)]
parent = subprocess.Popen([one, "-c", PARENT, PROGRAM, *[c.word() for c in children]], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True, close_fds=False)
first, second, late = children
first.started(), second.start()
options = json.loads(sys.argv[4])
pids = ",".join(str({"parent": parent.pid, "first": first.pid, "second": second.pid}[name]) for name in options.pop(0).split(","))
with Target(one, "counted.py", "run") as stranger:
    trace = All("--force", "-p", pids, *options)
    trace.wait_for(lambda found: first.pid in found and second.pid in found)
    if "parent" in sys.argv[4]:
        late.start()
        trace.wait_for(lambda found: late.pid in found)
        parent.kill()
        parent.wait()
        trace.wait_for(lambda found: found[parent.pid]["ended"])
    working = [c for c in children if hasattr(c, "pid")]
    for c in [*working, stranger]:
        c.work() if c is not stranger else work(c)
    parent.kill()
    for c in working:
        os.kill(c.pid, signal.SIGKILL)
    lines = trace.process.stdout.read().splitlines()  # it ends by itself
    assert trace.process.wait(harness.PATIENCE) == 0, trace.messages()
last = json.loads(lines[-1])
expected = {name: [len(working) * n for n in pair] for name, pair in truth.items()}
found = counts_of(last, PROGRAM)
print(json.dumps({
    "functions": len(found), "processes": sorted(p["pid"] for p in last["processes"]), "final": last["final"],
    "family": sorted(c.pid for c in working), "parent": parent.pid, "stranger": stranger.pid,
    # What starts late may be found while it still defines its functions and classes.
    "wrong": {name: (found.get(name), pair) for name, pair in expected.items()
              if found.get(name) != pair and not name.startswith("<module>")}}))
"""


def check(found, family):
    assert found["final"] and found["functions"] > 80
    assert found["processes"] == family
    with harness.certain():
        assert not found["wrong"], found["wrong"]


def test_children(any_python):
    """Those of before and those of later, also when their parent has ended; nobody else; and then it ends."""
    found = run_inside(FAMILY, any_python, any_python, json.dumps(["parent", "--children"]))
    check(found, sorted([found["parent"], *found["family"]]))


def test_several(any_python):
    found = run_inside(FAMILY, any_python, any_python, json.dumps(["first,second"]))
    check(found, found["family"])


def test_children_are_told(any_python):
    """Without --children they are not traced, and a message says so."""
    program = ("import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', 'import sys; sys.stdin.read()'], "
               "stdin=subprocess.PIPE); print('ready', flush=True); sys.stdin.read()")
    with harness.Process([any_python, "-c", program]) as target:
        done = subprocess.run([harness.PYPERF, "trace", "-p", str(target.pid), "-d", "0.2"], capture_output=True, text=True,
                              timeout=harness.PATIENCE)
    assert re.search(r"process %d has started 1 other Python process before: --children traces it, too" % target.pid,
                     done.stderr), done.stderr


@pytest.mark.parametrize("args, says", [
    (["--children"], "--children needs -p PID"),
    (["--children", "--", "true"], "--children needs -p PID"),
    (["-p", "1", "--children", "--gc"], "--children does not go with --gc"),
    (["-p", "1,2", "--exceptions"], "-p of several processes does not go with --exceptions"),
    (["-p", "1,2", "-e", "uprobe:/bin/sh:main"], "-p of several processes does not go with -e"),
    (["-p", "1", "--children", "--native-from", "f", "--lib", "x.so"], "--children does not go with --native-from"),
])
def test_lines(args, says):
    done = subprocess.run([harness.PYPERF, "trace", *args], capture_output=True, text=True, timeout=harness.PATIENCE)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and says in done.stderr, done.stderr
