# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""pyperf-bpf diff: two profiles, of which the test knows what differs."""
import json
import re
import subprocess

import pytest

import harness
import pprof_write
from harness import REPO
from test_formats import HOSTILE, profile_of, validate

pytestmark = pytest.mark.beside


def diff(*args, status=0):
    done = subprocess.run([harness.PYPERF, "diff", *map(str, args)], text=True,
                          capture_output=True, timeout=60)
    assert done.returncode == status, done
    return done


def write(path, hz=99, **functions):
    """Samples of functions that main() calls. Pids differ from run to run."""
    profile = pprof_write.Profile(hz)
    labels = [("pid", sum(functions.values())), ("comm", "web")]
    for name, count in functions.items():
        profile.add([(("main", "/srv/app.py"), 1), ((name, "/srv/app.py"), count)], count, labels)
    path.write_bytes(profile.pack())
    return path


@pytest.fixture
def pair(directory):
    return (write(directory / "a.pb.gz", slower=100, same=800, old=80, rare=2),
            write(directory / "b.pb.gz", hz=199, slower=400, same=1600, new=160, rare=3))


def test_report(pair):
    self_time = diff(*pair).stdout.split("More self time")[1].split("More total")[0]
    more, less = self_time.split("Less self")
    rows = [line.split() for line in more.splitlines() if "/srv/app.py" in line]
    assert [row[0] for row in rows] == ["+8.3", "+7.4"]
    assert " new " in more and "slower" in more
    assert " gone " in less and "1 whose change is within chance" in less and "rare" not in less


def test_no_change(directory):
    """It says so, in one sentence and without tables; and tells chance from no change at all."""
    a = write(directory / "a.pb.gz", f=800, g=200)
    same, noise = diff(a, a).stdout, diff(a, write(directory / "b.pb.gz", f=810, g=190)).stdout
    assert same.endswith("\n\nNo function takes more or less than before.\n")
    assert "beyond what chance explains (functions within chance: 2)." in " ".join(noise.split())
    for text in same, noise:
        assert "self time" not in text and "total time" not in text


def test_fail_over(pair):
    """A gate: status 3, and the function that takes most more, in own time or in all."""
    done = diff("--fail-over", "5%", *pair, status=3)
    assert "slower in /srv/app.py takes 8.3 percentage points more" in done.stderr
    assert done.stdout == diff(*pair).stdout and done.stderr.count("\n") == 1
    for limit in "9%", "9", "100":
        assert not diff("--fail-over", limit, *pair).stderr
    assert "% of all time more" in diff("--absolute", "--fail-over", "5", *pair, status=3).stderr
    diff("--fail-over", "5%", pair[1], pair[1])
    for wrong in "x", "0", "-1", "101%", "":
        assert diff("--fail-over", wrong, *pair, status=2).stderr.count("\n") == 1


def test_absolute(pair):
    text = diff("--absolute", *pair).stdout
    assert "seconds of CPU time" in text and " +1.00 " in text


def test_folded(pair):
    counts = {}
    for line in diff("-f", *pair).stdout.splitlines():
        frames, before, after = line.rsplit(" ", 2)
        assert frames.startswith("web;main (/srv/app.py);") and frames.endswith(" (/srv/app.py)")
        counts[frames.split(";")[2].split()[0]] = int(before), int(after)
    assert counts == {"slower": (100, 400), "same": (800, 1600), "old": (80, 0), "new": (0, 160),
                      "rare": (2, 3)}


PRICES = """
import sys, time
def price(): return sum(i * i for i in range(3000))
def route(): return price() if ROUND % 2 else [price() for _ in range(TIMES)]
end = time.process_time() + 1.5
ROUND, TIMES = 0, int(sys.argv[1])
while time.process_time() < end:
    ROUND += 1
    route()
"""


def test_moved_by_a_deploy(any_python, directory):
    """A release in a directory of its own: what did not change is neither new nor gone."""
    for release, times in ("r1", 1), ("r2", 3):
        (directory / release / "shop").mkdir(parents=True)
        (directory / release / "shop" / "cart.py").write_text(PRICES)
        harness.profile("-F", 999, "-o", directory / (release + ".pb.gz"), "--", any_python, "-B",
                        directory / release / "shop" / "cart.py", times).ok()
    pair = directory / "r1.pb.gz", directory / "r2.pb.gz"
    text = diff(*pair).stdout
    assert "Matched across directories: %s/r1 -> %s/r2\n" % (directory, directory) in text
    assert not re.search(r" (new|gone) +(price|route) ", text), text
    out = directory / "d.json"
    diff(*pair, "-o", out)
    rows = [f for f in json.loads(out.read_text())["functions"] if f["function"] in ("price", "route")]
    assert len(rows) == 2 and all(f["total"]["count_before"] and f["total"]["count_after"] for f in rows)
    text = diff("--trim-path", directory / "r1", "--trim-path", directory / "r2", *pair, "-o", out).stdout
    assert "Matched across" not in text
    assert {f["file"] for f in json.loads(out.read_text())["functions"] if f["function"] == "price"} == {"shop/cart.py"}


def test_json(pair, directory):
    out = directory / "d.json"
    diff(*pair, "-o", out)
    validate(REPO / "docs" / "diff.schema.json", out)
    rows = {f["function"]: f for f in json.loads(out.read_text())["functions"]}
    changed = {n for n, f in rows.items() if f["self"]["significant"]}
    assert changed == {"slower", "old", "new", "same"}
    assert rows["main"]["total"]["change"] == 0 and rows["rare"]["self"]["count_after"] == 3


def test_markdown(pair, directory):
    """A bounded table, which ends with the next command; a name cannot leave its cell."""
    text = diff("--markdown", *pair).stdout
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ") and "`" in line]
    assert {row[4] for row in rows} >= {"`slower`", "`new`", "`old`"} and all(len(row) == 6 for row in rows), text
    assert text.splitlines()[-1].startswith("Next: `pyperf-bpf diff ")
    profile_of(directory / "a.pb.gz", HOSTILE)
    profile_of(directory / "b.pb.gz", ["f%d" % i for i in range(500)])
    for text in (diff("--markdown", directory / "a.pb.gz", directory / "b.pb.gz").stdout,
                 subprocess.run([harness.PYPERF, "report", "--markdown", directory / "a.pb.gz"], text=True,
                                capture_output=True, check=True).stdout):
        assert len(text.splitlines()) < 80
        for line in text.splitlines():
            assert line.count("`") % 2 == 0 and "\x1b" not in line, line


def test_hostile(directory):
    profile_of(directory / "a.pb.gz", HOSTILE)
    profile_of(directory / "b.pb.gz", HOSTILE[::-1])
    out = directory / "d.json"
    text = diff(directory / "a.pb.gz", directory / "b.pb.gz", "-o", out).stdout
    validate(REPO / "docs" / "diff.schema.json", out)
    assert "\x1b" not in text + out.read_text() and "<script" not in out.read_text()
    assert all(line.rsplit(" ", 2)[1].isdigit() for line in
               diff("-f", directory / "a.pb.gz", directory / "b.pb.gz").stdout.splitlines())


@pytest.mark.parametrize("args", [[], ["a.folded"], ["a", "b", "c"], ["a", "b", "-o", "x.pb.gz"]])
def test_usage(args):
    assert len(diff(*args, status=2).stderr.splitlines()) == 1


def test_refused(pair, directory):
    """What cannot be compared is not: other units, nothing, shares of an unknown time."""
    (directory / "x.folded").write_text("web;main 5\n")
    (directory / "zero.folded").write_text("web;main 0\n")
    assert "no sample type 'alloc'" in diff("-t", "alloc", *pair, status=1).stderr
    assert "does not say how long" in diff("--absolute", pair[0], directory / "x.folded",
                                           status=1).stderr
    assert "has no samples" in diff(pair[0], directory / "zero.folded", status=1).stderr
