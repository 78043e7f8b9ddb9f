# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Calls of all kinds, without end: see the program of this name in tests/e2e/programs."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../e2e/programs"))
import calls  # noqa: E402

while True:
    calls.once()
