# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Processes whose calls of one function are known, while probes and other sources count; and what must be true then."""
import collections
import json
import os
import re

from harness import Profiler, Target, poll

THREADS, DEPTH, CALLS = 2, 12, 15000


def libc_of(pid):
    with open("/proc/%d/maps" % pid) as maps:
        return next(m[1] for m in (re.search(r" r-xp .* (/\S*/libc[.-]\S*)$", line.rstrip()) for line in maps) if m)


def names_of(document, stack):
    """The functions of Python that the program made for its threads, outermost first."""
    frames = [document["frames"][f] for f in stack["frames"]]
    return tuple(f["function"] for f in frames
                 if f["kind"] == "python" and f["function"].startswith("thread") and "_at" in f["function"])


def hits_of(stack):
    return stack.get("total", stack.get("events"))


class Run:
    """Some processes, each making CALLS calls in each of its threads while they are profiled."""

    def __init__(self, python, path, events, *options, processes=2, calls=CALLS, before=lambda profiler: None):
        self.calls = calls
        targets = [Target(python, "probed.py", THREADS, DEPTH) for _ in range(processes)]
        try:
            self.libc = libc_of(targets[0].pid)
            self.events = events.format(libc=self.libc)
            pids = ",".join(str(t.pid) for t in targets)
            profiler = Profiler("-v", "-e", self.events, "-p", pids, "-o", path, *options)
            # Of new mappings, of the clock, and, last, a probe in each process.
            words = self.events.split(",")
            events = os.cpu_count() * (1 + ("cpu-clock" in words)) + \
                processes * sum(w.startswith("uprobe") for w in words)
            poll(lambda: len(profiler.descriptors("anon_inode:[perf_event]")) >= events
                 or profiler.process.poll() is not None, "the probes")
            assert profiler.process.poll() is None, profiler.read(profiler.err)
            before(profiler)
            for target in targets:
                target.process.stdin.write(b"%d\n" % calls)
            truths = [json.loads(target.read_line()) for target in targets]
            profiler.interrupt_group()
            self.result = profiler.wait().ok()
        finally:
            for target in targets:
                target.__exit__(None, None, None)
        self.chains = set(map(tuple, truths[0]))
        self.pids = [t.pid for t in targets]
        self.document = json.loads(path.read_text())
        self.values = self.document.get("values", [self.document])

    def stacks(self, value):
        return [s for s in self.document["stacks"] if s.get("value", 0) == value]

    def check_hits(self, value):
        """Each stack is one that was there, and each has all its hits, but for those that were refused."""
        found = collections.Counter()
        for stack in self.stacks(value):
            chain = names_of(self.document, stack)
            assert chain in self.chains, "no such stack was ever there: %s" % stack
            frames = [self.document["frames"][f] for f in stack["frames"]]
            assert "getppid" in frames[-1]["function"], frames
            found[stack["process"], chain] += hits_of(stack)
        busy = self.result.counters["lost_busy"]
        assert len(found) == len(self.chains) * len(self.pids), found
        assert all(hits <= self.calls for hits in found.values()), found
        assert sum(found.values()) + busy == self.calls * len(self.chains) * len(self.pids), (found, busy)

    def check_samples(self, value, least):
        """No sample mixes the stacks of two threads, or has a function twice or not in its place."""
        legal = {chain[:n] for chain in self.chains for n in range(DEPTH + 1)}
        seen = 0
        for stack in self.stacks(value):
            chain = names_of(self.document, stack)
            assert chain in legal, "no such stack was ever there: %s" % (chain,)
            seen += stack["samples"] * bool(chain)
        assert seen > least
