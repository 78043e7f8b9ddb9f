# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A C extension that forgets to drop a reference, from the first question to the last: heap says which type grows and that
nothing in Python holds it, memory says which code takes the memory."""
import json
import re
import subprocess

import pytest

import harness
from harness import Process, PROGRAMS, poll
from test_heap import await_rest, counts, heap, heap_json

pytestmark = pytest.mark.beside

BATCH = 2000


@pytest.fixture(name="leaking")
def leaking_program(any_python, directory):
    """The extension, built for this Python, and the program that imports it: argv."""
    include = subprocess.run([any_python, "-c", "import sysconfig; print(sysconfig.get_path('include'))"],
                             capture_output=True, text=True, check=True).stdout.strip()
    harness.compile_c(directory / "fastparse.so", "fastparse.c", "-shared", "-fPIC", "-fno-omit-frame-pointer", "-I" + include)
    return [any_python, PROGRAMS / "orders.py", directory]


def feed(target, batches, size=BATCH):
    for _ in range(batches):
        target.process.stdin.write(b"%d\n" % size)
        assert target.read_line() == b"done\n"


def test_which_type_grows(leaking, directory):
    """Order comes first. Rate, of which as many are made and freed, does not grow."""
    path = directory / "heap.json"
    with Process(leaking) as target:
        reader = subprocess.Popen([harness.PYPERF, "heap", "-p", str(target.pid), "--every", "1", "--for", "6", "--json",
                                   "-o", str(path)], stderr=subprocess.PIPE)

        def work():
            feed(target, 1, 50)
            return reader.poll() is not None
        poll(work, "the readings")
        assert reader.returncode == 0, reader.stderr.read()
    growth = json.loads(path.read_text())["growth"]["types"]
    assert growth[0]["name"] == "Order" and growth[0]["more_than_chance"]
    assert "Rate" not in [t["name"] for t in growth if t["more_than_chance"]]


def test_nothing_in_python_holds_them(leaking):
    """Each object that was parsed is still there, and no other object has it."""
    with Process(leaking) as target:
        feed(target, 5)
        await_rest(target.pid)
        assert counts(heap_json(target.pid))["Order"] == 5 * BATCH
        found = heap_json(target.pid, "--referrers", "Order")["referrers"]
        # A word of dead memory in another object may look like a reference.
        assert found["objects"] == 5 * BATCH and found["unheld"] > 0.999 * 5 * BATCH, found


def test_which_code_makes_it_grow(leaking):
    """The parser and its caller have most of what stays, and the report says so."""
    with Process(leaking) as target:
        feed(target, 1)
        profiler = harness.Profiler("memory", "-v", "-p", target.pid)
        poll(lambda: harness.holds_tracepoint(profiler, "rss_stat"), "the profiler to count")
        feed(target, 40, 20000)
        profiler.interrupt_group()
        text = profiler.wait().ok().stdout
    assert re.search(r"% of the growth is in import_orders \(orders\.py:\d+\)", text), text
    share = float(re.search(r"([0-9.]+)% .*import_orders\b.*orders\.py", text)[1])
    assert share > 80, text
    refresh = re.search(r"([0-9.]+)% .*refresh_rates\b", text)
    assert not refresh or float(refresh[1]) < 10, text


def test_which_type_grew_since(leaking, directory):
    """Between two readings: of the process as it is now, and of two files, by number and in the first sentence."""
    before, after = directory / "before.json", directory / "after.json"
    with Process(leaking) as target:
        feed(target, 2)
        await_rest(target.pid)
        assert heap("-p", target.pid, "--json", "-o", before).returncode == 0
        feed(target, 5)
        await_rest(target.pid)
        text = heap("-p", target.pid, "--diff", before).stdout.decode()
        assert heap("-p", target.pid, "--json", "-o", after).returncode == 0
    words = r"^Live objects \+.* \(\+[0-9,]+\), RSS \+.*\. Order grew most: \+.* \(\+10,000\)\."
    assert re.search(words, " ".join(text.split())), text
    found = json.loads(heap("--diff", before, after, "--json").stdout)
    assert found["types"][0]["name"] == "Order" and found["types"][0]["objects"] == 5 * BATCH
    assert found["types"][0]["objects_now"] == 7 * BATCH
    again = json.loads(heap("--diff", after, before, "--json").stdout)
    assert again["types"][-1]["name"] == "Order" and again["types"][-1]["objects"] == -5 * BATCH
    assert json.loads(heap("--diff", after, after, "--json").stdout)["types"] == []


def test_what_is_no_saved_heap(directory):
    (directory / "x.json").write_text('{"types": [], "memory": {"rss": 1}')
    broken = directory / "x.json"
    for args, status, words in ((("--diff", broken, broken), 1, b"not written by pyperf-bpf heap --json"),
                                (("--diff", directory, directory), 1, b"not written by pyperf-bpf heap --json"),
                                (("--diff", directory / "y.json", directory / "y.json"), 1, b"No such file"),
                                (("--diff", directory / "x.json"), 2, b"name a process"),
                                (("--diff", "a", "b", "c"), 2, b"unexpected 'c'"),
                                (("--diff", "a", "-p", "1", "--every", "3"), 2, b"goes with neither")):
        result = heap(*args)
        assert (result.returncode, words in result.stderr) == (status, True), result
