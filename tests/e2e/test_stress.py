# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The short form of scripts/stress: see stress.py."""
import pathlib

import stress


def test_stress(any_python, tmp_path):
    program = pathlib.Path(__file__).parent / "programs/storm.py"
    sums = stress.run(any_python, program, 8, tmp_path)
    # What was to be stressed has happened: full tables, both ways to count, processes that come and go.
    assert sums["lost_counts_full"] + sums["lost_chunks_full"] and sums["note_handed_over"], sums
    assert sums["note_fork"] and sums["note_exec"] and sums["note_exit"], sums


def test_trouble_in_the_log():
    """A control group's own lack of memory is none; the machine's is, and what is before and after."""
    report = ["x invoked oom-killer: y", "Call Trace:", "oom-kill:constraint=%s,nodemask=x", "Killed process 1"]
    group, machine = ([line.replace("%s", "CONSTRAINT_" + of) for line in report] for of in ("MEMCG", "NONE"))
    assert stress.trouble_in(group) == [] and stress.trouble_in(machine) == ["Call Trace:"]
    assert stress.trouble_in(["BUG: a", *group, "Call Trace:", *group[:2]]) == ["BUG: a", "Call Trace:", "Call Trace:"]
