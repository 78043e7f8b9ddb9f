# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A code object is freed and its address serves for another: never the old name for it."""
import pytest

from harness import profile_target, share

POINTS = 0.03


@pytest.mark.few_pythons
@pytest.mark.parametrize("mode", ["lines", "twins"])
def test_reuse(python, mode):
    result, truth = profile_target(python, "reuse.py", mode, seconds=2)
    assert truth["reused"] > 0
    by_name = {f["name"]: f for f in truth["functions"]}
    by_caller = {f["caller"]: f for f in truth["functions"]}

    def made(stack):
        return len(stack.python()) > 1 and stack.python()[-2].name in by_caller

    for stack in filter(made, result.stacks):
        leaf, caller = stack.leaf(), stack.python()[-2]
        true = by_caller[caller.name]
        assert leaf.name == true["name"], "an old name:\n%s" % stack
        assert leaf.file == true["file"], "an old file:\n%s" % stack
        assert leaf.line in true["lines"], "an impossible line:\n%s" % stack
    # What runs elsewhere out of such a file is the module that makes the function.
    for stack in result.stacks:
        if stack.leaf() and stack.leaf().file.startswith("/reuse/file_") and not made(stack):
            assert [f.name for f in stack.python()[-2:]] == ["make", "<module>"], stack
    for name, true in by_name.items():
        got = share(result.stacks, lambda s, n=name: s.leaf().name == n, made)
        assert abs(got - true["share"]) <= POINTS, (name, got, true["share"])
