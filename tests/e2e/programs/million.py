# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Calls functions a million times, in rounds that are all the same.

million.py truth [N]   prints the beginnings and ends of one round, or of N, each with its depth, as the interpreter's
                       own profile function sees them: ["=> batch", " => tree", ...]
million.py run         says "ready"; makes a round for each line, then ends

For CPython 2.7 and 3.6 on.
"""
import json
import sys

HERE = __file__
TREES = 750
LOG = []


def tree(n):
    return n and tree(n - 1) + tree(n - 1)


def numbers(n):
    for i in range(n):
        yield i


def total(n):
    t = 0
    for i in numbers(n):
        t += leaf(i)
    return t


def leaf(i):
    return i


def raiser(depth):
    if not depth:
        raise ValueError
    raiser(depth - 1)


def catcher(depth):
    try:
        raiser(depth)
    except ValueError:
        pass


class Item(object):
    def __init__(self, x):
        self.x = leaf(x)

    def __lt__(self, other):
        return self.x < other.x


def batch():
    for i in range(TREES):
        tree(4)  # 31 calls
        total(4)
        catcher(5)
        min(Item(i), Item(-i))


def log(frame, event, arg):
    if frame.f_code.co_filename != HERE or event not in ("call", "return"):
        return
    code = frame.f_code
    name = getattr(code, "co_qualname", code.co_name)
    depth = 0
    while frame.f_back.f_code.co_name != "<module>":
        frame = frame.f_back
        depth += 1
    LOG.append("%s%s %s" % (" " * depth, "=>" if event == "call" else "<=", name))


if sys.argv[1] == "truth":
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    sys.setprofile(log)
    for _ in range(rounds):
        batch()
    sys.setprofile(None)
    print(json.dumps(LOG))
else:
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in iter(sys.stdin.readline, ""):
        batch()
