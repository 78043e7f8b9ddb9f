# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Greenlets: the Python frames of the one that runs, as its own traceback shows them, and no frame of another one.

`any_python` is the distribution's, whose greenlet is stripped: its functions are found by exported names and by their
code. PYPERF_TEST_PYTHONS chooses others, with the wheels of PyPI.
"""
import subprocess

import pytest

from harness import check_stacks, native_between, profile_target, share, total

# A callback's first letters say whose it is. What calls it, where symbols tell.
CALLERS = {"sort_key": "sort", "reduce_step": "reduce", "reduce_deeper": "reduce", "max_key": "max",
           "main_item": "map"}


@pytest.fixture
def with_greenlet(any_python):
    if subprocess.run([any_python, "-c", "import greenlet"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("greenlet is not installed for " + any_python)
    return any_python


def test_greenlets(with_greenlet):
    result, truth = profile_target(with_greenlet, "greenlets.py", seconds=1)
    check_stacks(result.stacks, truth["stacks"])
    result.complete()


def owners(stack, names):
    return {f.name.partition("_")[0] for f in stack.python()} & names


def test_callers_of_greenlets(with_greenlet):
    """Each runs below another one's C function."""
    result, truth = profile_target(with_greenlet, "greenlet_callers.py", seconds=2)
    names = set(truth["greenlets"])
    result.complete()
    stacks = [s for s in result.stacks if not s.markers()]
    for stack in stacks:
        mine = owners(stack, names)
        assert len(mine) <= 1, "of two greenlets:\n%s" % stack
        assert not mine or stack.in_greenlet() == (mine != {"main"}), "another root:\n%s" % stack
        if stack.in_greenlet():
            assert stack.frames[0].name == "greenlet", "its root is not outermost:\n%s" % stack
            check_natives(stack, mine)
        for caller, callee, between in native_between(stack):
            if callee.name in CALLERS:
                assert between, "%s does not call %s:\n%s" % (caller, callee, stack)
    for name in names:
        found = share(stacks, lambda s: owners(s, names) == {name})
        assert found, "%s was never seen" % name
    assert total(stacks)


def check_natives(stack, mine):
    """No C function that only another greenlet calls; where symbols tell its name."""
    for frame in stack.native():
        for name in ("sort", "reduce"):
            assert name not in frame.name or mine == {name}, "of another greenlet:\n%s" % stack
