# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The agent's store: what survives kill -9 and a full disk, and report and diff out of it.

The writer is .output/store/windows, which is the agent's code without the agent.
"""
import contextlib
import os
import random
import re
import sqlite3
import subprocess
import time

import pytest

import harness
import pprof_write
from harness import Target, parse_folded, total

pytestmark = pytest.mark.beside

WINDOWS = harness.REPO / ".output" / "store" / "windows"
KILLS = 100


def run(program, *args, status=0, **kwargs):
    done = subprocess.run([program, *map(str, args)], text=True, capture_output=True, timeout=120,
                          **kwargs)
    assert done.returncode == status, done
    return done


def windows(*args, **kwargs):
    return run(WINDOWS, *args, **kwargs)


def report(store, *args, **kwargs):
    return run(harness.PYPERF, "report", "--store", store, *args, **kwargs)


def diff(store, *args, **kwargs):
    return run(harness.PYPERF, "diff", "--store", store, *args, **kwargs)


def present(store):
    """Numbers of the windows that are there, each of them byte-equal to what was put."""
    return sorted(map(int, windows("check", store).stdout.split()))


def ask(store, sql):
    with contextlib.closing(sqlite3.connect("file:%s?mode=ro" % store, uri=True)) as db:
        return db.execute(sql).fetchall()


def integrity(store):
    return ask(store, "pragma integrity_check")


# ---- writing -------------------------------------------------------------------------------------

def write_and_kill(store, first, size, after, *settings):
    """Kills the writer `after` seconds after its first window. The number of the last put that
    returned."""
    writer = subprocess.Popen([WINDOWS, "write", str(store), str(first), "1000000", str(size),
                               "max-age=3650d", *settings], stdout=subprocess.PIPE)
    try:
        out = os.read(writer.stdout.fileno(), 65536)
        time.sleep(after)  # the kill comes at any point: this is what is tested
    finally:
        writer.kill()
    out += writer.communicate()[0]
    return int(out.split(b"\n")[-2])


def test_kill(directory):
    """Small windows and large ones, of which one does not fit into the log at once."""
    rng = random.Random(7)
    for kill in range(KILLS):
        if kill % 20 == 0:  # that they do not become long
            store, last = directory / ("%d.db" % kill), -1
        last = write_and_kill(store, last + 1, rng.choice((300, 3000, 30000)), rng.random() / 100)
        assert integrity(store) == [("ok",)]
        there = present(store)
        assert there[:last + 1] == list(range(last + 1)), (kill, last)
        last = there[-1]  # one may be there of which the writer did not live to tell


def test_kill_while_dropping(directory):
    """Retention is part of the same transactions: what is there has no gaps."""
    rng, store, last = random.Random(7), directory / "store.db", -1
    for _ in range(KILLS // 5):
        last = write_and_kill(store, last + 1, 100000, rng.random() / 20, "max-size=16MiB")
        assert integrity(store) == [("ok",)]
        there = present(store)
        assert there == list(range(there[0], there[-1] + 1)) and there[-1] >= last
        last = there[-1]
    assert sum(f.stat().st_size for f in directory.iterdir()) <= 16 << 20


@pytest.fixture
def small_disk(directory):
    """A function that gives a tmpfs of some MiB."""
    mounted = []

    def mount(mib):
        path = directory / ("disk%d" % len(mounted))
        path.mkdir()
        run("mount", "-t", "tmpfs", "-o", "size=%dm" % mib, "none", path)
        mounted.append(path)
        return path

    yield mount
    for path in mounted:
        run("umount", path)


def test_full_disk(small_disk):
    disk = small_disk(24)
    store = disk / "store.db"
    done = windows("write", store, 0, 2500, 20000, "max-age=3650d")
    assert done.stderr.count("the disk is full; the oldest windows make room") == 1, done.stderr
    assert len(done.stdout.split()) == 2500 and len(done.stderr.splitlines()) == 1
    there = present(store)
    assert there == list(range(there[0], 2500)) and len(there) > 400
    assert integrity(store) == [("ok",)]
    assert ask(store, "select name, value from counter") == [("full", 2500 - len(there))]
    # Somebody else takes all that is left: the store goes on with what it has.
    run("dd", "if=/dev/zero", "of=%s" % (disk / "other"), "bs=4096", status=1)
    windows("write", store, 2500, 300, 20000, "max-age=3650d")
    there = present(store)
    assert there == list(range(there[0], 2800)) and len(there) > 300


def test_a_limit_that_shrinks_with_the_disk_is_said(small_disk):
    """At once, with what the disk has and what is wanted of it, and for how long windows stay."""
    store = small_disk(7) / "store.db"
    done = windows("write", store, 0, 90, 100000, "max-age=3650d", "keep-free=64MiB")
    assert len(present(store)) < 10
    line, = done.stderr.splitlines()
    assert "the oldest windows make room for new ones (1 since" in line and "its max-size of 2.0 GiB" in line
    assert re.search(r"the file system has [\d.]+ MiB free and keep-free is 64.0 MiB", line), line
    # One that is as large as it may be is no trouble, and is said once.
    store = small_disk(40) / "store.db"
    done = windows("write", store, 0, 1000, 20000, "max-age=3650d", "max-size=16MiB")
    line, = done.stderr.splitlines()
    kept = len(present(store))
    assert kept < 900 and "of at most 16.0 MiB; at this rate it keeps " in line and "file system" not in line
    hours = float(re.search(r"it keeps ([\d.]+) hours", line)[1])
    assert 0.8 * kept / 60 < hours < 1.25 * kept / 60  # a window a minute


def test_no_room_at_all(small_disk):
    """Said and counted, and not the end: the writer starts, and each window is tried."""
    disk = small_disk(1)
    run("dd", "if=/dev/zero", "of=%s" % (disk / "other"), "bs=4096", status=1)
    (disk / "other").rename(disk / "taken")
    done = windows("write", disk / "store.db", 0, 1, 3000, status=1)
    assert "it is tried again with each window" in done.stderr
    assert "a window is lost: No space left on device" in done.stderr


def test_full_disk_and_kill(small_disk):
    rng, store, last = random.Random(7), small_disk(16) / "store.db", -1
    for _ in range(KILLS // 5):
        last = write_and_kill(store, last + 1, 30000, rng.random() / 10)
        assert integrity(store) == [("ok",)]
        there = present(store)
        assert there == list(range(there[0], there[-1] + 1)) and there[-1] >= last
        last = there[-1]


def test_read_only_disk(small_disk):
    disk = small_disk(16)
    store = disk / "store.db"
    windows("write", store, 0, 10, 3000, "max-age=3650d")
    run("mount", "-o", "remount,ro", disk)
    assert "Read-only file system" in windows("write", store, 10, 1, 3000, status=1).stderr
    done = windows("write", disk / "new" / "store.db", 10, 1, 3000, status=1)
    assert "Read-only file system" in done.stderr and len(done.stderr.splitlines()) == 1


# ---- report and diff -----------------------------------------------------------------------------

@pytest.fixture(scope="module")
def profiles(any_python, tmp_path_factory):
    """Three profiles of a program, as record writes them: path -> samples."""
    out = tmp_path_factory.mktemp("profiles")
    found = {}
    with Target(any_python, "spinner.py", "spin_it") as target:
        for name in "abc":
            path = out / (name + ".pb.gz")
            harness.profile("-d", "0.5", "-F", 499, "-p", target.pid, "-o", path).ok()
            folded = run(harness.PYPERF, "report", "-f", path).stdout
            found[path] = total(parse_folded(folded))
    assert all(found.values())
    return found


def put(store, path, service, start, samples, *labels, hz=499):
    windows("put", store, path, service, start, 10, hz, samples, *labels)


@pytest.fixture
def filled(profiles, directory):
    """The profiles, as three windows of "web" in the last minutes, and as one of "api" two hours ago."""
    store, now = directory / "store.db", int(time.time())
    for i, (path, samples) in enumerate(profiles.items()):
        put(store, path, "web", now - 100 + 10 * i, samples, "host=h", "version=%d" % (i // 2))
    path, samples = next(iter(profiles.items()))
    put(store, path, "api", now - 7200, samples, "host=h")
    return store


def go_top(*paths):
    """What Go's pprof says of the sum of these files: its rows, in any order."""
    go = harness.find_go()
    if not go:
        pytest.skip("go is not installed")
    text = subprocess.run([go, "tool", "pprof", "-top", "-nodecount=0", "-nodefraction=0",
                           "-edgefraction=0", "-sample_index=samples", *map(str, paths)],
                          capture_output=True, text=True, check=True, timeout=60).stdout
    rows = text.split("sum%")[1].splitlines()[1:]
    # flat, flat%, [sum%, which depends on the order of equals], cum, cum%, name
    return (re.search(r"of (\d+) total", text.replace("for ", "of "))[1],
            sorted(row.split()[:2] + row.split()[3:] for row in rows))


def test_report(filled, profiles, directory):
    out = directory / "out.pb.gz"
    report(filled, "--from", "-1h", "--to", "now", "--service", "web", "-o", out,
           "-o", directory / "out.html", "-o", directory / "out.txt")
    assert go_top(out) == go_top(*profiles)
    assert go_top(out)[0] == str(sum(profiles.values()))
    text = (directory / "out.txt").read_text()
    assert text.startswith("30.0 s at 499 Hz") and "spin_it" in text
    assert "spin_it" in (directory / "out.html").read_text()


def test_selection(filled, profiles):
    samples = list(profiles.values())

    def counted(*args):
        return total(parse_folded(report(filled, "-f", *args).stdout))

    assert counted() == sum(samples)
    assert counted("--from", "-3h") == sum(samples) + samples[0]
    assert counted("--from", "-3h", "--service", "api") == samples[0]
    assert counted("--label", "version=0") == samples[0] + samples[1]
    assert counted("--label", "version=1", "--label", "host=h") == samples[2]
    start = int(time.time()) - 3 * 3600
    assert counted("--from", start, "--to", start + 2 * 3600) == samples[0]


def test_list(filled, profiles):
    rows = [line.split() for line in report(filled, "--list").stdout.splitlines()]
    assert [row[-1] for row in rows] == ["SERVICE", "api", "web"]
    assert rows[2][:2] == ["3", str(sum(profiles.values()))]
    assert len(report(filled, "--list", "--from", "-1h").stdout.splitlines()) == 2
    labels = report(filled, "--list", "--service", "web").stdout.splitlines()
    assert labels == ["host=h", "service_name=web", "version=0", "version=1"]


def test_hostile_names(directory):
    """Names of services come from processes."""
    store, profile = directory / "store.db", directory / "p.pb.gz"
    p = pprof_write.Profile()
    p.add([(("f", "/x.py"), 1)], 5)
    profile.write_bytes(p.pack())
    put(store, profile, "a\x1b[31m\nb", int(time.time()) - 60, 5, "x=\x1b]0;t\x07", hz=99)
    for args in ["--list"], ["--list", "--service", "a\x1b[31m\nb"], ["--service", "none"]:
        done = run(harness.PYPERF, "report", "--store", store, *args,
                   status=1 if "none" in args else 0)
        assert not re.search(r"[\x00-\x09\x0b-\x1f]", done.stdout + done.stderr), done
        assert len(done.stdout.splitlines()) in (0, 2)


def test_diff(directory):
    store, now = directory / "store.db", int(time.time())
    for name, start, counts in ("old", now - 5400, {"same": 900, "slower": 100}), \
            ("new", now - 60, {"same": 1800, "slower": 1200}):
        p = pprof_write.Profile()
        for function, count in counts.items():
            p.add([(("main", "/a.py"), 1), ((function, "/a.py"), count)], count,
                  [("comm", "web")])
        (directory / name).write_bytes(p.pack())
        put(store, directory / name, "web", start, sum(counts.values()), "release=" + name, hz=99)
    by_time = diff(store, "-f", "--service", "web", "--before", "-2h..-1h").stdout
    rows = {line.split(";")[2].split()[0]: line.split()[-2:] for line in by_time.splitlines()}
    assert rows == {"same": ["900", "1800"], "slower": ["100", "1200"]}
    assert diff(store, "-f", "--before", "-2h..-1h", "--after", "-1h..").stdout == by_time
    assert diff(store, "-f", "--after", "-2h..now", "--before-label", "release=old",
                "--after-label", "release=new").stdout == by_time
    files = run(harness.PYPERF, "diff", "-f", directory / "old", directory / "new").stdout
    assert files == by_time


@pytest.mark.parametrize("args, status, words", [
    (["--service", "x"], 1, "no windows of service 'x' from .*there are: web"),
    (["--label", "version=9"], 1, "no windows with these labels"),
    (["--from", "-5h", "--to", "-4h"], 1, "no windows from .*; the store has 4 that start from"),
    (["--from", "-1h", "--to", "-2h"], 2, "--from -1h: not before --to -2h"),
    (["--from", "yesterday"], 2, "--from yesterday: not a time; like now, -1h"),
    (["--label", "x"], 2, "--label x: must be NAME=VALUE"),
    (["--service", "a", "--service", "b"], 2, "can be given once only"),
    (["--from", "-1h", "x.pb.gz"], 2, "show either files or windows of the store"),
    (["--list", "-f"], 2, "--list writes to standard output only"),
])
def test_messages(filled, args, status, words):
    done = report(filled, *args, status=status)
    assert re.search(words, done.stderr) and len(done.stderr.splitlines()) == 1, done
    assert not done.stdout


@pytest.mark.parametrize("args, status, words", [
    ([], 2, "nothing to compare with: give --before"),
    (["--before", "-1h"], 2, "must be FROM..TO"),
    (["--before", "..now"], 2, "must be FROM..TO"),
    (["--before", "-1h..-2h"], 2, "not before"),
    (["--before", "-9h..-8h"], 1, "no windows from"),
])
def test_diff_messages(filled, args, status, words):
    done = diff(filled, *args, status=status)
    assert re.search(words, done.stderr) and len(done.stderr.splitlines()) == 1, done


def test_no_store(directory):
    (directory / "text.db").write_text("no database\n" * 1000)
    for name, words in ("none.db", "No such file"), ("text.db", "damaged, or not a database"), \
            ("", "not a regular file"):
        done = report(directory / name, "--from", "-1h", status=1)
        assert words in done.stderr and len(done.stderr.splitlines()) == 1, done
    # Reading changes nothing, whatever it is.
    assert [f.name for f in directory.iterdir()] == ["text.db"]


def test_while_it_is_written(filled, profiles):
    """Readers see whole windows, more and more of them, and do not disturb the writer."""
    def listed():
        return sum(int(line.split()[0]) for line in
                   report(filled, "--list").stdout.splitlines()[1:])

    writer = subprocess.Popen([WINDOWS, "write", filled, "0", "1000000", "5000", "max-age=3650d"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        seen = [listed()]
        harness.poll(lambda: seen.append(listed()) or seen[-1] > seen[0] and len(seen) >= 10, "more windows")
        stacks = parse_folded(report(filled, "-f", "--service", "web").stdout)
    finally:
        writer.kill()
    assert not writer.communicate()[1]
    assert seen == sorted(seen) and seen[-1] > seen[0]
    assert total(stacks) == sum(profiles.values())
