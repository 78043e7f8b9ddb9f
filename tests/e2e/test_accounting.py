# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Every delivered sample is accounted for, and all outputs tell the same story."""
import json
import re
import subprocess

import pytest

import pprof_read
from harness import (HZ, Target, check_stacks, find_go, parse_folded, profile, profile_target,
                     profile_work, total)

SUM = re.compile(r"([\d,]+) delivered = ([\d,]+) counted \+ ([\d,]+) filtered \+ ([\d,]+) lost")


def number(text):
    return int(text.replace(",", ""))


@pytest.fixture(scope="module")
def run(tmp_path_factory, any_python):
    """One run, all outputs: (result, directory, truth)."""
    path = tmp_path_factory.mktemp("outputs")
    with Target(any_python, "nesting.py") as target:
        result = profile("-f", "-F", HZ, "-d", 3, "-p", target.pid, "-o", path / "x.folded",
                         "-o", path / "x.pb.gz", "-o", path / "x.txt").ok()
        return result, path, target.stop()


def test_files(run):
    result, path, _ = run
    assert sorted(p.name for p in path.iterdir()) == ["x.folded", "x.pb.gz", "x.txt"]
    assert (path / "x.folded").read_text() == result.stdout


@pytest.mark.parametrize("hz", [99, 4999])
def test_samples_that_never_came(any_python, tmp_path, hz):
    """The clock's rate, the CPUs and the time say how many there should be: what is missing is a number."""
    with Target(any_python, "spinner.py", "spin") as target:
        profile("-F", hz, "-d", 1, "-p", target.pid, "-o", tmp_path / "x.json").ok()
    told = json.loads((tmp_path / "x.json").read_text())
    c = told["counters"]
    missing = told["frequency_hz"] * told["cpus"] * told["duration_s"] - c["delivered"]
    if not c["note_rate_lowered"] and not c["note_kernel_rate"]:
        # A period at both ends of each CPU may not be over.
        assert missing - 2 * told["cpus"] - 2 <= c["note_missed"] <= max(missing, 0), told


def test_report_totals(run):
    result, path, _ = run
    report = (path / "x.txt").read_text()
    c = result.counters
    delivered, counted, filtered, lost = map(number, SUM.search(" ".join(report.split())).groups())
    assert delivered == counted + filtered + lost
    assert (delivered, counted) == (c["delivered"], c["counted"])
    assert (filtered, lost) == (result.sum_of("filtered_"), result.sum_of("lost_"))
    headline = re.search(r"([\d,]+) samples? ", report)
    assert number(headline[1]) == counted == total(result.stacks)
    assert "\x1b" not in report, "colours in a file"


def pid_of(result):
    return int(result.argv[result.argv.index("-p") + 1])


def test_report_names(run):
    """The function that takes all the time and its process are named, with place and share."""
    result, path, _ = run
    report = (path / "x.txt").read_text()
    assert re.search(r"%\s.*\bspin\b.*nesting\.py:\d+", report)
    assert re.search(r"%%\s.*\b%d\b.*python" % pid_of(result), report)


def test_pprof_totals(run):
    result, path, _ = run
    p = pprof_read.read(path / "x.pb.gz")
    counted = result.counters["counted"]
    assert p["types"] == ["samples/count", "cpu/nanoseconds"]
    assert p["totals"]["samples"] == counted
    assert abs(p["totals"]["cpu"] - counted * 1e9 / HZ) <= counted
    assert abs(p["period"] - 1e9 / HZ) <= 1
    assert 2.5e9 <= p["duration_nanos"] <= 60e9
    assert {s["labels"]["pid"] for s in p["samples"]} == {pid_of(result)}


def test_pprof_stacks(run):
    """The same stacks as the folded ones, by a reader that shares nothing with the writer."""
    result, path, truth = run
    p = pprof_read.read(path / "x.pb.gz")
    assert parse_folded(pprof_read.folded(p)) == result.stacks
    check_stacks(parse_folded(pprof_read.folded(p)), truth["stacks"])


def test_pprof_mappings(run):
    """Build ids are those that the files themselves carry."""
    _, path, _ = run
    mappings = pprof_read.read(path / "x.pb.gz")["mappings"]
    checked = 0
    for m in mappings:
        if m["filename"].startswith("/"):
            out = subprocess.run(["readelf", "-n", m["filename"]], capture_output=True, text=True)
            found = re.search(r"Build ID: (\w+)", out.stdout)
            assert m["build_id"] == (found[1] if found else ""), m
            checked += bool(found)
    assert checked > 0


def test_go_pprof(run):
    result, path, _ = run
    go = find_go()
    if not go:
        pytest.skip("go is not installed")
    file = str(path / "x.pb.gz")
    pprof = [go, "tool", "pprof", "-symbolize=none"]

    def out(*args):
        done = subprocess.run([*pprof, *args, file], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    counted = result.counters["counted"]
    top = out("-top", "-lines", "-nodecount=0", "-nodefraction=0", "-sample_index=samples")
    assert int(re.search(r"of (\d+) total", top)[1]) == counted
    assert sum(int(flat) for flat in re.findall(r"^ +(\d+) ", top, re.M)) == counted
    assert re.search(r"\bspin .*nesting\.py:\d+", top)
    raw = out("-raw")
    assert sum(int(n) for n in re.findall(r"^ +(\d+) +\d+: ", raw, re.M)) == counted


def test_system_wide(any_python):
    """Without -p: what is not Python is filtered, and counted as such."""
    with Target(any_python, "spinner.py", "spin_wide"):
        result = profile("-f", "-F", HZ, "-d", 1).ok()
    assert result.only("spin_wide")
    assert result.sum_of("filtered_") > 0


def test_all(any_python):
    """-a: a process without Python is seen, with its native stack."""
    spin = subprocess.Popen(["sh", "-c", "while :; do :; done"])
    try:
        result = profile("-f", "-F", HZ, "-d", 1, "-a", "-p", spin.pid).ok()
        assert total(result.stacks) > 0 and not any(s.python() for s in result.stacks)
        assert any(s.native() for s in result.stacks)
    finally:
        spin.kill()
        spin.wait()


def test_32_bit_process(tmp_path):
    """It is counted, says why it has no user stack, and is not called complete."""
    source, program = tmp_path / "spin.s", tmp_path / "spin32"
    source.write_text(".globl _start\n_start: jmp _start\n")
    try:
        subprocess.run(["as", "--32", "-o", tmp_path / "spin.o", source], check=True)
        subprocess.run(["ld", "-m", "elf_i386", "-o", program, tmp_path / "spin.o"], check=True)
        spin = subprocess.Popen([program])
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip("32-bit programs: %s" % error)
    try:
        result = profile("-f", "-F", HZ, "-d", 1, "-a", "-p", spin.pid).ok()
    finally:
        spin.kill()
        spin.wait()
    assert {m.text for s in result.stacks for m in s.markers()} == {"[32-bit-process]"}
    assert result.counters["counted"] > 0 and result.counters["complete"] == 0


def test_nothing_sampled(any_python):
    with Target(any_python, "spinner.py", "name", "--idle") as target:
        result = profile("-d", "0.3", "-p", target.pid).ok()
    assert result.counters["counted"] == 0
    assert re.search(r"(?i)nothing|no samples", result.stdout + result.stderr)


def test_frequency_and_duration(any_python):
    """More samples at a higher frequency: an inequality, no exact count."""
    with Target(any_python, "spinner.py", "spin") as target:
        slow = profile_work(target.pid, 0.5, hz=99)
        fast = profile_work(target.pid, 0.5, hz=1999)
    assert 0 < 4 * total(slow.stacks) < total(fast.stacks)


def test_deliveries_of_other_frequencies(any_python):
    result, _ = profile_target(any_python, "shares.py", seconds=1, hz=9999)
    result.complete()
