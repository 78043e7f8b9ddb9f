# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Code objects that are made, run and freed, so that their addresses serve for others.

usage: reuse.py lines|twins

lines   every function has its own file and first line
twins   same first line, names and files of the same length: the freed strings' addresses are
        reused, too, and nothing but the contents tells one function from the next

Function made_NNN is always called by call_NNN, which is never freed: that caller tells which
function really ran. The truth: the CPU time of each name, and which file and lines it may have.
"""
import sys

from common import clock, finish, legal_lines, start

FUNCTIONS = 24
# The loop sits behind `gap` lines, so a stale line table shows as an impossible line.
SOURCE = """{above}def {name}(n):
    x = 1
{gap}    for i in range(n):
        x = (x * 31 + i) & 0xffff
    return x
"""


def make(mode, k):
    source = SOURCE.format(above="\n" * (100 * k) if mode == "lines" else "",
                           name="made_%03d" % k, gap="\n" * (7 * k))
    scope = {}
    exec(compile(source, "/reuse/file_%03d.py" % k, "exec"), scope)
    return scope.pop("made_%03d" % k)  # no cycle: it is freed at once


def make_caller(k):
    name = "call_%03d" % k
    scope = {}
    exec(compile("def %s(f, n):\n    f(n)\n" % name, "/reuse/callers.py", "exec"), scope)
    return scope[name]


def main():
    mode = sys.argv[1]
    callers = [make_caller(k) for k in range(FUNCTIONS)]
    truth = [{"name": "made_%03d" % k, "caller": "call_%03d" % k, "seconds": 0.0,
              "file": "/reuse/file_%03d.py" % k, "lines": legal_lines(make(mode, k).__code__)}
             for k in range(FUNCTIONS)]
    addresses = {}
    running = start()
    turn = 0
    while running.now or turn < 4 * FUNCTIONS:
        # 5 and 24 have no common factor: all take their turn, unlike ones follow each other.
        k = turn * 5 % FUNCTIONS
        turn += 1
        function = make(mode, k)
        addresses.setdefault(id(function.__code__), set()).add(k)
        begin = clock()
        callers[k](function, 9000 * (1 + k % 4))
        truth[k]["seconds"] += clock() - begin
        function = None
    total = sum(t["seconds"] for t in truth)
    for t in truth:
        t["share"] = t["seconds"] / total
    finish({"functions": truth, "made": turn,
            "reused": sum(len(names) > 1 for names in addresses.values())})


main()
