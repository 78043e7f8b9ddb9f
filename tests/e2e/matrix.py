# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Runs the ground-truth programs over every interpreter and prints one table; see
scripts/test-pythons."""
import argparse
import collections
import contextlib
import dataclasses
import fnmatch
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True

import harness  # noqa: E402
import interpreters  # noqa: E402
import test_nesting  # noqa: E402
import test_threads  # noqa: E402
from harness import HZ, PROGRAMS, Target, check_stacks, profile, share, total  # noqa: E402

RECORDED = harness.REPO / "tests" / "pythons.txt"
LEAST_COMPLETE = 0.995
SHORT_LIVED = 20
DEEP = 600
COLUMNS = ["stack order", "lines", "complete", "no-GIL thread", "short-lived", "names"]


class Skip(Exception):
    """Cannot be shown here, and why."""


# ---- the checks ----------------------------------------------------------------------------------

class Checks:
    """All runs over one interpreter. The method of a column's name returns its cell."""

    def __init__(self, python, options):
        self.python, self.options = python, options
        self.counters = collections.Counter()

    def run(self, program, *args, seconds, hz=HZ, options=(), whole=True):
        """(result, truth) of a target that is profiled for a while."""
        with Target(self.python, program, *args) as target:
            result = profile("-f", "-F", hz, "-d", seconds, "-p", target.pid, *options).ok()
            for leftover in ("/tmp/perf-%d.map", "/tmp/jit-%d.dump"):
                with contextlib.suppress(OSError):
                    os.unlink(leftover % target.pid)
            if whole:
                self.counters += result.counters
            if self.options.verbose:
                print(program, dict(result.counters), file=sys.stderr)
            return result, target.stop()

    def is_walked(self):
        """Raises the reason when the interpreter is refused: the report's table names it."""
        with Target(self.python, "deep.py", "python", 3) as target:
            report = profile("-d", 0.3, "-p", target.pid).ok().stdout
        refused = re.search(r"native only: (.*)", report)
        if refused:
            raise Skip("native only: " + refused[1].strip())

    def nesting(self):
        if not hasattr(self, "_nesting"):
            self.is_walked()
            self._nesting = self.run("nesting.py", seconds=3)
        return self._nesting

    def stack_order(self):
        result, truth = self.nesting()
        stacks, stacks_true = without_lines(result.stacks, truth["stacks"])
        found = check_stacks(stacks, stacks_true)
        images = truth["images"]
        for n, stacks in found.items():
            for stack in stacks:
                test_nesting.check_native(stack, truth["stacks"][n]["native"], images)
        self.deep()
        return "pass"

    def deep(self):
        # Up to 3.10 each call takes native frames, of which there may be too many to keep.
        result, truth = self.run("deep.py", "python", DEEP, seconds=1, hz=499, whole=False)
        (true,) = truth["stacks"]
        stacks = [s for s in result.stacks if s.leaf() and s.leaf().name == "bottom"]
        assert stacks, "the bottom of the recursion was never seen"
        wanted = [tuple(f) for f in true["frames"][:-1]]
        for stack in stacks:
            got = [(f.name, f.file, f.line) for f in stack.python()[:-1]]
            assert got == wanted, "recursion: %d of %d frames: %s" % (
                len(got), len(wanted), stack.markers()[:1] or got[:3])

    def lines(self):
        result, truth = self.nesting()
        check_stacks(result.stacks, truth["stacks"])
        return "pass"

    def no_gil_thread(self):
        result, truth = self.run("threads.py", seconds=3, options=["--threads"])
        check_stacks(result.stacks, truth["stacks"])
        for name, tid in truth["tids"].items():
            stacks = [s for s in result.stacks if s.tid == tid]
            assert stacks, "no sample of thread " + name
            part = share(stacks, lambda s: s.leaf() and s.leaf().name == name)
            assert part >= 0.95, "%.1f%% of thread %s in its function" % (100 * part, name)
            if name in test_threads.WHERE:
                part = share(stacks, test_threads.in_library(name))
                # Debug builds fill memory that they allocate and free.
                least = 0.7 if "d" in self.python.abi else 0.9
                assert part >= least, "%.1f%% of thread %s in its library" % (100 * part, name)
        return "pass"

    def short_lived(self):
        with tempfile.TemporaryDirectory(prefix="pyperf-matrix-") as directory:
            log = Path(directory, "log")
            log.touch()
            program = str(PROGRAMS / "short_lived.py")
            result = profile("-f", "-F", HZ, "--", self.python, "-B", program, "fork", log,
                             SHORT_LIVED).ok()
            spent = [float(line) for line in log.read_text().split()]
        assert len(spent) == SHORT_LIVED, "%d of %d ran" % (len(spent), SHORT_LIVED)
        stacks = [s for s in result.stacks
                  if [f.name for f in s.python()[:1]] == ["<module>"]
                  and any((f.name, f.file) == ("work", program) for f in s.python())]
        part = total(stacks) / HZ / sum(spent)
        assert 0.95 <= part <= 1.05, "%.1f%% of their time was seen" % (100 * part)
        return "pass"

    def names(self):
        wanted, seen = self.options.samples, collections.Counter()
        samples = runs = 0
        while samples < wanted:
            # On a busy machine one run brings less than it should.
            assert runs < 20, "only %d samples in %d runs" % (samples, runs)
            runs += 1
            result, _ = self.run("churn.py", seconds=1 + (wanted - samples) / 4000, hz=4999)
            assert result.stacks, "no samples"
            for stack in result.stacks:
                for frame in stack.python():
                    seen[frame.name, frame.file, frame.line] += stack.count
            samples += total(result.stacks)
        possible = self.oracle(sorted({file for _, file, _ in seen}))
        for (name, file, line), count in seen.items():
            true = possible.get(file, {})
            where = "%s (%s:%d): %d samples: " % (name, file, line, count)
            assert name in true, where + "not in that file"
            assert true[name] is None or line in true[name], where + "it has no such line"
        return "%d, 0 wrong" % samples

    def oracle(self, files):
        argv = [self.python, "-B", str(PROGRAMS / "churn.py"), "oracle"]
        answer = subprocess.run(argv, input=json.dumps(files), stdout=subprocess.PIPE, check=True,
                                env=harness.clean_environment(), timeout=harness.PATIENCE,
                                text=True)
        return json.loads(answer.stdout)

    def complete(self):
        part = self.counters["complete"] / max(1, self.counters["user_stacks"])
        text = "%.2f%%" % (100 * part)
        assert part >= LEAST_COMPLETE, text
        return text


def without_lines(stacks, truth):
    stacks = [dataclasses.replace(s, frames=[dataclasses.replace(f, line=0) for f in s.frames])
              for s in stacks]
    truth = [dict(t, frames=[[name, file, 0] for name, file, _ in t["frames"]], leaf_lines=[0])
             for t in truth]
    return stacks, truth


# ---- the table -----------------------------------------------------------------------------------

def run_one(python, options):
    """{column: (status, text)}: status is pass, fail or skip."""
    checks, row = Checks(python, options), {}
    # Completeness is that of all runs of the others.
    order = [c for c in COLUMNS if c != "complete"] + ["complete"]
    for column in order:
        try:
            row[column] = "pass", getattr(checks, re.sub("[ -]", "_", column.lower()))()
        except Skip as skip:
            return {c: ("skip", str(skip)) for c in COLUMNS}
        except (AssertionError, OSError, KeyError, subprocess.SubprocessError) as error:
            row[column] = "fail", str(error) or repr(error)
    return row


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
    for status in ("skip", "fail"):
        for name, _, row in rows:
            reasons = collections.defaultdict(list)
            for column in COLUMNS:
                if row[column][0] == status:
                    reasons[row[column][1]].append(column)
            for reason, columns in reasons.items():
                where = "all" if len(columns) == len(COLUMNS) else ", ".join(columns)
                print("\n%s: %s: %s:\n    %s" % (status, name, where,
                                                 "\n    ".join(reason.splitlines()[:40])))


def recorded():
    """Names that the reference machine has. Without pyenv a machine is another one."""
    lines = (line.partition("#")[0].strip() for line in RECORDED.read_text().splitlines())
    return [line for line in lines
            if line and (interpreters.PYENV.is_dir() or not line.startswith("pyenv/"))]


def is_chosen(name, patterns):
    return not patterns or any(fnmatch.fnmatch(name, p) for p in patterns)


def record_results(rows, missing):
    """For the summary of scripts/test: one line a cell."""
    path = os.environ.get("PYPERF_TEST_RESULTS")
    if not path:
        return
    with open(path, "a") as results:
        for name, _, row in rows:
            for column in COLUMNS:
                status, text = row[column]
                reason = "" if status == "pass" else " ".join(text.split())[:300]
                print("pythons", status, "%s: %s" % (name, column), reason, sep="\t", file=results)
        for name in missing:
            print("pythons", "fail", name + ": all", "is missing", sep="\t", file=results)


def arguments():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("patterns", nargs="*")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--expect-recorded", action="store_true")
    parser.add_argument("--samples", type=int, default=20000)
    return parser.parse_args()


def main():
    options = arguments()
    found = interpreters.find()
    chosen = [i for name, i in found.items() if is_chosen(name, options.patterns)]
    if options.list:
        for python in chosen:
            print("%-20s %-9s %s" % (python.name, python.version, python.elf))
        return 0
    missing = []
    if options.expect_recorded:
        missing = [n for n in recorded() if n not in found and is_chosen(n, options.patterns)]
    if os.geteuid() != 0:
        sys.exit("test-pythons: needs root")
    if not os.access(harness.PYPERF, os.X_OK):
        sys.exit("test-pythons: %s is not built" % harness.PYPERF)
    rows = []
    for n, python in enumerate(chosen):
        begin = time.monotonic()
        row = run_one(python, options)
        rows.append((python.name, python.version, row))
        failed = [c for c in COLUMNS if row[c][0] == "fail"]
        print("[%d/%d] %s: %s (%.0f s)" % (
            n + 1, len(chosen), python.name, "failed: " + ", ".join(failed) if failed
            else row["stack order"][0], time.monotonic() - begin), file=sys.stderr, flush=True)
    print_rows(rows, options.markdown)
    sys.stdout.flush()
    print_reasons(rows)
    record_results(rows, missing)
    for name in missing:
        print("\nfail: %s: was there on the reference machine (%s) and is missing" % (
            name, RECORDED.relative_to(harness.REPO)))
    return bool(missing) or any(row[c][0] == "fail" for _, _, row in rows for c in COLUMNS)


if __name__ == "__main__":
    sys.exit(main())
