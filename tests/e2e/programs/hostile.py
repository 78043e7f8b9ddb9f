# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Names that a parser, a terminal or a file format would trip over, put in with code.replace()."""
from common import clock, finish, rounds, start

NAMES = [
    "semi;colon",
    "new\nline",
    "number 17",
    "bell\x07escape\x1b[31mred",
    "nul\x00inside",
    "lone\ud800surrogate",
    "\u202eright to left",
    "",
]


def template():
    x = 1
    end = clock() + 0.01
    while clock() < end:
        for i in range(500):
            x = (x * 31 + i) & 0xffff


def rename(name, path):
    changes = {"co_name": name, "co_filename": path}
    if hasattr(template.__code__, "co_qualname"):
        changes["co_qualname"] = name
    return type(template)(template.__code__.replace(**changes), globals())


def main():
    functions = [rename(name, "/hostile/%d.py" % i) for i, name in enumerate(NAMES)]
    functions += [rename("path_of_%d" % i, "/hostile/%s.py" % name)
                  for i, name in enumerate(NAMES)]
    running = start()
    for _ in rounds(running):
        for function in functions:
            function()
    finish({"names": len(NAMES), "lines": [template.__code__.co_firstlineno,
                                           rename.__code__.co_firstlineno - 1]})


main()
