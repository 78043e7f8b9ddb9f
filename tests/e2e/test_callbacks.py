# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Functions that do little and that C functions call: each stands below its C function, in every sample.

Up to 3.9 each activation of the eval loop is a C function with C functions between, so no two Python frames are neighbours.
"""
import subprocess

import pytest

from harness import native_between, profile_target, short, total

pytestmark = pytest.mark.beside

# Frames that the interpreter does not call: pyexpat's of 2.7, around a callback.
PSEUDO = {"StartElement", "EndElement", "CharacterData"}


def version_of(python):
    out = subprocess.run([python, "-c", "import sys; print('%d %d' % sys.version_info[:2])"],
                         capture_output=True, text=True, check=True)
    return tuple(map(int, out.stdout.split()))


def test_callbacks(python):
    old = version_of(python) <= (3, 9)
    result, truth = profile_target(python, "callbacks.py", seconds=2, hz=1999)
    result.complete()
    seen = set()
    for stack in [s for s in result.stacks if not s.markers()]:
        for caller, callee, between in native_between(stack):
            name = short(callee.name)
            if name in PSEUDO:
                assert between, "pyexpat's C functions are not above its frame:\n%s" % stack
                continue
            # The pseudo frame stands in the activation of what it calls.
            if short(caller.name) in PSEUDO:
                continue
            seen.add(name)
            if callee.file == truth["file"] and truth["called_by_c"].get(name):
                assert between, "C called %s, but not here:\n%s" % (name, stack)
            assert between or not old, "%s and %s are neighbours:\n%s" % (caller, callee, stack)
    callbacks = {name for name, by_c in truth["called_by_c"].items() if by_c}
    handler = "on_element" if version_of(python) > (3,) else "StartElement"
    assert {"sort_key", "reduce_step", "on_match", handler} <= callbacks, callbacks
    missing = {"sort_key", "reduce_step", "on_match", "plain"} - seen
    assert not missing, "never seen: %s of %d samples" % (missing, total(result.stacks))
