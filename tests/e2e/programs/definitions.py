# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Generated code: functions of one name and file that differ only in where they begin, and spend their time on
the same line of it."""
from common import clock, finish, rounds, start

FILE = "/definitions/made.py"
HOT = 20
FIRST = [3, 9, 17]


def define(first):
    source = "\n" * (first - 1) + "def work(end):\n" + "\n" * (HOT - first - 1) + \
             "    while clock() < end: pass\n"
    scope = {"clock": clock}
    exec(compile(source, FILE, "exec"), scope)
    # A caller of its own, by which the samples of one definition are known.
    exec("def caller_of_%d(): work(clock() + 0.01)" % first, scope)
    return scope


def main():
    scopes = [define(first) for first in FIRST]
    callers = [scope["caller_of_%d" % first] for scope, first in zip(scopes, FIRST)]
    running = start()
    for _ in rounds(running):
        for caller in callers:
            caller()
    finish({"file": FILE, "line": HOT,
            "first": {caller.__name__: scope["work"].__code__.co_firstlineno
                      for caller, scope in zip(callers, scopes)}})


main()
