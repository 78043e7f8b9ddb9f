# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A million calls by `trace --calls --json`, and the interpreter's own log of the same calls: nothing may be missing or differ.
Run by scripts/test-million, and by test_trace.py for two rounds."""
import collections
import itertools
import json
import platform
import subprocess
import threading

import harness
from tracing import BEGINNINGS, MILLION, Trace


def log_of(python, rounds):
    """Each call and each end of so many rounds, with its depth, as the profile function sees them."""
    answer = subprocess.run([python, "-B", MILLION, "truth", str(rounds)], stdout=subprocess.PIPE, check=True,
                            timeout=5 * harness.PATIENCE, env=harness.clean_environment())
    return json.loads(answer.stdout)


class Tree:
    """What of the calls is not said by the log: that each time is in that of the caller."""

    def __init__(self):
        self.inner = []  # of each call that has not ended: what those that it called took

    def add(self, e):
        if e["event"] in BEGINNINGS:
            assert e["depth"] == len(self.inner), e
            self.inner.append(0)
            return
        inner = self.inner.pop()
        assert e["depth"] == len(self.inner), e
        assert 0 <= e["own_ns"] == e["total_ns"] - inner, (e, inner)
        if self.inner:
            self.inner[-1] += e["total_ns"]


def read_round(trace, cnt):
    """The next events; fewer if they never come."""
    late = threading.Timer(harness.PATIENCE, trace.process.kill)
    late.start()
    lines = list(itertools.islice(trace.process.stdout, cnt))
    late.cancel()
    return [json.loads(line) for line in lines]


def compare(python, rounds=0):
    """{figure: number} of a million calls, or of so many rounds. Fails at the first one that differs from the log.

    The next round begins when all of the last one has come: what is compared has not found its room by luck.
    """
    one = log_of(python, 1)
    # A generator that goes on is not called again.
    rounds = rounds or -(-1000000 // sum("=>" in event and "numbers" not in event for event in one))
    log = log_of(python, rounds)
    assert len(log) == rounds * len(one)
    tree, deepest = Tree(), 0
    with harness.Target(python, "million.py", "run") as target:
        trace = Trace(target.pid, "--calls", "--top", 0, "--force", "-f", "million.py:*")
        for begin in range(0, len(log), len(one)):
            target.process.stdin.write(b"go\n")
            truth = log[begin:begin + len(one)]
            events = read_round(trace, len(truth))
            for i, (e, theirs) in enumerate(zip(events, truth)):
                mine = "%s%s %s" % (" " * e["depth"], "=>" if e["event"] in BEGINNINGS else "<=", e["function"])
                assert mine == theirs and e["file"] == str(MILLION), (begin + i, e, theirs)
                tree.add(e)
                deepest = max(deepest, e["depth"])
            assert len(events) == len(truth), (begin, len(events), trace.messages)
        last = trace.finish()
    called = collections.Counter(event.split()[1] for event in log if "=>" in event)
    counts = {f["function"]: f["calls"] + f["resumed"] for f in last["functions"]}
    assert counts == called, (counts, called)
    assert not tree.inner and not last["lost_events"] and not any(f["unknown_ends"] for f in last["functions"]), last
    return {"calls": last["calls"], "resumptions": last["resumed"], "events": len(log), "functions": len(counts),
            "depths": deepest + 1, "lost": last["lost_events"]}


def run(python):
    ask = "import platform, sys; print(sys.executable); print(platform.python_version())"  # of what may be a script that starts it
    python, version = subprocess.run([python, "-c", ask], stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout.splitlines()
    print("CPython %s, Linux %s" % (version, platform.release()), flush=True)
    for name, value in compare(python).items():
        print("%s %d" % (name, value))
    print("as in the interpreter's own log: each call and each end, in order, its depth, the count of each function; and each own "
          "time is the total less those of the calls inside")
