# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Runs `trace`, and the program whose calls are known. Also for virtual machines, where there is no pytest."""
import json
import signal
import subprocess

import harness
from harness import PROGRAMS, Target

PROGRAM = PROGRAMS / "counted.py"


class Trace:
    """`trace` of a process, which counts when the constructor returns."""

    def __init__(self, pid, *args):
        self.process = subprocess.Popen([harness.PYPERF, "trace", "-p", str(pid), "--json", *map(str, args)],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env=harness.clean_environment())
        self.messages = []
        for line in self.process.stderr:
            self.messages.append(line)
            if "counting the calls" in line:
                return
        raise AssertionError("".join(self.messages))

    def finish(self, sig=signal.SIGINT):
        """The last object that it prints."""
        if sig:
            self.process.send_signal(sig)
        out, messages = self.process.communicate(timeout=harness.PATIENCE)
        self.messages.append(messages)
        assert self.process.returncode == 0, self.messages
        last = json.loads(out.splitlines()[-1])
        assert last["final"]
        return last


def counts_of(result, path):
    """As the program prints them."""
    return {"%s:%d" % (f["function"], f["line"]): [f["calls"], f["resumed"]]
            for f in result["functions"] if f["file"] == str(path)}


def truth_of(python):
    answer = subprocess.run([python, "-B", PROGRAM, "truth"], capture_output=True, check=True,
                            timeout=harness.PATIENCE, env=harness.clean_environment())
    return json.loads(answer.stdout)


def work(target):
    target.process.stdin.write(b"go\n")
    assert target.read_line() == b"done\n"


def compare(python):
    """The counts of all functions of the program, and what the interpreter itself counted."""
    truth = truth_of(python)
    assert len(truth) > 80
    with Target(python, "counted.py", "run") as target:
        trace = Trace(target.pid, "--top", 0, "--force")
        work(target)
        found = trace.finish()
    counts = counts_of(found, PROGRAM)
    assert counts == truth
    assert not any("not counted" in m for m in trace.messages), trace.messages
    assert found["calls"] == sum(f["calls"] for f in found["functions"])
