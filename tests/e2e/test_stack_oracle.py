# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Whole stacks are those that libdwfl finds, at random instants of real programs; see
scripts/test-oracle, which does the same with as many stops as one likes."""
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "oracle"))

import oracle  # noqa: E402

pytestmark = pytest.mark.beside

STOPS = 2000
# Without rows both guess, and libdwfl's guess crosses a signal frame whose stack is another: it skips
# the frames of the handler's callers, where ours ends.
CUT = {"c-fp-no-rows": 0.1}
# Behind each stop, so that frames are seen while they are entered and left.
STEPS = {"calls": 30}
# With many steps there are few stops: they would all be in the start of a Python that begins slowly.
BEGIN_MS = {"calls": 500}
OTHER_PYTHONS = [name for name in oracle.workloads() if name.startswith("calls@")]


@pytest.mark.host
@pytest.mark.parametrize("name", [*oracle.LIBRARIES, *oracle.BUILDS, *OTHER_PYTHONS])
def test_stacks(name):
    try:
        base = name.partition("@")[0]
        result = oracle.run(name, STOPS, STEPS.get(base, 4), shown=3, begin_ms=BEGIN_MS.get(base, 0))
    except oracle.Missing as missing:
        pytest.skip(str(missing))
    print(result.causes)
    assert result.stops >= STOPS
    assert result.frames > 5 * result.stops
    # One stop in code that has no rows is five with its steps; a frame that is wrong is never right.
    assert result.different == 0, result.causes
    assert result.merged_wrong == 0, result.causes
    cut = CUT.get(name, 0.005)
    assert result.ours_shorter <= cut * result.stops, result.causes
    assert result.equal + result.theirs_shorter >= (0.99 - cut) * result.stops, result.causes
    assert result.merged >= 0.9 * result.stops, result.causes
