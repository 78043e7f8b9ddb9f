# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Functions whose names and files are hard to carry: every string width, very long ones."""
import sys

from common import Recorder, clock, finish, rounds, start

record = Recorder()

SOURCE = """
def {name}():
    x = 1
    record(frame(), {label!r})
    end = clock() + 0.01
    while clock() < end:
        for i in range(500):
            x = (x * 31 + i) & 0xffff
"""

CASES = {
    # label: (function, file); the widths of PyUnicode are one, one (Latin-1), two and four bytes
    "ascii": ("plain", "/names/plain.py"),
    "latin1": ("caf\u00e9_na\u00efve", "/names/\u00fcber.py"),
    "ucs2": ("\u0438\u043c\u044f_\u51fd\u6570",
             "/names/\u65e5\u672c\u8a9e/\u043c\u043e\u0434\u0443\u043b\u044c.py"),
    "ucs4": ("f_\U00010400\U00010401", "/names/\U0001f40d/snake.py"),
    "blanks": ("spaced", "/names/with some blanks/in it.py"),
    "long name": ("f" + "0123456789" * 300, "/names/long.py"),
    "long path": ("far_away", "/names" + "/directory" * 350 + "/deep.py"),
    "both long, wide": ("\u51fd" * 1500, "/" + "\u9577" * 3000 + ".py"),
}


def define(label, name, path):
    scope = {"record": record, "frame": sys._getframe, "clock": clock}
    exec(compile(SOURCE.format(name=name, label=label), path, "exec"), scope)
    return scope[name]


def main():
    functions = [define(label, *case) for label, case in CASES.items()]
    running = start()
    for _ in rounds(running):
        for function in functions:
            function()
    finish({"file": __file__, "stacks": record.truth()})


main()
