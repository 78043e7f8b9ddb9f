# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Several interpreters in one process: the frames of all that a thread runs, in their order."""
import subprocess

import pytest

import pprof_read
from harness import check_stacks, profile_target

pytestmark = pytest.mark.beside


def version(python):
    answer = subprocess.run([python, "-c", "import sys; print(*sys.version_info[:2])"],
                            stdout=subprocess.PIPE, check=True, text=True)
    return tuple(map(int, answer.stdout.split()))


def test_interpreters(python, directory):
    # Up to 3.9 nothing tells which thread runs an interpreter that another one made.
    foreign = ["foreign"] if version(python) >= (3, 10) else []
    options = ["--threads", "-o", directory / "out.pb.gz"]
    result, truth = profile_target(python, "subinterpreters.py", *foreign, seconds=2,
                                   options=options)
    result.complete()
    found = check_stacks(result.stacks, truth["stacks"])
    for n, stacks in found.items():
        label = truth["stacks"][n]["label"]
        tid = truth["tids"].get(label.partition("/")[0], truth["tids"]["main"])
        assert {s.tid for s in stacks} == {tid}
        assert {s.interpreter for s in stacks} == {truth["ids"][label]}
    labels = [s["labels"] for s in pprof_read.read(directory / "out.pb.gz")["samples"]]
    assert {each.get("interpreter", 0) for each in labels} == \
        {s.interpreter for s in result.stacks}
