# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Imports modules in every way.

importing.py DIRECTORY           from the package shop of the directory, what cannot be imported, in a child, in a thread;
                                 then says on stderr which modules there are
importing.py DIRECTORY later     says "ready"; for each line imports the same modules in a function and by their names;
                                 the second time they are there
importing.py DIRECTORY waiting   imports a module that says "ready" and waits for a line
"""
import sys

sys.path.insert(0, sys.argv[1])


def later():
    import json.tool
    from importlib import import_module
    import_module("shop.lazy")
    return json


def failing():
    for name in "shop.nosuch", "nosuch.one.two", "shop.broken":
        try:
            __import__(name)
        except (ImportError, ValueError):
            pass


def at_once():
    import os
    import threading
    import shop.lazy
    failing()
    child = os.fork()
    if not child:
        import shop.child
        import colorsys
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    os.waitpid(child, 0)
    thread = threading.Thread(target=later)
    thread.start()
    thread.join()
    import shop.last
    sys.stderr.write("%s\n" % sorted(sys.modules))
    return shop


def waiting():
    import shop.waiting
    return shop


def main():
    how = sys.argv[2] if len(sys.argv) > 2 else ""
    if how == "waiting":
        waiting()
    elif not how:
        at_once()
    else:
        print("ready")
        sys.stdout.flush()
        for _ in iter(sys.stdin.readline, ""):
            later()
            print("done")
            sys.stdout.flush()


main()
