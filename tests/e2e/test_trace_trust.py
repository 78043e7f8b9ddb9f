# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What a process does to a trace of all processes, others must not notice."""
import json
import signal
import subprocess

import pytest

import harness
from conftest import INTERPRETERS
from test_trace_all import COMMON, run_inside
from tracing import start

pytestmark = pytest.mark.beside

# One process executes the breakpoints with registers of its own choice, another one works.
FORGED = COMMON + """
from tracing import events_of
log = json.loads(subprocess.run([one, "-B", PROGRAM, "events"], capture_output=True, check=True).stdout)
out = tempfile.TemporaryFile("w+")
library, pairs, found = sys.argv[4], json.loads(sys.argv[5]), []
with Target(one, "counted.py", "run") as a, Target(one, "counted.py", "run") as b, \\
        Target(one, "forger.py", library) as forger:
    trace = All("--calls", "--force", "-v", "-f", "counted.py:*", stdout=out)
    trace.wait_said("process %d (forger.py) is traced" % forger.pid)
    trace.wait_said("counting the calls of")
    for target, (frame, instr) in zip((a, b), pairs):
        forger.process.stdin.write(b"%d %d\\n" % (frame, instr))
        forger.process.stdin.flush()
        found.append(int(forger.read_line()))
        work(target)
    trace.interrupt()
    forger.process.kill() # it may not find its end any more
out.seek(0)
lines = out.read().splitlines()
events = [events_of([l for l in lines[:-1] if json.loads(l).get("pid") == t.pid], PROGRAM) for t in (a, b)]
print(json.dumps({"found": found, "events": [sum(map(len, e)) for e in events], "right": [e == sorted(log) for e in events],
                  "truth": sum(map(len, log)), "messages": trace.messages()}))
"""


@pytest.mark.parametrize("slot", ["3.11", "3.12", "3.13"])
def test_forged(slot, directory):
    if slot not in INTERPRETERS:
        pytest.skip("python%s is not installed" % slot)
    library = harness.compile_c(directory / "forger.so", "forger.c", "-shared", "-fPIC")
    found = run_inside(FORGED, INTERPRETERS[slot], INTERPRETERS[slot], str(library), "[[6, 5], [13, 12]]")
    assert all(found["found"]), found
    assert found["right"] == [True, True], found


# 21 MB of names, where all users together have room for 16, and short ones for what is left then. A long name is read where
# it lies.
GREEDY = """
print("ready", flush=True)
kept = []
while input():
    for i in range(%d):
        kept.append({})
        name = "f%%d_" %% len(kept) + "x" * (4000 if len(kept) < 5250 else 0)
        exec("def %%s(): pass\\n%%s()" %% (name, name), kept[-1])
    print("done", flush=True)
"""
ROUNDS, AT_ONCE = 24, 250
MODEST = "print('ready', flush=True)\ninput()\ndef modest(): pass\nmodest()\nprint('done', flush=True)\ninput()"


def test_names_of_others(any_python):
    """The names of one user leave room for those of another one, and a message says whose have none."""
    nobody = {"user": 65534, "group": 65534, "extra_groups": [], "cwd": "/"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": harness.clean_environment()}
    with subprocess.Popen([any_python, "-S", "-c", GREEDY % AT_ONCE], **pipes, **nobody) as greedy, \
            subprocess.Popen([any_python, "-S", "-c", MODEST], **pipes) as modest:
        assert greedy.stdout.readline() == modest.stdout.readline() == "ready\n"
        trace, messages = start("%d,%d" % (greedy.pid, modest.pid), "--json", "--top", 0, "--force", "-i", 0.1)
        for target in ROUNDS * [greedy] + [modest]:
            target.stdin.write("go\n")
            target.stdin.flush()
            assert target.stdout.readline() == "done\n"
            trace.stdout.readline()
        trace.send_signal(signal.SIGINT)
        lines, said = trace.communicate(timeout=harness.PATIENCE)
        for target in greedy, modest:
            target.communicate("\n")
    names = {f["function"] for f in json.loads(lines.splitlines()[-1])["functions"]}
    assert "<no room for names>" in names and "functions of process %d of user 65534" % greedy.pid in "".join(messages) + said, (said, len(names))
    assert "modest" in names, len(names)
