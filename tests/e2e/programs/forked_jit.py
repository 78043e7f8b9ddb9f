# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A child of fork that runs functions of before and after the fork. Under -X perf, the parent has
compiled a trampoline for the first, and the child does for the others, in a map of its own. Prints the
child's pid on "ready", and what really ran."""
import os
import sys

from common import Recorder, Running, clock, finish, rounds

record = Recorder()


def work(label):
    record(sys._getframe(), label)
    end = clock() + 0.002
    while clock() < end:
        pass


def before(function):
    function()


AFTER = """
def after():
    work("after")
"""


def child():
    scope = {"work": work}
    exec(compile(AFTER, "after.py", "exec"), scope)
    running = Running()
    running.be_watched()
    sys.stdout.write("%d\n" % os.getpid())
    sys.stdout.flush()
    for _ in rounds(running):
        before(lambda: work("before"))
        before(scope["after"])
    finish({"stacks": record.truth()})


def main():
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for _ in range(50):
        before(lambda: work("parent"))
    record.stacks.clear()
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
    else:
        child()


main()
