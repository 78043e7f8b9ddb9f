# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Greenlets: the Python frames of the one that runs, as its own traceback shows them."""
import subprocess

import pytest

from harness import check_stacks, profile_target


def test_greenlets(any_python):
    if subprocess.run([any_python, "-c", "import greenlet"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("greenlet is not installed for " + any_python)
    result, truth = profile_target(any_python, "greenlets.py", seconds=1)
    check_stacks(result.stacks, truth["stacks"])
    result.complete()
