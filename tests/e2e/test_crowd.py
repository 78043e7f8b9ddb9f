# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""trace of all processes in the other ways of showing calls, against what the programs say themselves."""
import json
import re

import pytest

from test_trace_all import LOGGED, run_inside, three_pythons  # noqa: F401 (a fixture)

pytestmark = pytest.mark.beside

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
    options = ["--calls", "--format", name] + [w for f in ("leaf", "steps", "fails", "handles", "branch") for w in ("-f", "logged.py:" + f)]
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
