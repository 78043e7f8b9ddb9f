# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The page of a run with several value types, in a browser."""
import os
import subprocess

import pytest

import harness
import pprof_read
from flame_page import functions, press, quiet, settle
from harness import HZ, profile

pytestmark = pytest.mark.beside

SPINS_AND_RESTS = """
import time
def spins():
    end = time.process_time() + 0.3
    while time.process_time() < end: pass
def rests(): time.sleep(0.5)
spins(); rests()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="not root")
def test_values_of_a_run(browser, any_python, tmp_path):
    """One value is shown at a time; the choice of another is in the address, and keeps the search."""
    profile("-e", "cpu-clock,off-cpu", "-F", HZ, "-o", tmp_path / "x.html", "-o", tmp_path / "x.pb.gz", "--",
            any_python, "-c", SPINS_AND_RESTS, glue=False).ok()
    waited = sum(s["values"].get("off-cpu", 0) for s in pprof_read.read(tmp_path / "x.pb.gz")["samples"])
    rested = sum(s["values"].get("off-cpu", 0) for s in pprof_read.read(tmp_path / "x.pb.gz")["samples"]
                 if any(f["func"] == "rests" for f in s["stack"]))
    browser.open(tmp_path / "x.html")
    settle(browser)
    assert browser.js("return [...document.getElementById('value').options].map(o => o.value)") == ["cpu-clock", "off-cpu"]
    assert browser.shown("#value") and "waiting" not in browser.text("#headline")
    clock = functions(browser)
    assert percent(clock["spins"][1]) > 50 and percent(clock.get("rests", ("0%", "0%"))[1]) < 20, clock
    browser.click("#search")
    press(browser, "r", "e", "s", "t")
    browser.js("const s = document.getElementById('value'); s.value = 'off-cpu'; s.dispatchEvent(new Event('change'))")
    harness.poll(lambda: browser.text("#headline").find("waiting") >= 0, "the other value")
    settle(browser)
    waits = functions(browser)
    assert percent(waits["rests"][1]) == pytest.approx(100 * rested / waited, abs=0.1), (waits, rested, waited)
    assert browser.js("return document.getElementById('search').value") == "rest"
    assert browser.text("#counted") != "" and "value=off-cpu" in browser.js("return location.hash")
    browser.js("history.back()")
    harness.poll(lambda: browser.text("#headline").find("waiting") < 0, "the first value")
    settle(browser)
    assert functions(browser).items() <= clock.items()
    # The choice of one value leaves no other in the page.
    subprocess.run([harness.PYPERF, "report", "--value", "off-cpu", "-o", tmp_path / "one.html", tmp_path / "x.pb.gz"],
                   check=True, stdout=subprocess.DEVNULL, timeout=60)
    browser.open(tmp_path / "one.html")
    settle(browser)
    assert not browser.shown("#value") and functions(browser).items() >= waits.items()
    quiet(browser)


def percent(text):
    return float(text.rstrip("%"))
