# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What a process does to a trace of all processes, others must not notice."""
import pytest

import harness
from conftest import INTERPRETERS
from test_trace_all import COMMON, run_inside

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
