# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Samples at 50,000 Hz on all CPUs, by every event that is here, in small and in full tables, as in NMI context and
not, several profilers at once, others reading their maps, while processes, threads, mappings and code objects
come and go. What must hold: every sample is accounted for, every stack is well-formed, all that was counted is in
the profile, and the kernel has nothing to say. Run by test_stress.py for seconds, by scripts/stress for as
long as one likes."""
import itertools
import json
import re
import subprocess
import sys
import threading

from harness import PYPERF, profiler_argv

STORMS = ["fork", "exec", "thread", "mmap", "code"]
ROUNDS = [  # profilers that run at the same time
    [["-F", 50000, "--map-entries", 64], ["-e", "page-faults", "-c", 1, "--nmi"]],
    [["-F", 50000, "--nmi", "--map-entries", 64], ["-e", "context-switches", "-c", 1]],
    [["-F", 50000, "--nmi", "--threads"], ["-e", "page-faults", "-c", 1, "--map-entries", 16]],
    [["-e", "task-clock", "-F", 50000, "-a"],
     ["-e", "context-switches", "-c", 1, "--nmi", "--map-entries", 16, "-a"]],
]
TROUBLE = re.compile(r"BUG|WARNING|[Ll]ockup|rcu.*stall|hung task|Oops|general protection|Call Trace|deadlock|"
                     r"rqspinlock|unchecked MSR|list_(add|del) corruption")


def kernel_log():
    return subprocess.run(["dmesg"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          universal_newlines=True).stdout.split("\n")


def new_lines(before, after):
    """What the log has behind its last old line; all of it if that is gone."""
    last = next((line for line in reversed(before) if line), None)
    return after[len(after) - after[::-1].index(last):] if last in after else after


def trouble_in(lines):
    """Not the end of a process by the limit of its control group: tests beside this one ask for it, and the kernel reports it
    with a call trace."""
    found, report = [], None
    for line in lines:
        if "invoked oom-killer" in line:
            report = []
        if TROUBLE.search(line):
            (found if report is None else report).append(line)
        if report is not None and "oom-kill:constraint=" in line:
            found += [] if "constraint=CONSTRAINT_MEMCG" in line else report
            report = None
    return found + (report or [])


def read_maps(stop):
    """Walks all maps over and over: a system call takes the locks that programs want."""
    while not stop.is_set():
        maps = subprocess.run(["bpftool", "-j", "map", "list"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL).stdout
        for m in json.loads(maps or "[]"):
            if m.get("name") in ("procs", "threads", "codes", "counts0", "counts1", "chunks0", "images"):
                subprocess.run(["bpftool", "map", "dump", "id", str(m["id"])],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def check(document):
    """The sum, the window's contents, and each stack."""
    c = document["counters"]
    sums = sum(n for name, n in c.items() if name == "counted" or name.startswith(("filtered_", "lost_")))
    assert c["delivered"] == sums, c
    assert not c["lost_internal"] and c["complete"] <= c["user_stacks"] <= c["counted"], c
    clock = document["event"].endswith("clock")
    assert sum(s["samples"] for s in document["stacks"]) == document["samples"]
    if not clock or document.get("slowed", 1) == 1:
        assert document["samples"] == c["counted"], (document["samples"], c["counted"])
    else:
        assert c["counted"] <= document["samples"] <= document["slowed"] * c["counted"]
    cnt = len(document["frames"])
    for stack in document["stacks"]:
        assert stack["frames"] and all(0 <= f < cnt for f in stack["frames"]), stack
        assert 0 <= stack.get("process", 0) < len(document["processes"])
    return c


def one_round(python, program, profilers, seconds, directory):
    """The counters of each profiler."""
    files = [directory / ("%d.json" % i) for i in range(len(profilers))]
    storms = [subprocess.Popen([str(python), str(program), storm, str(seconds + 1)],
                               stdin=subprocess.DEVNULL) for storm in STORMS]
    running = []
    stop = threading.Event()
    reader = threading.Thread(target=read_maps, args=(stop,))
    reader.start()
    try:
        for options, file in zip(profilers, files):
            running.append(subprocess.Popen(profiler_argv("-q", *options, "-d", seconds, "-o", file),
                                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                            universal_newlines=True))
        ends = [(p, p.communicate(timeout=seconds + 240)[1]) for p in running]
    finally:
        for p in running:  # one that is stuck
            p.kill()
        stop.set()
        reader.join()
        for storm in storms:
            storm.wait(timeout=240)
    for p, said in ends:
        assert p.returncode == 0, said
    return [check(json.loads(file.read_text())) for file in files]


def run(python, program, seconds, directory, tell=lambda text: None):
    """Rounds of some seconds until `seconds` have passed, each kind once at least. Counters, added up."""
    each = max(1, min(10, seconds / len(ROUNDS)))
    before = kernel_log()
    sums = {}
    passed = 0
    for n, profilers in zip(itertools.count(1), itertools.cycle(ROUNDS)):
        for options, counters in zip(profilers, one_round(python, program, profilers, each, directory)):
            tell("round %d: %s: %s" % (n, " ".join(map(str, options)), ", ".join(
                "%s %d" % (name, value) for name, value in counters.items()
                if value and name.startswith(("delivered", "counted", "lost", "note_handed", "note_proc",
                                              "note_rate", "note_event")))))
            for name, value in counters.items():
                sums[name] = sums.get(name, 0) + value
        passed += each
        if n >= len(ROUNDS) and passed >= seconds:
            break
    trouble = trouble_in(new_lines(before, kernel_log()))
    assert not trouble, "\n".join(trouble)
    return sums
