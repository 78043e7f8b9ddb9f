# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""trace --slow p99: the slowest of each function's last calls, and what they do that the others do not."""
import json
import re
import subprocess

import pytest

import harness
import interpreters
from harness import PROGRAMS, Target
from programs.slowest import SLOW_S
from tracing import Trace

PROGRAM = PROGRAMS / "slowest.py"
CALLS = 1000
SLOW_NS = SLOW_S * 1e9
FUNCTIONS = ("wait_elsewhere", "compute", "fail")


def trace(python, calls, *args):
    """What the program measured of its calls in ns, and what `trace` prints."""
    with Target(python, "slowest.py") as target:
        tracing = Trace(target.pid, "--force", *[a for f in FUNCTIONS for a in ("-f", f)], *args)
        target.process.stdin.write(b"%d\n" % calls)
        target.process.stdin.flush()
        truth = json.loads(target.read_line())
        return truth, [json.loads(line) for line in tracing.lines()]


def by_name(final):
    return {f["function"]: f for f in final["functions"]}


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """One run of each interpreter is enough for all cases: what is true, what is printed, and the stacks of the picture."""
    runs = {}

    def get(python):
        if python not in runs:
            folded = tmp_path_factory.mktemp("picture") / "slow.folded"
            truth, lines = trace(python, CALLS, "--hist", "--slow", "p99", "-o", folded)
            runs[python] = truth, by_name(lines[-1]), drawn_in(folded)
        return runs[python]
    return get


def drawn_in(folded):
    """[way from the function on, ns of an average other call, and of an average slow one]"""
    drawn = []
    for line in folded.read_text().splitlines():
        way, others, slow = line.rsplit(" ", 2)
        names = [frame.partition(" (")[0] for frame in way.split(";")]
        drawn.append((names[max(i for i, name in enumerate(names) if name in FUNCTIONS):], int(others), int(slow)))
    return drawn


@pytest.mark.few_pythons
def test_slowest(python, traced):
    """The slowest 1% are as many, and took as long, as the program itself says."""
    truth, functions, _ = traced(python)
    assert functions.keys() == set(FUNCTIONS)  # what they call is no row
    for name, f in functions.items():
        times = sorted(truth[name])
        assert f["compared"] == f["ended"] == CALLS and f["slow"]["count"] == CALLS // 100
        assert f["slow"]["count"] + f["others"]["count"] == CALLS
        # The program's clock is read around the call, so it is longer.
        assert 0.9 * SLOW_NS < f["limit_ns"] <= times[-CALLS // 100] and f["longest_ns"] <= times[-1]
        assert f["slow"]["total_ns"] <= sum(times[-CALLS // 100:]) / (CALLS // 100)
        assert f["others"]["total_ns"] <= sum(times[:-CALLS // 100]) / (CALLS - CALLS // 100)
        assert f["slow"]["cpu_ns"] + f["slow"]["waiting_ns"] == f["slow"]["total_ns"]
        assert [s["callers"][0]["function"] for s in f["slowest"]] == ["caught"] * 5
        assert [s["callers"][1]["function"] for s in f["slowest"]] == ["measure"] * 5


@pytest.mark.few_pythons
def test_difference(python, traced):
    """A function that only slow calls call has their time, and waits; one that computes has it itself."""
    _, functions, _ = traced(python)
    for name in ("wait_elsewhere", "fail"):
        f = functions[name]
        fetch, price = f["callees"]
        assert (fetch["function"], price["function"]) == ("fetch", "price") and fetch["file"] == str(PROGRAM)
        more = f["slow"]["total_ns"] - f["others"]["total_ns"]
        assert abs(fetch["more_ns"] - more) < more / 2 and fetch["more_ns"] > 0.9 * SLOW_NS
        assert 0.5 * SLOW_NS < fetch["more_waiting_ns"] <= fetch["more_ns"] + 1
        # One call that another program delays may be among the slowest in place of one that is slow itself.
        assert fetch["other_calls"] < 0.005 < price["other_calls"]
        assert 0.5 <= fetch["slow_calls"] <= 1 and price["slow_calls"] < price["other_calls"]
        assert f["slow"]["own_ns"] < f["slow"]["total_ns"] / 2
        for key, least in (("slow", 0.5 * SLOW_NS), ("others", 0)):
            assert least <= f[key]["waits"].get("sleep", 0) <= f[key]["total_ns"]
        assert f["others"]["waits"].get("sleep", 0) < 0.01 * SLOW_NS
        assert fetch["more"]["sleep"] > 0.5 * SLOW_NS > f["itself"]["more"].get("sleep", 0)
    compute = functions["compute"]
    assert [c["function"] for c in compute["callees"]] == ["price"]
    assert "sleep" not in compute["slow"]["waits"]
    assert compute["slow"]["own_ns"] - compute["others"]["own_ns"] > 0.9 * SLOW_NS
    assert compute["slow"]["cpu_ns"] > 0.5 * SLOW_NS and compute["itself"]["more"]["on a CPU"] > 0.5 * SLOW_NS
    for f in functions.values():
        more = f["slow"]["total_ns"] - f["others"]["total_ns"]
        assert abs(f["itself"]["more_ns"] + sum(c["more_ns"] for c in f["callees"]) - more) < 10
        assert [c["callers"][0]["function"] for c in f["called_by"]] == ["caught"]
        assert (f["called_by"][0]["slow_calls"], f["called_by"][0]["other_calls"]) == (CALLS // 100, CALLS - CALLS // 100)


@pytest.mark.few_pythons
def test_picture(python, traced):
    """An average slow call beside an average other one: the stacks have their times, and the wait is where it was."""
    _, functions, drawn = traced(python)
    for name, f in functions.items():
        for side, key in ((1, "others"), (2, "slow")):
            total = sum(line[side] for line in drawn if line[0][0] == name)
            assert f[key]["total_ns"] - 50 < total <= f[key]["total_ns"]  # each part is rounded down
    for name in ("wait_elsewhere", "fail"):
        (others, slow), = [line[1:] for line in drawn if line[0] == [name, "fetch", "[waits: sleep]"]]
        assert slow > 0.5 * SLOW_NS > 50 * others
    (others, slow), = [line[1:] for line in drawn if line[0] == ["compute"]]
    assert slow > 0.5 * SLOW_NS > 50 * others


def test_page(any_python, directory):
    """The other formats that show differences, each whole; amounts have a unit that fits them."""
    files = [directory / ("slow" + suffix) for suffix in (".html", ".svg", ".txt", ".md", ".json")]
    trace(any_python, 300, "--hist", "--slow", "p98", *[word for file in files for word in ("-o", file)])
    page, svg, text, markdown, differences = [file.read_text() for file in files]
    assert page.rstrip().endswith("</html>") and '"compared":true' in page and '"before":"Others"' in page
    assert svg.rstrip().endswith("</svg>") and "[waits: sleep]" in svg and "others: " in svg
    for table in text, markdown:
        assert "Others: " in table and "Slow: " in table and "[waits: sleep]" in table and "BEFORE" not in table.upper()
    assert "Values are milliseconds of call time." in text and "| Total ms | Self | Others | Slow |" in markdown
    sleep, = [f for f in json.loads(differences)["functions"] if f["function"] == "[waits: sleep]"]
    assert sleep["self"]["after"] > 0.5 * 2 * SLOW_S > 50 * sleep["self"]["before"]  # of the two functions that wait


def test_each(any_python):
    """--calls prints a call that is slow when it ends, from the 200th on."""
    _, lines = trace(any_python, CALLS, "--calls", "--slow", "p99")
    events = lines[:-1]
    assert {e["function"] for e in events} == set(FUNCTIONS)
    # Those of the first 200 were not known to be slow, and later ones must be as slow as these.
    assert len(events) <= len(FUNCTIONS) * (CALLS // 100 - 1)
    assert all(e["total_ns"] > 0.9 * SLOW_NS and e["callers"][0]["function"] == "caught" for e in events)
    assert by_name(lines[-1])["compute"]["slow"]["count"] == CALLS // 100


def test_other_percentiles(any_python):
    truth, lines = trace(any_python, 400, "--hist", "--slow", "p95.5")
    for name, f in by_name(lines[-1]).items():
        assert f["slow"]["count"] == 18 and f["limit_ns"] <= sorted(truth[name])[-18]


def test_all_functions(any_python):
    """Without -f what is called is a row, too, and so is what calls."""
    with Target(any_python, "slowest.py") as target:
        tracing = Trace(target.pid, "--force", "--hist", "--slow", "p99", "--top", 0)
        target.process.stdin.write(b"300\n")
        target.process.stdin.flush()
        target.read_line()
        functions = by_name(tracing.finish())
    assert functions["caught"]["compared"] == 900 and functions["price"]["compared"] >= 1190
    assert {c["function"] for c in functions["caught"]["callees"]} == set(FUNCTIONS)
    assert functions["measure"]["callees"][0]["function"] == "caught"
    assert functions["fetch"]["compared"] == 0 and functions["fetch"]["limit_ns"] is None


CLASSES = """
class Item(object):
    def __init__(self, n):
        self.sum = sum(range(1000000 if n % 50 == 0 else 1))
def make(n):
    return Item(n)
for i in range(400):
    make(i)
"""


def test_class_that_is_called():
    """The time of __init__() is that of what calls the class, though the interpreter has a frame of its own in between."""
    python = interpreters.named("pyenv/3.13")
    if not python:
        pytest.skip("pyenv/3.13 is not installed")
    answer = subprocess.run([harness.PYPERF, "trace", "--json", "--force", "--hist", "--slow", "p98", "-f", "make",
                             "--", python, "-c", CLASSES], capture_output=True, text=True, timeout=harness.PATIENCE,
                            env=harness.clean_environment())
    assert answer.returncode == 0, answer.stderr
    make = by_name(json.loads(answer.stdout.splitlines()[-1]))["make"]
    init, = make["callees"]
    assert init["function"] == "Item.__init__" and make["slow"]["count"] == 8
    assert init["slow_calls"] == 1 and init["other_calls"] == 1
    assert make["slow"]["own_ns"] < make["slow"]["total_ns"] / 2


@pytest.mark.parametrize("calls, sentence", [
    (150, "  150 calls have ended: from 200 on it is told which are the slowest 1%\n"),
    (CALLS, "  10 of the last 1000 are the slowest 1%, with "),
])
def test_for_people(any_python, calls, sentence):
    with Target(any_python, "slowest.py") as target:
        with subprocess.Popen([harness.PYPERF, "trace", "-p", str(target.pid), "--force", "-i", "1000", "--slow", "p99", "wait_elsewhere"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=harness.clean_environment()) as process:
            assert "counting the calls of" in process.stderr.readline()
            target.process.stdin.write(b"%d\n" % calls)
            target.process.stdin.flush()
            target.read_line()
            process.send_signal(2)
            out = process.communicate(timeout=harness.PATIENCE)[0]
    assert ("waiting (" in out and "sleep " in out) == (calls == CALLS)
    assert sentence in out and bool(re.search(r"more in fetch \(%s:[0-9]+\): sleep " % re.escape(str(PROGRAM)), out)) == (calls == CALLS)


@pytest.mark.parametrize("args, message", [
    (["--slow", "p49", "--hist"], "or p50 to p99.9"),
    (["--slow", "p100", "--hist"], "or p50 to p99.9"),
    (["--slow", "p", "--hist"], "or p50 to p99.9"),
    (["--slow", "p99x", "--hist"], "or p50 to p99.9"),
    (["--slow", "p99", "-o", "calls.pb.gz"], "-o calls.pb.gz: the suffix names no format that shows differences"),
    (["--slow", "p99", "--exceptions"], "does not go with --exceptions: it is about calls"),
])
def test_bad_lines(args, message):
    result = subprocess.run([harness.PYPERF, "trace", "-p", "1", *args], capture_output=True, text=True, check=False)
    assert result.returncode == 2 and message in result.stderr and result.stderr.count("\n") == 1
