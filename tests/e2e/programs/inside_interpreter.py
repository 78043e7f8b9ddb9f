# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Runs in each interpreter of subinterpreters.py, and runs others there."""
import json
import os
import sys
import time

from common import Recorder, clock, gettid, qualname

try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

record = Recorder()
inner = None
# From 3.12 on an interpreter has its own GIL unless it is asked to share one.
KINDS = ["own", "shared"] if sys.version_info >= (3, 12) else ["shared"]

SOURCE = """\
import sys
sys.path[:] = {path!r}
import inside_interpreter
inside_interpreter.{call}
"""


def new(name):
    if sys.version_info >= (3, 13):
        return interpreters.create("legacy" if name == "shared" else "isolated")
    if sys.version_info >= (3, 12):
        return interpreters.create(isolated=name != "shared")
    return interpreters.create()


def create(name, fd):
    """An interpreter that has imported what it needs, and has made another one for itself."""
    interpreter = new(name)
    source = SOURCE.format(path=sys.path, call="prepare(%r, %r)" % (name, fd))
    interpreters.run_string(interpreter, source)
    return interpreter


def prepare(name, fd):
    global inner
    if name in KINDS:
        inner = create(name + "/2", fd)
    number = int(interpreters.get_current()[0] if sys.version_info >= (3, 13)
                 else interpreters.get_current())
    os.write(fd, json.dumps({"label": name, "id": number}).encode() + b"\n")


def run(interpreter, fd, label, frame, outer=()):
    """The frames of `frame` and its callers, behind `outer`, lead to what runs in there."""
    chain = []
    while frame is not None:
        chain.append([qualname(frame.f_code), frame.f_code.co_filename, frame.f_lineno])
        frame = frame.f_back
    here = sys._getframe()
    chain = [*outer, *reversed(chain), [qualname(here.f_code), here.f_code.co_filename, CALL]]
    call = "begin(%r, %r, %r)" % (fd, label, json.dumps(chain))
    source = SOURCE.format(path=sys.path, call=call)
    interpreters.run_string(interpreter, source)


CALL = run.__code__.co_firstlineno + 10


def begin(fd, label, outer):
    outer = json.loads(outer)
    spin(fd, label, outer)
    if inner is not None:
        run(inner, fd, label + "/2", sys._getframe(), outer)


def spin(fd, label, outer):
    x = 1
    known = len(record.stacks)
    record(sys._getframe(), label)
    if len(record.stacks) != known:
        true = list(record.stacks.values())[-1]
        true = dict(true, frames=outer + true["frames"])
        os.write(fd, json.dumps(true).encode() + b"\n")
    end = clock() + 0.004
    while clock() < end:
        for i in range(300):
            x = (x * 31 + i) & 0xffff
    # In 3.9 and 3.10 who waits for the GIL asks the wrong interpreter to give it up: none would
    # (take_gil(), Python/ceval_gil.h), and the threads of the others might never run. Nor does who gives it up
    # wait there until somebody has it (drop_gil()): so it stays away for longer than that takes.
    time.sleep(0.001)
