# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Processes whose calls of one function are known, while probes and other sources count; and what must be true then."""
import collections
import json
import re

from harness import PATIENCE, Profiler, Target

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
    return stack.get("total", stack.get("events", stack["samples"]))


def is_cut(document, stack):
    """Does it say itself that frames are missing?"""
    return any(document["frames"][f]["kind"] == "marker" for f in stack["frames"])


class Run:
    """Some processes, each making CALLS calls in each of its threads while they are profiled. `cut`: the share of stacks
    that may say that frames are missing; `cut_samples`: of those of the clock."""

    def __init__(self, python, path, events, *options, processes=2, calls=CALLS, cut=0, cut_samples=0, patience=PATIENCE,
                 before=lambda profiler: None):
        self.cut, self.cut_samples = cut, cut_samples
        self.calls = calls
        targets = [Target(python, "probed.py", THREADS, DEPTH) for _ in range(processes)]
        try:
            self.libc = libc_of(targets[0].pid)
            self.events = events.format(libc=self.libc)
            pids = ",".join(str(t.pid) for t in targets)
            profiler = Profiler("-v", "-e", self.events, "-p", pids, "-o", path, *options)
            profiler.wait_said("the profile begins", patience)
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

    def whole(self, value, share):
        """The stacks that say nothing of missing frames, and how much the others, at most this share, count for."""
        stacks = self.stacks(value)
        cut = [s for s in stacks if is_cut(self.document, s)] if share else []
        lost, all_hits = sum(map(hits_of, cut)), sum(map(hits_of, stacks))
        why = collections.Counter(self.document["frames"][f]["function"] for s in cut for f in s["frames"]
                                  if self.document["frames"][f]["kind"] == "marker")
        assert lost <= share * all_hits, "%d of %d are cut: %s" % (lost, all_hits, why)
        return [s for s in stacks if s not in cut], lost

    def check_hits(self, value):
        """Each stack is one that was there, and each has all its hits, but for those that were refused."""
        found = collections.Counter()
        stacks, cut = self.whole(value, self.cut)
        for stack in stacks:
            chain = names_of(self.document, stack)
            frames = [self.document["frames"][f] for f in stack["frames"]]
            assert chain in self.chains, "no such stack was ever there: %s" % frames
            assert "getppid" in frames[-1]["function"], frames
            found[stack["process"], chain] += hits_of(stack)
        busy = self.result.counters["lost_busy"]
        assert len(found) == len(self.chains) * len(self.pids), found
        assert all(hits <= self.calls for hits in found.values()), found
        assert sum(found.values()) + cut + busy == self.calls * len(self.chains) * len(self.pids), (found, busy)

    def check_samples(self, value, least):
        """No sample mixes the stacks of two threads, or has a function twice or not in its place."""
        legal = {chain[:n] for chain in self.chains for n in range(DEPTH + 1)}
        seen = 0
        for stack in self.whole(value, self.cut_samples)[0]:
            chain = names_of(self.document, stack)
            assert chain in legal, "no such stack was ever there: %s" % (chain,)
            seen += stack["samples"] * bool(chain)
        assert seen > least
