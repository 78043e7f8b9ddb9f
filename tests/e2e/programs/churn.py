# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Everything that makes and unmakes frames and code objects in a hurry, at once and for as long as
stdin is open: imports, garbage collections, storms of exceptions, threads that start and end, code
that is compiled, run once and freed.

usage: churn.py            works; ends with {}
       churn.py oracle     reads [file, ...], one JSON line, and answers {file: {name: [line, ...]}}
                           for all code that is in these files, by compiling it; 0 is an instruction
                           without a line, null instead of a list: any line
"""
import gc
import json
import random
import sys
import threading
import types

from common import finish, legal_lines, qualname, rounds, start

MODULES = ["bisect", "calendar", "cmd", "code", "colorsys", "csv", "difflib", "fnmatch",
           "fractions", "getopt", "quopri", "sched", "shlex", "string", "textwrap"]
MADE = "/churn/made_%03d.py"
KINDS = 97


# ---- work ----------------------------------------------------------------------------------------

def made_source(k):
    """Code whose names, lines and sizes differ from one k to the next, though often not by much."""
    name = "made_%03d" % k
    inner = "inner_%0*d" % (3 + k % 5, k)
    return "%sdef %s(n):\n    def %s(m):\n%s        return [m * j for j in range(n)]\n" \
           "    return sum(map(len, map(%s, range(n))))\n\n\nx = %s(12)\n" % (
               "\n" * (k % 7), name, inner, "\n" * (k % 11), inner, name)


def compile_and_run(rng):
    for _ in range(20):
        k = rng.randrange(KINDS)
        exec(compile(made_source(k), MADE % k, "exec"), {})


def import_again(rng):
    """Executes modules anew; those that others hold on to stay as they are."""
    for name in rng.sample(MODULES, 4):
        sys.modules.pop(name, None)
        __import__(name)


class Node(object):
    def __init__(self, other):
        self.other, self.more = other, [self]

    def __del__(self):
        self.more = None


def make_cycles(depth=6):
    if depth:
        for _ in range(2):
            make_cycles(depth - 1)
    Node(Node(None)).other.other = Node(None)


def collect_garbage(rng):
    make_cycles()
    gc.collect()


class Trouble(Exception):
    pass


def raise_from_below(depth):
    if not depth:
        raise Trouble(depth)
    try:
        raise_from_below(depth - 1)
    finally:
        depth += 1


def exceptions(rng):
    for _ in range(30):
        try:
            raise_from_below(rng.randrange(12))
        except Trouble:
            pass
    for value in generator_that_fails():
        value += 1


def generator_that_fails():
    try:
        for i in range(20):
            try:
                yield i
                raise Trouble
            except Trouble:
                pass
    finally:
        gc.isenabled()


def thread_work(rng):
    rng.choice([compile_and_run, exceptions, collect_garbage])(rng)


def threads(rng):
    started = [threading.Thread(target=thread_work, args=(random.Random(rng.random()),))
               for _ in range(4)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()


def work():
    rng = random.Random(1)
    kinds = [compile_and_run, import_again, collect_garbage, exceptions, threads]
    running = start()
    for _ in rounds(running):
        rng.choice(kinds)(rng)
    finish({})


# ---- truth ---------------------------------------------------------------------------------------

def add_code(code, found):
    found.setdefault(qualname(code), set()).update(lines_of(code))
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            add_code(const, found)


def lines_of(code):
    lines = set(legal_lines(code))
    if hasattr(code, "co_lines") and any(not line for _, _, line in code.co_lines()):
        lines.add(0)
    return lines


def made_by_the_library():
    """Names of functions that modules made by exec(): named tuples, data classes."""
    for name in MODULES:
        __import__(name)
    names = {qualname(f.__code__) for f in gc.get_objects()
             if isinstance(f, types.FunctionType) and f.__code__.co_filename == "<string>"}
    names |= {t.__name__ for t in tuple.__subclasses__() if hasattr(t, "_fields")}
    return {name: None for name in names | {"<module>", "<lambda>"}}


def code_of(file):
    if file.startswith("/churn/made_"):
        return compile(made_source(int(file[12:15])), file, "exec")
    if file.startswith("<frozen "):
        import _imp
        name = file[8:-1]
        if not _imp.is_frozen(name):  # up to 3.10 these two go by another name
            name = name.replace("importlib._bootstrap", "_frozen_importlib")
        return _imp.get_frozen_object(name)
    with open(file, "rb") as source:
        return compile(source.read(), file, "exec", dont_inherit=True)


def answer():
    result = {}
    for file in json.loads(sys.stdin.readline()):
        found = {}
        if file == "<string>":
            result[file] = made_by_the_library()
            continue
        try:
            add_code(code_of(file), found)
        except (ImportError, IOError, OSError, SyntaxError, ValueError):
            continue
        result[file] = {name: sorted(lines) for name, lines in found.items()}
    sys.stdout.write(json.dumps(result) + "\n")


if sys.argv[1:] == ["oracle"]:
    answer()
else:
    work()
