# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Imports orders by a parser that leaks, a batch for each line on stdin; and does other work, which does not."""
import sys

sys.path.insert(0, sys.argv[1])
import fastparse  # noqa: E402


class Order(object):
    __slots__ = ("number", "owner", "price", "notes", "a", "b", "c", "d")


class Rate(object):
    __slots__ = ("a", "b")


RATES = []


def import_orders(count):
    return len(fastparse.parse(Order, count))


def refresh_rates():
    RATES[:] = [Rate() for i in range(2000)]


def main():
    for line in sys.stdin:
        refresh_rates()
        import_orders(int(line))
        print("done", flush=True)


refresh_rates()
print("ready", flush=True)
main()
