# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Code that claims to come from the files named as arguments."""
import sys

from common import finish, rounds, start

TEXT = "def work(x=1):\n    for i in range(9000):\n        x = (x * 31 + i) & 0xffff\n"


def main():
    works = []
    for path in sys.argv[1:]:
        names = {}
        exec(compile(TEXT, path, "exec"), names)
        works.append(names["work"])
    running = start()
    for _ in rounds(running):
        for work in works:
            work()
    finish({})


main()
