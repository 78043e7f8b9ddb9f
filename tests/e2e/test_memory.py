# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""How much memory a run takes, by the kernel's count: its peak, and its maps. Neither depends on what else the machine does."""
import json
import os

import pytest

import harness

pytestmark = pytest.mark.beside

MIB = 1 << 20
# libbpf, given all types of the kernel, takes 6 MiB for them and their text, and 2 for an index.
RESIDENT_MAX = 12 * MIB
# 17 MiB at two CPUs and 99 Hz, and the unwind tables of one interpreter with its libraries, 2 MiB.
MAPS_MAX = 22 * MIB
MAPS_PER_CPU = MIB


def test_one_process_takes_little(any_python, tmp_path):
    out = tmp_path / "cost.json"
    harness.profile_target(any_python, "spinner.py", "spin", hz=99, seconds=1, options=("-o", out))
    cost = json.loads(out.read_text())["cost"]
    assert 0 < cost["rss_bytes"] < RESIDENT_MAX, cost
    assert 0 < cost["map_bytes"] < MAPS_MAX + os.cpu_count() * MAPS_PER_CPU, cost
