# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""pyperf-bpf diff: two profiles, of which the test knows what differs."""
import json
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


def test_json(pair, directory):
    out = directory / "d.json"
    diff(*pair, "-o", out)
    validate(REPO / "docs" / "diff.schema.json", out)
    rows = {f["function"]: f for f in json.loads(out.read_text())["functions"]}
    changed = {n for n, f in rows.items() if f["self"]["significant"]}
    assert changed == {"slower", "old", "new", "same"}
    assert rows["main"]["total"]["change"] == 0 and rows["rare"]["self"]["samples_after"] == 3


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
