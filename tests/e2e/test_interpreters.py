# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Several interpreters in one process: the frames of all that a thread runs, in their order."""
import os
import subprocess

from harness import check_stacks, profile_target


def version(python):
    answer = subprocess.run([python, "-c", "import sys; print(*sys.version_info[:2])"],
                            stdout=subprocess.PIPE, check=True, text=True)
    return tuple(map(int, answer.stdout.split()))


def test_interpreters(python):
    # Up to 3.9 nothing tells which thread runs an interpreter that another one made.
    foreign = ["foreign"] if version(python) >= (3, 10) else []
    result, truth = profile_target(python, "subinterpreters.py", *foreign, seconds=3,
                                   options=["--threads"])
    result.complete()
    found = check_stacks(result.stacks, truth["stacks"])
    for n, stacks in found.items():
        thread = truth["stacks"][n]["label"].partition("/")[0]
        tid = truth["tids"].get(thread, truth["tids"]["main"])
        assert {s.tid for s in stacks} == {tid}
