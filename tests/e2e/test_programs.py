# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The ground truth itself, without the profiler: every program runs on every CPython in scope, and
what it says of itself makes sense."""
import pytest

from harness import Target, chain_of_truth, spend

pytestmark = pytest.mark.host


def truth_of(python, *program):
    with Target(python, *program) as target:
        return target.stop()


def test_shares(python):
    with Target(python, "shares.py") as target:
        spend(target.pid, 0.5)  # of one round the hypervisor may have half
        shares = target.stop()["shares"]
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["work_one"] < shares["work_two"] < shares["work_three"]


def test_nesting(python):
    truth = truth_of(python, "nesting.py")
    assert {t["label"] for t in truth["stacks"]} == set(truth["cases"])
    assert {t["frames"][-1][0] for t in truth["stacks"]} == {"spin"}
    assert len(truth["cases"]) >= 35
    roles = {role for t in truth["stacks"] for _, _, wanted in t["native"] for role in wanted}
    assert all(truth["images"][role] for role in roles)
    # No truth is twice there with different expectations.
    assert len({chain_of_truth(t) for t in truth["stacks"]}) == len(truth["stacks"])


def test_threads(python):
    truth = truth_of(python, "threads.py")
    assert len({t["frames"][-1][0] for t in truth["stacks"]}) == len(truth["tids"]) == 5


def test_names(python):
    lengths = {t["label"]: len(t["frames"][-1][0]) for t in truth_of(python, "names.py")["stacks"]}
    assert lengths["long name"] > 3000 and lengths["both long, wide"] == 1500


@pytest.mark.parametrize("mode, depth", [("python", 300), ("mixed", 60), ("python", 1500)])
def test_deep(python, mode, depth):
    (stack,) = truth_of(python, "deep.py", mode, depth)["stacks"]
    assert len(stack["frames"]) == depth + 4


@pytest.mark.parametrize("mode", ["lines", "twins"])
def test_reuse(python, mode):
    truth = truth_of(python, "reuse.py", mode)
    assert truth["reused"] > 0, "no address was reused"
    assert all(f["seconds"] > 0 for f in truth["functions"])
    if mode == "twins":
        assert len({(len(f["name"]), len(f["file"]), f["lines"][0])
                    for f in truth["functions"]}) == 1


@pytest.mark.parametrize("program", [["hostile.py"], ["family.py"], ["spinner.py", "name"]])
def test_others(python, program):
    assert truth_of(python, *program)
