# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""scripts/soak: it runs, counts right, and finds what grows."""
import importlib.machinery
import importlib.util
import json
import os
import random
import subprocess

import pytest

import harness

SCRIPT = harness.REPO / "scripts" / "soak"


@pytest.fixture(scope="module")
def soak():
    loader = importlib.machinery.SourceFileLoader("soak", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("soak", loader))
    loader.exec_module(module)
    return module


def verdict(soak, minutes, per_hour, noise, jump=0):
    """Of readings every five seconds, in KiB."""
    dice = random.Random(1)
    points = [(t, 30000 + per_hour * t / 3600 + dice.gauss(0, noise) + (jump if t > 30 * minutes else 0))
              for t in range(0, 60 * minutes, 5)]
    return soak.judge_slope(*soak.slope(points), 64, 2048, points[-1][0])


def test_what_grows_is_found(soak):
    assert verdict(soak, 22, 0, 100) == "pass"
    assert verdict(soak, 22, 30, 10) == "pass"
    assert verdict(soak, 22, -5000, 100) == "pass"
    assert verdict(soak, 22, 1024, 100) == "FAIL"
    assert verdict(soak, 22, 200, 10) == "FAIL"
    assert verdict(soak, 22, 0, 10, jump=500) == "FAIL"
    assert verdict(soak, 22, 0, 20000) == "unknown"
    assert verdict(soak, 5, 1024, 100) == "unknown"


@pytest.mark.skipif(os.geteuid() != 0, reason="not root")
def test_short_run(soak, tmp_path):
    """Sixteen windows, with a destination that goes away: every sample is where it belongs."""
    got = subprocess.run([SCRIPT, "--windows", "16", "--processes", "12", "--first", "24", "--busy", "3", "-o", tmp_path / "run.json"],
                         env=harness.clean_environment(TMPDIR=str(tmp_path)), text=True,
                         capture_output=True, timeout=240, start_new_session=True)
    assert got.returncode == 0, got.stdout + got.stderr
    run = json.loads((tmp_path / "run.json").read_text())
    verdicts = {name: verdict for name, _, verdict in run["verdicts"]}
    assert {name for name, verdict in verdicts.items() if verdict == "unknown"} == {
        name for name in verdicts if name.startswith("flat: ")}
    assert run["end"]["received"] == run["end"]["counted"] > 0
    assert run["cpu"]["agent"] > 0 < run["cpu"]["bpf_following"]
    assert run["started"] > 12
    assert [p.name for p in tmp_path.iterdir()] == ["run.json"]
