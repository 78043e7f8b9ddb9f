# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Runs the ground-truth programs over every interpreter and prints one table; see
scripts/test-pythons."""
import argparse
import collections
import concurrent.futures
import contextlib
import dataclasses
import fnmatch
import functools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True

import evalloop  # noqa: E402
import harness  # noqa: E402
import interpreters  # noqa: E402
import test_nesting  # noqa: E402
import test_threads  # noqa: E402
import tracing  # noqa: E402
from harness import (HZ, PROGRAMS, Target, check_stacks, native_between,  # noqa: E402
                     profile, share, total)

RECORDED = harness.REPO / "tests" / "pythons.txt"
LEAST_COMPLETE = 0.995
LEAST_COMPLETE_NO_ROWS = 0.95  # docs/limits.md, Native code
LEAST_STACKS = 10000
PATIENCE = 600  # in each run, on a machine that has other things to do
SHORT_LIVED = 20
DEEP = 600
FAILED = "fail", "certain"
COLUMNS = ["eval loop", "stack order", "lines", "complete", "no-GIL thread", "greenlets",
           "short-lived", "names", "trace"]


class Refused(Exception):
    """The profiler does not walk this interpreter, and why."""


# ---- the checks ----------------------------------------------------------------------------------

class Checks:
    """All runs over one interpreter. The method of a column's name returns its cell."""

    def __init__(self, python, options):
        self.python, self.options = python, options
        self.counters = collections.Counter()

    def sample(self, target, least, hz=HZ, options=(), whole=True):
        """At least so many samples of a target: on a busy machine one run may not bring them."""
        stacks, spent, rate = [], 0, hz
        while total(stacks) < least:
            assert spent < PATIENCE, "only %d samples in %.0f s" % (total(stacks), spent)
            status = target.process.poll()
            assert status is None, "the program ended with status %d" % status
            seconds = min(0.1 + (least - total(stacks)) / rate, 60)
            result = profile("-f", "-F", hz, "-d", seconds, "-p", target.pid, *options).ok()
            stacks += result.stacks
            spent += seconds
            rate = max(total(stacks) / spent, 1)
            if whole:
                self.counters += result.counters
            if self.options.verbose:
                print(self.python.name, dict(result.counters), file=sys.stderr)
        return stacks

    def run(self, program, *args, **how):
        """(stacks, truth) of a program."""
        with Target(self.python, program, *args) as target:
            try:
                return self.sample(target, **how), target.stop()
            finally:
                for leftover in ("/tmp/perf-%d.map", "/tmp/jit-%d.dump"):
                    with contextlib.suppress(OSError):
                        os.unlink(leftover % target.pid)

    def known_as(self):
        """What tests/pythons.txt says of it."""
        return recorded().get(self.python.name, ())

    def nesting(self):
        """Raises the reason when the interpreter is refused: the report's table names it."""
        if not hasattr(self, "_nesting"):
            with tempfile.TemporaryDirectory(prefix="pyperf-matrix-") as directory:
                report = Path(directory, "report.txt")
                self._nesting = self.run("nesting.py", least=2500, hz=1999, options=["-o", report])
                refused = re.search(r"native only: (.*)", report.read_text())
            if refused:
                raise Refused("native only: " + refused[1].strip())
        return self._nesting

    def loop(self):
        _, truth = self.nesting()
        return evalloop.loop_of(self.python.root + truth["images"]["python_path"])

    def eval_loop(self):
        loop = self.loop()
        if "split" in self.known_as():
            assert len(loop.parts) > 1, "the compiler no longer splits it: test another build"
        return str(loop)

    def stack_order(self):
        stacks, truth = self.nesting()
        stacks, stacks_true = without_lines(stacks, truth["stacks"])
        images = truth["images"]
        for n, found in check_stacks(stacks, stacks_true).items():
            native = truth["stacks"][n]["native"]
            if "norows" in self.known_as():
                native = [gap for gap in native if "libc" not in gap[2]]
            for stack in found:
                test_nesting.check_native(stack, native, images)
                # Every activation between two Python functions was replaced by its frames.
                for _, _, between in native_between(stack):
                    left = [f for f in between
                            if f.file == images["python"] and self.loop().holds(f)]
                    assert not left, "an activation of the eval loop is left:\n%s" % stack
        if self.python.way:
            self.check_way(stacks, truth)
        self.deep()
        return "pass"

    def check_way(self, stacks, truth):
        """What was asked for is in force: a JIT shows; for trampolines, their Python frames do."""
        part = share(stacks, lambda s: any(is_generated(f) for f in s.native()))
        said = "+%s: %.1f%% of the stacks have generated code" % (self.python.way, 100 * part)
        if self.python.way == "jit":
            assert part > 0.01, said
        else:
            assert truth["trampolines"], "the interpreter uses no trampolines"
            assert part < 0.05, said

    def deep(self):
        # Up to 3.10 each call takes native frames, of which there may be too many to keep.
        stacks, truth = self.run("deep.py", "python", DEEP, least=300, hz=HZ, whole=False)
        (true,) = truth["stacks"]
        stacks = [s for s in stacks if s.leaf() and s.leaf().name == "bottom"]
        assert stacks, "the bottom of the recursion was never seen"
        wanted = [tuple(f) for f in true["frames"][:-1]]
        for stack in stacks:
            got = [(f.name, f.file, f.line) for f in stack.python()[:-1]]
            assert got == wanted, "recursion: %d of %d frames: %s" % (
                len(got), len(wanted), stack.markers()[:1] or got[:3])

    def lines(self):
        stacks, truth = self.nesting()
        check_stacks(stacks, truth["stacks"])
        return "pass"

    def no_gil_thread(self):
        stacks, truth = self.run("threads.py", least=3000, hz=1999, options=["--threads"])
        check_stacks(stacks, truth["stacks"])
        for name, tid in truth["tids"].items():
            of_thread = [s for s in stacks if s.tid == tid]
            assert total(of_thread) > 20, "%d samples of thread %s" % (total(of_thread), name)
            part = share(of_thread, lambda s: s.leaf() and s.leaf().name == name)
            assert part >= 0.95, "%.1f%% of thread %s in its function" % (100 * part, name)
            if name in test_threads.WHERE:
                part = share(of_thread, self.in_library(name))
                # Debug builds fill memory that they allocate and free.
                least = 0.7 if "d" in self.python.abi else 0.9
                assert part >= least, "%.1f%% of thread %s in its library" % (100 * part, name)
        return "pass"

    def in_library(self, name):
        if name != "native_ctypes" and "builtin" in self.known_as():
            return lambda s: os.path.basename(self.python.exe) in test_threads.native_leaf(s)
        return test_threads.in_library(name)

    def greenlets(self):
        argv = [self.python, "-c", "import greenlet"]
        if subprocess.run(argv, stderr=subprocess.DEVNULL, env=harness.clean_environment()).returncode:
            assert "greenlet" not in self.known_as(), "it has no module greenlet"
            return "-"
        stacks, truth = self.run("greenlets.py", least=1500, hz=999)
        check_stacks(stacks, truth["stacks"])
        inside = share(stacks, lambda stack: stack.in_greenlet())
        assert inside > 0.3, "%.1f%% of the stacks end in a greenlet" % (100 * inside)
        return "pass"

    def short_lived(self):
        with tempfile.TemporaryDirectory(prefix="pyperf-matrix-") as directory:
            log = Path(directory, "log")
            log.touch()
            program = str(PROGRAMS / "short_lived.py")
            stolen = harness.stolen_seconds()
            result = profile("-f", "-F", HZ, "--", self.python, "-B", program, "fork", log,
                             SHORT_LIVED).ok()
            spent = [float(line) for line in log.read_text().split()]
        assert len(spent) == SHORT_LIVED, "%d of %d ran" % (len(spent), SHORT_LIVED)
        stacks = [s for s in result.stacks
                  if [f.name for f in s.python()[:1]] == ["<module>"]
                  and any((f.name, f.file) == ("work", program) for f in s.python())]
        part = total(stacks) / HZ / sum(spent)
        stolen = (harness.stolen_seconds() - stolen) / sum(spent)  # of what the hypervisor took there are none
        assert 0.95 - stolen <= part <= 1.05, "%.1f%% of their time was seen" % (100 * part)
        return "pass"

    def names(self):
        stacks, _ = self.run("churn.py", least=self.options.samples, hz=4999)
        seen = collections.Counter()
        for stack in stacks:
            for frame in stack.python():
                seen[frame.name, frame.file, frame.line] += stack.count
        possible = self.oracle(sorted({file for _, file, _ in seen}))
        for (name, file, line), count in seen.items():
            true = possible.get(file, {})
            where = "%s (%s:%d): %d samples: " % (name, file, line, count)
            assert name in true, where + "not in that file"
            assert true[name] is None or line in true[name], where + "it has no such line"
        return "%d, 0 wrong" % total(stacks)

    def oracle(self, files):
        argv = [self.python, "-B", str(PROGRAMS / "churn.py"), "oracle"]
        answer = subprocess.run(argv, input=json.dumps(files), stdout=subprocess.PIPE, check=True,
                                env=harness.clean_environment(), timeout=harness.PATIENCE,
                                text=True)
        return json.loads(answer.stdout)

    def trace(self):
        """Calls and ends as the interpreter logs them."""
        tracing.compare(self.python)
        events = tracing.compare_events(self.python)
        if self.python.name.startswith("path/"):
            events += tracing.compare_million(self.python)
        return "%d, 0 wrong" % events

    def complete(self):
        stacks = self.counters["user_stacks"]
        assert stacks >= LEAST_STACKS, "of only %d stacks" % stacks
        part = self.counters["complete"] / stacks
        text = "%.2f%%" % (100 * part)
        least = LEAST_COMPLETE_NO_ROWS if "norows" in self.known_as() else LEAST_COMPLETE
        assert part >= least, text
        return text


def is_generated(frame):
    """Code that no file holds: the JIT's, or a perf trampoline."""
    return frame.file == "anon" or frame.name.startswith("py::")


def without_lines(stacks, truth):
    stacks = [dataclasses.replace(s, frames=[dataclasses.replace(f, line=0) for f in s.frames])
              for s in stacks]
    truth = [dict(t, frames=[[name, file, 0] for name, file, _ in t["frames"]], leaf_lines=[0])
             for t in truth]
    return stacks, truth


# ---- the table -----------------------------------------------------------------------------------

def run_one(python, options):
    """{column: (status, text)}: status is pass, fail, certain (a failure that no chance explains) or skip."""
    checks, row = Checks(python, options), {}
    # Completeness is that of all runs of the others.
    order = [c for c in COLUMNS if c != "complete"] + ["complete"]
    for column in order:
        try:
            row[column] = "pass", getattr(checks, re.sub("[ -]", "_", column.lower()))()
        except Refused as refused:
            # A version to come may be refused, one that is known to work may not.
            status = "fail" if python.name in recorded() else "skip"
            return {c: (status, str(refused)) for c in COLUMNS}
        except harness.CertainFailure as error:
            row[column] = "certain", str(error)
        except (AssertionError, OSError, KeyError, subprocess.SubprocessError) as error:
            row[column] = "fail", str(error) or repr(error)
    return row


def wait_end(pid):
    """Of a process that somebody else started."""
    with contextlib.suppress(OSError):
        while Path("/proc/%d/stat" % pid).read_text().rpartition(")")[2].split()[0] != "Z":
            time.sleep(0.2)


def remove_maps():
    """What Python writes for perf, also that of processes which a program has started: it stays when they end."""
    for pattern in "perf-*.map", "jit-*.dump":
        for path in Path("/tmp").glob(pattern):
            with contextlib.suppress(OSError):
                lives = os.path.exists("/proc/%s" % path.stem.rpartition("-")[2])
                if not lives and str(PROGRAMS).encode() in path.read_bytes():
                    path.unlink()


def run_all(chosen, options):
    """[(name, version, row), ...], several interpreters at a time."""
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        if options.beside:
            pool.submit(wait_end, options.beside)  # takes one of the turns
        futures = {pool.submit(run_one, python, options): python for python in chosen}
        for n, future in enumerate(concurrent.futures.as_completed(futures)):
            row = future.result()
            failed = [c for c in COLUMNS if row[c][0] in FAILED]
            print("[%d/%d] %s: %s (%.0f s)" % (
                n + 1, len(chosen), futures[future].name,
                "failed: " + ", ".join(failed) if failed else row["stack order"][0],
                time.monotonic() - begin), file=sys.stderr, flush=True)
        return [(python.name, python.version, future.result())
                for future, python in futures.items()]


def cell(status, text):
    return text if status == "pass" else status


def print_rows(rows, markdown):
    head = ["interpreter", "version", *COLUMNS]
    table = [[name, version, *(cell(*row[c]) for c in COLUMNS)] for name, version, row in rows]
    widths = [max(map(len, column)) for column in zip(head, *table)]

    def line(cells):
        cells = [c.ljust(w) for c, w in zip(cells, widths)]
        return "| " + " | ".join(cells) + " |" if markdown else "  ".join(cells).rstrip()

    print(line(head))
    if markdown:
        print("|" + "|".join("-" * (w + 2) for w in widths) + "|")
    for cells in table:
        print(line(cells))


def print_reasons(rows):
    """Every cell that is not a pass, and why."""
    for status in ("skip", *FAILED):
        for name, _, row in rows:
            reasons = collections.defaultdict(list)
            for column in COLUMNS:
                if row[column][0] == status:
                    reasons[row[column][1]].append(column)
            for reason, columns in reasons.items():
                where = "all" if len(columns) == len(COLUMNS) else ", ".join(columns)
                print("\n%s: %s: %s:\n    %s" % (status, name, where,
                                                 "\n    ".join(reason.splitlines()[:40])))


@functools.lru_cache(maxsize=None)
def recorded():
    """{name: [property, ...]} of the interpreters that CI must have."""
    lines = (line.partition("#")[0].split() for line in RECORDED.read_text().splitlines())
    return {line[0]: line[1:] for line in lines if line}


def missing_ones(found, options):
    """[(name, status, reason), ...] of those that are recorded and not here."""
    if not options.expect_recorded:
        return []
    # What nobody can install from packages is expected where its place exists.
    places = {"pyenv": (interpreters.PYENV, "no pyenv"),
              "builds": (interpreters.CACHE / "builds", "no test builds (scripts/test-builds)"),
              "standalone": (interpreters.CACHE / "standalone", "no standalone build (scripts/test-standalone)")}
    missing = []
    for name in recorded():
        if name in found or not is_chosen(name, options.patterns):
            continue
        directory, reason = places.get(name.partition("/")[0], (harness.REPO, ""))
        if directory.is_dir():
            missing.append((name, "fail", "is recorded in %s, and missing" % (
                RECORDED.relative_to(harness.REPO))))
        else:
            missing.append((name, "skip", reason))
    return missing


def is_chosen(name, patterns):
    return not patterns or any(fnmatch.fnmatch(name, p) for p in patterns)


def record_results(rows, missing, samples):
    """For the summary of scripts/test: one line a cell."""
    path = os.environ.get("PYPERF_TEST_RESULTS")
    if not path:
        return
    with open(path, "a") as results:
        for name, _, row in rows:
            for column in COLUMNS:
                status, text = row[column]
                reason = "" if status == "pass" else " ".join(text.split())[:300]
                alone = "scripts/test-pythons --samples %d %s" % (samples, name)
                print("pythons", status, "%s: %s" % (name, column), reason, "", alone, sep="\t",
                      file=results)
        for name, status, reason in missing:
            # It is still missing when it is asked for again.
            status = "certain" if status == "fail" else status
            print("pythons", status, name + ": all", reason, "", "", sep="\t", file=results)


def arguments():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("patterns", nargs="*")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--expect-recorded", action="store_true")
    parser.add_argument("--samples", type=int, default=20000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--beside", type=int)
    return parser.parse_args()


def main():
    options = arguments()
    found = interpreters.find()
    chosen = [i for name, i in found.items() if is_chosen(name, options.patterns)]
    if options.list:
        for python in chosen:
            print("%-20s %-9s %s" % (python.name, python.version, python.elf))
        return 0
    missing = missing_ones(found, options)
    if os.geteuid() != 0:
        sys.exit("test-pythons: needs root")
    if not os.access(harness.PYPERF, os.X_OK):
        sys.exit("test-pythons: %s is not built" % harness.PYPERF)
    rows = run_all(chosen, options)
    remove_maps()
    print_rows(rows, options.markdown)
    sys.stdout.flush()
    print_reasons(rows)
    for name, status, reason in missing:
        print("\n%s: %s: all:\n    %s" % (status, name, reason))
    record_results(rows, missing, options.samples)
    statuses = [status for _, status, _ in missing]
    statuses += [status for _, _, row in rows for status, _ in row.values()]
    return any(status in FAILED for status in statuses)


if __name__ == "__main__":
    sys.exit(main())
