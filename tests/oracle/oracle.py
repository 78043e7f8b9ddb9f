# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Whole stacks against libdwfl's, one line per workload; scripts/test-oracle is its command line.

A workload is a program that runs until it is ended, or ends soon and is started again. `stacks`
(stacks.c) stops it at random instants and compares.
"""
import argparse
import dataclasses
import os
import subprocess
import sys
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).resolve().parent / "programs"
OUT = Path(os.environ.get("PYPERF_OUT") or REPO / ".output") / "oracle"
SYSTEM_PYTHON = Path("/usr/bin/python3")
PYENV = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"

# name: (program, module that it needs)
LIBRARIES = {
    "numpy": ("numpy_arrays.py", "numpy"),
    "lxml": ("lxml_trees.py", "lxml"),
    "crypto": ("crypto.py", "cryptography"),
    "pil": ("pil_images.py", "PIL"),
    "sqlite": ("sqlite.py", "sqlite3"),
    "mixed": ("mixed.py", "ctypes"),
    "calls": ("calls.py", "sys"),
    "startup": ("startup.py", "json"),
}
NO_ROWS = "-fno-asynchronous-unwind-tables -fno-unwind-tables"
BUILDS = {
    "c": "-O2 -fomit-frame-pointer",
    "c-fp": "-O2 -fno-omit-frame-pointer",
    "c-fp-no-rows": "-O2 -fno-omit-frame-pointer " + NO_ROWS,
}
COLUMNS = ["stops", "frames", "equal", "jumped", "ours shorter", "theirs shorter", "different",
           "equal %", "merged", "Python frames", "merged wrong"]


class Missing(Exception):
    """What the workload needs and this machine has not."""


@dataclasses.dataclass
class Result:
    name: str
    stops: int
    frames: int
    equal: int
    jumped: int          # frames left out between code without rows and a Python activation
    ours_shorter: int
    theirs_shorter: int  # libdwfl gave up
    different: int
    merged: int          # merged stacks compared
    python_frames: int
    merged_wrong: int
    causes: str          # what differed, one line each

    def row(self):
        percent = f"{100 * self.equal / self.stops:.3f}" if self.stops else "-"
        return [str(v) for v in (self.stops, self.frames, self.equal, self.jumped,
                                 self.ours_shorter, self.theirs_shorter, self.different, percent,
                                 self.merged, self.python_frames, self.merged_wrong)]


def pythons():
    """{suffix of a workload's name: interpreter}"""
    found = {"": SYSTEM_PYTHON}
    for exe in sorted(PYENV.glob("*/bin/python?.?")) + sorted(PYENV.glob("*/bin/python?.??")):
        found["@" + exe.name[len("python"):]] = exe
    return found


def workloads():
    """All names. Other interpreters than the distribution's have the standard library only."""
    names = list(LIBRARIES) + list(BUILDS)
    for suffix in pythons():
        if suffix and not suffix.startswith("@2"):
            names += ["mixed" + suffix, "calls" + suffix, "startup" + suffix]
    return names


def compile_frames(name):
    exe = OUT / ("frames-" + name)
    subprocess.run(["gcc", *BUILDS[name].split(), "-o", exe, PROGRAMS / "frames.c", "-pthread"],
                   check=True)
    return [str(exe)]


def command(name):
    if name in BUILDS:
        return compile_frames(name)
    base, at, version = name.partition("@")
    python = pythons().get(at + version)
    program, module = LIBRARIES[base]
    if python is None:
        raise Missing(f"python{version}")
    if subprocess.run([python, "-c", "import " + module], stderr=subprocess.DEVNULL).returncode:
        raise Missing(f"{python} has no module {module}")
    return [str(python.resolve()), "-I", str(PROGRAMS / program)]


def run(name, stops, steps=4, shown=0, seed=1, begin_ms=0):
    """`begin_ms`: CPU time that a process has before it is stopped."""
    answer = subprocess.run(
        [OUT / "stacks", "-n", str(stops), "-s", str(steps), "-b", str(begin_ms), "-v", str(shown),
         "-r", str(seed), "-N", name, *command(name)], capture_output=True, text=True)
    if answer.returncode:
        raise RuntimeError(f"{name}: {answer.stdout}{answer.stderr}")
    lines = answer.stdout.splitlines()
    at = next(i for i, line in enumerate(lines) if line.split()[:1] == [name])
    fields = lines[at].split()[1:]
    del fields[7]  # the percentage
    return Result(name, *map(int, fields), causes="\n".join(lines[:at] + lines[at + 1:]))


def main():
    parser = argparse.ArgumentParser(prog="test-oracle")
    parser.add_argument("--stops", type=int, default=20000)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=0, metavar="N")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("workload", nargs="*")
    args = parser.parse_args()
    names = args.workload or workloads()
    if args.list:
        print("\n".join(names))
        return 0
    width = [max(len(c), 7) for c in COLUMNS]
    print("    ".join(["workload".ljust(14)] + [c.rjust(w) for c, w in zip(COLUMNS, width)])
          .replace("    ", "  "))
    causes, wrong = [], 0
    for name in names:
        try:
            result = run(name, args.stops, args.steps, args.show, args.seed)
        except Missing as missing:
            print(f"{name:14}  skipped: {missing}")
            continue
        print("  ".join([name.ljust(14)] +
                        [c.rjust(w) for c, w in zip(result.row(), width)]), flush=True)
        causes += [f"{name}:\n{result.causes}"] if result.causes else []
        wrong += result.different + result.merged_wrong
    print("\n" + "\n".join(causes))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
