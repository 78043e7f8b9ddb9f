# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Compiled functions that link their own frames (linked.c), called by interpreted ones, which they
call, and by no Python code at all. Arguments: the directory of the extension, and "wait" to stay in
the innermost one, in a process that has no other thread. Prints the stacks that really were there,
as the interpreter's own traceback has them."""
import os
import sys

from common import Recorder, clock, finish, rounds, start

sys.path.insert(0, sys.argv[1])
import linked  # noqa: E402

record = Recorder()
running = start() if len(sys.argv) == 2 else None


def through():
    linked.inner()


def tell():
    """Called by inner(), which is compiled: its lines are those that it sets."""
    frame = sys._getframe(1)
    record(frame, "inner")
    for true in record.truth():
        if true["label"] == "inner":
            true["leaf_lines"] = [12, 14, 15]
    if running:
        return
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    else:
        finish({"pid": os.getpid(), "stacks": record.truth()})
        os.read(0, 1)
    os._exit(0)


def leaf():
    record(sys._getframe(), "leaf")
    end = clock() + 0.004
    while clock() < end:
        pass


def main():
    for _ in rounds(running):
        linked.outer()
        linked.outermost()


linked.set(through, tell, leaf)
if running:
    main()
    finish({"stacks": record.truth()})
else:
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    linked.outermost()
