# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A parent that works and has children: an elder one, and short ones all the time."""
import os

from common import clock, finish, rounds, start


def spin(seconds):
    x = 1
    end = clock() + seconds
    while clock() < end:
        for i in range(500):
            x = (x * 31 + i) & 0xffff


def parent_work():
    spin(0.02)


def child_work():
    spin(0.04)


def elder_work(alive):
    while os.read(alive, 1):
        spin(0.03)


def main():
    # The elder child works as long as tokens come, and ends when the parent is gone.
    tokens, give = os.pipe()
    elder = os.fork()
    if elder == 0:
        os.close(give)
        elder_work(tokens)
        os._exit(0)
    os.close(tokens)
    running = start()
    for _ in rounds(running):
        os.write(give, b".")
        child = os.fork()
        if child == 0:
            os.close(give)
            child_work()
            os._exit(0)
        parent_work()
        os.waitpid(child, 0)
    os.close(give)
    os.waitpid(elder, 0)
    finish({"file": __file__})


main()
