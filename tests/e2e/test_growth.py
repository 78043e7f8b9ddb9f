# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Growth of resident memory (-e growth, memory): which function touched how many bytes, against what the program did and the
kernel's own account."""
import re
import subprocess

import pytest

import harness
import pages
import pprof_read
from harness import PROGRAMS, Profiler, Target, holds_tracepoint, poll, profile, total

MIB = 1 << 20
FINE = 16384  # bytes a sample stands for: the error of 32 MiB is 2%


WINDOW = "pause:0"  # until a window has ended


class Growth:
    """A run of the program: bytes by function, and what its resident memory grew by."""

    def __init__(self, python, *what, options=("-f", "-e", "growth"), fine=FINE, prefix=()):
        with Target(python, "growing.py", *what, prefix=prefix) as target:
            rate = ("-c", fine) if fine else ()
            profiler = Profiler(*options[:1], "-v", *options[1:], *rate, "-p", target.pid)
            poll(lambda: holds_tracepoint(profiler, "rss_stat"), "the profiler to count")
            target.process.stdin.write(b"go\n")
            for _ in range(what.count(WINDOW)):
                assert target.read_line() == b"pause\n"
                poll(profiler.windows, "a window")
                target.process.stdin.write(b"go\n")
            self.grown = int(target.read_line())
            profiler.interrupt_group()
            self.result = profiler.wait().ok()
            self.windows = len(profiler.windows())

    def bytes(self, label):
        return sum(s.count for s in self.result.stacks if any(f.name == label for f in s.frames))


def about(mib):
    """Of what is drawn with the probability of its size: five times the standard error."""
    return pytest.approx(mib * MIB, abs=5 * (mib * MIB * FINE) ** 0.5 + 0.02 * mib * MIB)


def test_known_bytes(python):
    """Whoever touches it, and however: memset(), bytes one by one, the interpreter's allocator, the kernel."""
    growth = Growth(python, "keep:64", "mapped:32", "small:32", "load:32")
    assert growth.bytes("keep") == about(64)
    assert growth.bytes("mapped") == about(32)
    assert growth.bytes("load") == about(32)
    assert 28 * MIB <= growth.bytes("small") <= 42 * MIB
    assert total(growth.result.stacks) == about(growth.grown / MIB)
    growth.result.complete()


@pytest.mark.few_pythons
def test_given_back_does_not_count(python):
    """Neither what was touched anew since, nor what nobody touched any more."""
    growth = Growth(python, "keep:16", "churn:256", "freed:64", "mapped:16")
    assert growth.bytes("keep") == about(16)
    assert growth.bytes("mapped") == about(16)
    assert growth.bytes("churn") + growth.bytes("freed") < 8 * MIB, growth.result.counters
    assert growth.result.counters["filtered_released"] > 1000


@pytest.mark.few_pythons
def test_huge_pages(python):
    """One page fault, 2 MiB."""
    growth = Growth(python, "huge:128", "mapped:32")
    assert growth.bytes("huge") == pytest.approx(growth.grown - growth.bytes("mapped"), rel=0.05)
    assert growth.bytes("mapped") == about(32)


@pytest.mark.few_pythons
def test_threads_at_a_time(python):
    """Each CPU has a counter of its own, and hands over what it has now and then."""
    growth = Growth(python, "threads:128")
    assert total(growth.result.stacks) == about(growth.grown / MIB)


def test_few_samples_of_much(any_python):
    """At a rate, what a sample stands for goes with what comes; the sums stay right."""
    growth = Growth(any_python, "keep:512", "mapped:128", fine=None)
    assert growth.result.counters["delivered"] < 4000
    assert growth.bytes("keep") == pytest.approx(512 * MIB, rel=0.3)
    assert total(growth.result.stacks) == pytest.approx(growth.grown, rel=0.3)


def amount(text):
    number, unit = re.fullmatch(r"([0-9.]+) (B|KiB|MiB|GiB)", text).groups()
    return float(number) * 1024 ** ["B", "KiB", "MiB", "GiB"].index(unit)


def test_memory_says_it(any_python, tmp_path):
    """The report and the profile of one run; the first line is the kernel's account."""
    path = tmp_path / "memory.pb.gz"
    growth = Growth(any_python, "keep:96", "small:16", options=("memory", "-o", path))
    first = growth.result.stdout.split("\n")[0]
    grown, stays = re.match(r"Resident memory \+(.*?) in [0-9.]+ s, to .*?\. Of what was touched .*?, (.*?) stay", first).groups()
    assert amount(grown) == pytest.approx(growth.grown, rel=0.05), first
    assert amount(stays) == about(growth.grown / MIB)
    assert re.search(r"% of the growth is in keep ", growth.result.stdout)
    assert pprof_read.read(path)["types"][1::2] == ["growth/bytes", "peak_space/bytes"]


def rss_of(pid):
    with open("/proc/%d/smaps_rollup" % pid) as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("Rss:"))


def peaks(profiler):
    """With -v, what it took for the peak one after the other, in bytes."""
    return [int(kib) << 10 for kib in re.findall(r"peak (\d+) KiB", profiler.read(profiler.err))]


def by_function(path, value):
    """Bytes of a value type by the functions of the program."""
    sums = {}
    for sample in pprof_read.read(path)["samples"]:
        for name in {f["func"] for f in sample["stack"]}:
            sums[name] = sums.get(name, 0) + sample["values"].get(value, 0)
    return sums


def test_the_peak(any_python, tmp_path):
    """What was in use at the highest resident memory, though it is gone at the end, and without what came later."""
    path, page = tmp_path / "memory.pb.gz", tmp_path / "memory.html"
    with Target(any_python, "growing.py", "keep:16", "hold:128", "pause:0", "drop:0", "mapped:32") as target:
        profiler = Profiler("memory", "-v", "-c", FINE, "-o", path, "-o", page, "-p", target.pid)
        poll(lambda: holds_tracepoint(profiler, "rss_stat"), "the profiler to count")
        before = rss_of(target.pid)
        target.process.stdin.write(b"go\n")
        assert target.read_line() == b"pause\n"
        rss = rss_of(target.pid)
        poll(lambda: peaks(profiler)[-1:] >= [rss - MIB], "the peak")
        target.process.stdin.write(b"go\n")
        target.read_line()
        profiler.interrupt_group()
        result = profiler.wait().ok()
    peak, end = by_function(path, "peak_space"), by_function(path, "growth")
    assert peak["hold"] == about(128) and peak["keep"] == about(16) and not peak.get("mapped")
    assert end["mapped"] == about(32) and end["keep"] == about(16) and end.get("hold", 0) < MIB
    line = result.stdout.split("\n")[1]
    words = r"Peak (.*?) after [0-9.]+ s, (.*?) more than at the beginning; (.*?) \+/- (.*?) of it was touched meanwhile, " \
            r"(\d+)% under hold \(growing\.py:\d+\) -> mmap\."
    whole, more, touched, error, share = re.match(words, line).groups()
    assert amount(whole) == pytest.approx(rss, abs=2 * MIB) and amount(more) == pytest.approx(rss - before, abs=2 * MIB), line
    assert amount(touched) == about(145) and amount(error) < 4 * MIB and 80 < int(share) < 95, line
    rows = re.findall(r"^ +(\S+ \S+) +(\S+ \S+)  (.{32})  (\w+) \(growing", result.stdout, re.M)
    curve = {row[3]: row[2] for row in rows}
    assert curve["hold"].rstrip() and curve["hold"][-1] == " " and curve["mapped"][-1] == "\u2588", result.stdout


    over_time = whole_over_time(page)
    assert max(over_time) == about(145) and over_time[-1] == pytest.approx(sum_of(path, "growth"), abs=64)


def test_nothing_grows(any_python):
    """What sleeps touches nothing: no zero with an error, and no rate of a clock that does not tick."""
    with harness.Process([any_python, "-c", "import os\nos.write(1, b'ready\\n')\nos.read(0, 1)"]) as process:
        result = Profiler("memory", "-d", "0.5", "-p", process.pid).wait().ok()
    if not re.search("0 delivered = ", result.stdout):
        pytest.skip("it touched memory")
    assert re.search(r"^Peak \S+ \S+ (after [0-9.]+ s|at the end)\.$", result.stdout, re.M), result.stdout
    assert "\nToo little memory was touched for the first time to be sampled" in result.stdout, result.stdout


def sum_of(path, value):
    return sum(sample["values"].get(value, 0) for sample in pprof_read.read(path)["samples"])


def whole_over_time(page):
    """What all stacks of a page had at each point."""
    curves = pages.data_of(page.read_text())["curves"]
    changes = [-(n - 1) // 2 if n % 2 else n // 2 for n in pages.undigits(curves["change"])]
    cnt = len(pages.undigits(curves["when"]))
    return [sum(sum(changes[at:at + point + 1]) for at in range(0, len(changes), cnt)) for point in range(cnt)]


def test_memory_of_a_family(any_python):
    """-p names the shell that waits for the program: the first line has the memory of both."""
    growth = Growth(any_python, "keep:96", options=("memory",), prefix=["sh", "-c", '"$@"; true', "sh"])
    first = growth.result.stdout.split("\n")[0]
    grown, stays = re.match(r"Resident memory \+(.*?) in [0-9.]+ s, to .* in 2 processes\. Of what was touched .*?, (.*?) stay",
                            first).groups()
    assert amount(grown) == pytest.approx(growth.grown, rel=0.05), first
    assert amount(stays) == about(growth.grown / MIB)


def test_command_that_ends(any_python):
    """Nobody can be asked any more what is still there."""
    result = profile("-f", "-e", "growth", "-c", FINE, "--", "sh", "-c", "exec \"$0\" \"$@\" >/dev/null",
                     any_python, PROGRAMS / "growing.py", "mapped:16").ok()
    assert sum(s.count for s in result.stacks if any(f.name == "mapped" for f in s.frames)) == about(16)


@pytest.mark.parametrize("args, words", [
    (("memory",), "-p"),
    (("memory", "-p", "1", "-e", "page-faults"), "-e belongs to record"),
])
def test_wrong_lines(args, words):
    result = subprocess.run([harness.PYPERF, *args], capture_output=True, text=True)
    assert result.returncode == 2 and words in result.stderr, result


def way(names):
    """Of a stack, outermost first: the functions of `many`."""
    return " ".join(name for name in names if name in ("many", "turn", "left", "right"))


def test_later_windows(any_python):
    """A table that gets half full but not full: windows end while memory is touched, each stack is whole, and what stays is
    counted once."""
    growth = Growth(any_python, "keep:16", "many:16", WINDOW, "mapped:16", options=("-f", "-v", "-e", "growth", "--map-entries", 2048))
    assert growth.windows >= 2 and not growth.result.counters["lost_chunks_full"]
    assert growth.bytes("keep") == about(16)
    assert growth.bytes("mapped") == about(16)
    ways = [way(f.name for f in s.frames) for s in growth.result.stacks if any(f.name == "turn" for f in s.frames)]
    assert len(set(ways)) > 256
    assert not [w for w in ways if not re.fullmatch(r"many turn( (left|right) turn)*", w)]
