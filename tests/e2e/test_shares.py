# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A program with known shares: 1 : 2 : 3."""
import pytest

from harness import profile_target, share

SECONDS = 3
POINTS = 0.03


@pytest.mark.few_pythons
def test_shares(python):
    result, truth = profile_target(python, "shares.py", seconds=SECONDS)
    result.complete()

    def leaf_is(name):
        return lambda s: s.leaf() and (s.leaf().name, s.leaf().file) == (name, truth["file"])

    def any_leaf(stack):
        return any(leaf_is(name)(stack) for name in truth["shares"])

    got = {name: share(result.stacks, leaf_is(name), any_leaf) for name in truth["shares"]}
    for name, true in truth["shares"].items():
        assert abs(got[name] - true) <= POINTS, (got, truth["shares"])
    # Nothing else in this program works.
    assert share(result.stacks, any_leaf) >= 0.95, "\n".join(map(str, result.stacks[:10]))
