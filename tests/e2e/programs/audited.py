# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Does what raises audit events, in C and in Python.

truth: prints [[name, [function:first line:line, ...], how often], ...], the innermost function first, as a hook sees it.
run, hooked: says "ready", waits for a line, does the same without a hook, or with one that does nothing, prints "done".
"""
import collections
import glob
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading

# Not at the beginning of sys.path, so that the import finds it nowhere else.
MODULE = "audited_module"
noted = collections.Counter()
inside = threading.local()


def stack_of(frame):
    stack = []
    while frame:
        code = frame.f_code
        stack.append("%s:%d:%d" % (getattr(code, "co_qualname", code.co_name), code.co_firstlineno, frame.f_lineno))
        frame = frame.f_back
    return tuple(stack)


def note(name, _):
    if getattr(inside, "hook", False):
        return
    inside.hook = True
    noted[name, stack_of(sys._getframe(1))] += 1
    inside.hook = False


def own(n):
    sys.audit("audited.own", n, "secret")
    if n:
        own(n - 1)


def generate():
    for n in range(3):
        sys.audit("audited.generator")
        yield n


class Answers:
    def __getattr__(self, name):
        with open(os.devnull) as f:
            return f.fileno()


def in_thread():
    own(4)
    compile("1", "<text>", "eval")


def files(directory):
    for n in range(5):
        with open(os.path.join(directory, "f%d" % n), "w"):
            pass
    glob.glob(os.path.join(directory, "*"))
    assert [os.path.basename(p) for p in sorted(os.listdir(directory))][0] == "f0"
    with tempfile.NamedTemporaryFile(dir=directory):
        pass
    try:
        open(os.path.join(directory, "none", "none"))
    except OSError:
        pass


def network():
    with socket.socket() as server, socket.socket() as client:
        server.bind(("127.0.0.1", 0))
        server.listen(1)
        client.connect(server.getsockname())


def imports(directory):
    with open(os.path.join(directory, MODULE + ".py"), "w") as f:
        f.write("import sys\nsys.audit('audited.module')\n")
    sys.path.insert(0, directory)
    __import__(MODULE)
    try:
        import audited_nowhere  # noqa: F401
    except ImportError:
        pass


def start():
    try:
        subprocess.Popen(["/nowhere"])
    except OSError:
        pass


def work(directory):
    own(20)
    assert list(generate()) == [0, 1, 2]
    assert Answers().anything > 0
    files(directory)
    network()
    imports(directory)
    exec("x = 1\nopen(os.devnull).close()")
    assert eval("1 + 1") == 2
    sys.setprofile(None)
    start()
    for f in [threading.Thread(target=in_thread) for _ in range(3)]:
        f.start()
        f.join()


def main(mode):
    with tempfile.TemporaryDirectory() as directory:
        if mode == "truth":
            sys.addaudithook(note)
            work(directory)
            inside.hook = True
            print(json.dumps([[name, stack, n] for (name, stack), n in noted.items()]))
            return
        if mode == "hooked":
            sys.addaudithook(lambda name, args: None)
        print("ready")
        sys.stdout.flush()
        sys.stdin.readline()
        work(directory)
        print("done")
        sys.stdout.flush()
        sys.stdin.readline()


if __name__ == "__main__":
    main(sys.argv[1])
