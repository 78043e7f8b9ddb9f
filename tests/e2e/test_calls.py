# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A sample can come between any two instructions of a call, a return, or a yield: its callers are there."""
import pytest

from harness import profile_target, readable, total

pytestmark = pytest.mark.beside

HZ = 4999  # such instructions are few
WORK = ("<module>", "main", "work")


def chain_of(stack):
    """The Python frames inside of work(), or None: it is not there, or not as work is called."""
    names = tuple(frame.name for frame in stack.python())
    return names[len(WORK):] if names[:len(WORK)] == WORK else None


def test_calls(python):
    result, truth = profile_target(python, "calls.py", seconds=2, hz=HZ)
    legal = {(), *map(tuple, truth["chains"])}
    assert len(legal) > 30
    result.complete()
    stacks = readable(result.stacks)
    found = [stack for stack in stacks if not stack.markers()]
    assert total(found) > 3000
    for stack in found:
        assert chain_of(stack) in legal, "no such stack was ever there:\n%s" % stack
    # Which of them is seen is chance, but for those that are most of the time.
    seen = {chain_of(stack) for stack in found}
    assert len(seen) > len(legal) / 2
    assert total(stacks) - total(found) <= 0.002 * total(stacks)
