# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""pyperf-bpf ... -- COMMAND: of which of its processes there are samples, and of how many; whether it had a CPU."""
import collections
import json
import os
import re
import signal
import subprocess
import sys

from harness import HZ, clean_environment, profile, total
from test_command import BUSY


def test_comm_chooses_among_what_the_command_starts(any_python):
    code = "import subprocess\nsubprocess.run(['sh', '-c', 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'])\n"
    result = profile("-f", "-F", HZ, "--comm", "sh", "--", any_python, "-c", code + BUSY).ok()
    # In the middle of execve(), the child has its new name and is not yet known by it.
    assert total(s for s in result.stacks if s.comm == "sh") >= 0.9 * total(result.stacks) > 0


def test_every_short_process_is_analysed(any_python, directory):
    """Sixty short processes, four at a time. The start of one is unknown for 0.1 ms, of some 20 ms that it takes."""
    (directory / "Makefile").write_text(
        "N := $(shell seq 1 60)\nall: $(N:%%=t%%)\nt%%:\n\t@%s -I -c 'sum(range(1000000))'\n" % any_python)
    out = directory / "x.json"
    result = profile("-o", out, "-F", 999, "--", "make", "-s", "-j4", "-C", directory).ok()
    c = result.counters
    assert not c["filtered_python"] and not c["filtered_unknown"], c
    # The files of an interpreter are analysed once, at normal priority: that can last longer than the first twenty.
    document = json.loads(out.read_text())
    counted, pending = collections.Counter(), collections.Counter()
    for stack in document["stacks"]:
        process = document["processes"][stack["process"]]
        counted[process["pid"]] += stack["samples"]
        if any(document["frames"][f].get("function") == "[process-not-yet-analysed]" for f in stack["frames"]):
            pending[process["pid"]] += stack["samples"]
    late = sorted(counted)[20:]
    # Without real-time priority it depends on the others that run, and how much of it there may be is not known.
    may_hurry = not os.system("chrt -f 1 true")
    assert sum(pending[p] for p in late) <= (0.15 if may_hurry else 0.5) * sum(counted[p] for p in late), (c, pending)
    # They are not left out where it is said how many stacks are complete.
    assert c["complete"] + c["note_pending"] <= c["user_stacks"], c


CROWDED = """
import os, time
os.sched_setaffinity(0, {int(os.environ["CPU"])})
while time.process_time() < 0.7: sum(range(1000))
print(open("/proc/self/schedstat").read())
"""


def test_not_known_to_wait():
    """The shell waited. What was sampled, its child, shared a CPU: nobody measured how long."""
    cpu = min(os.sched_getaffinity(0))
    spin = [sys.executable, "-c", "print(1, flush=True)\nwhile True: pass"]
    options = {"stdout": subprocess.PIPE, "start_new_session": True,
               "preexec_fn": lambda: os.sched_setaffinity(0, {cpu})}
    wrapper = ["sh", "-c", '"$@"; true', "sh", *spin]
    with subprocess.Popen(spin, **options) as other, subprocess.Popen(wrapper, **options) as sh:
        try:
            assert other.stdout.readline() == sh.stdout.readline() == b"1\n"
            text = profile("-F", HZ, "-d", 0.5, "-p", sh.pid).ok().stdout
            itself = profile("-F", HZ, "-d", 0.5, "-p", other.pid).ok().stdout
        finally:
            os.killpg(sh.pid, signal.SIGKILL)
            other.kill()
    assert "of the CPU time" in text and "waited" not in text, text
    assert "without a CPU for" in itself, itself


def test_without_a_cpu():
    """A command that had to share a CPU did not wait, also if it ended before anybody looked at it."""
    cpu = min(os.sched_getaffinity(0))
    other = subprocess.Popen([sys.executable, "-c", "import time\nwhile time.process_time() < 60: pass"],
                             preexec_fn=lambda: os.sched_setaffinity(0, {cpu}))
    try:
        result = profile("-F", HZ, "--", sys.executable, "-c", CROWDED, env=clean_environment(CPU=str(cpu))).ok()
    finally:
        other.kill()
        other.wait()
    busy_ns, ready_ns, _ = map(int, re.search(r"^(\d+) (\d+) (\d+)$", result.stdout, re.M).groups())
    seconds = float(re.search(r"^([\d.]+) s at", result.stdout, re.M)[1])
    assert ready_ns > busy_ns / 4, "it did not share: %d %d" % (busy_ns, ready_ns)
    if busy_ns > 0.6e9 * seconds:
        return  # the report says nothing of who is on a CPU for most of the time
    said = re.search(r"without a CPU for ([\d.]+)%", result.stdout)
    assert said and abs(float(said[1]) - ready_ns / 1e7 / seconds) < 15, (busy_ns, ready_ns, result.stdout)
