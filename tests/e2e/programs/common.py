# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What the ground-truth programs share. Runs on CPython 2.7 and on 3.6 and later.

A program says "ready" on stdout once its work is under way, works until its stdin is closed, and
then prints one line of JSON: what really happened, by its own construction and by the
interpreter's own answers. Nothing in here is asked of the profiler.
"""
import json
import os
import sys
import threading
import time
import traceback

# CPU time of the thread; up to 3.6 of the process. Always a C function: it has no frame.
clock = getattr(time, "thread_time", None) or getattr(time, "process_time", None) or time.clock


class Running(object):
    """True until stdin is closed. A plain attribute, so that looking costs the caller no frame."""

    def __init__(self):
        self.now = True
        self.watcher = None

    def watch(self):
        while os.read(0, 4096):
            pass
        self.now = False

    def be_watched(self):
        """By a thread that sleeps in read(2): it has no samples of its own."""
        self.watcher = threading.Thread(target=self.watch)
        self.watcher.daemon = True
        self.watcher.start()


def rounds(running):
    """Iterates at least once, and on while `running`."""
    yield
    while running.now:
        yield


def start(running=None):
    """Says that work begins."""
    running = running or Running()
    if not running.watcher:
        running.be_watched()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    return running


def gettid():
    """The kernel's number of this thread."""
    return int(os.readlink("/proc/thread-self").rpartition("/")[2])


def finish(truth):
    sys.stdout.write(json.dumps(truth) + "\n")
    sys.stdout.flush()


def qualname(code):
    """The name that a code object carries: qualified from 3.11, plain before."""
    return getattr(code, "co_qualname", code.co_name)


def legal_lines(code):
    """Every line number that an instruction of `code` can have."""
    if hasattr(code, "co_lines"):
        lines = [line for _, _, line in code.co_lines()]
    else:
        import dis  # needs an extension module, which may not find its interpreter: see embed.c
        lines = [line for _, line in dis.findlinestarts(code)]
    return sorted({code.co_firstlineno} | set(filter(None, lines)))


class Recorder(object):
    """The distinct Python stacks under which the leaf functions really ran.

    A stack is a list of [name, file, line], outermost first; the line of the last one, the leaf, is
    left to vary within the leaf's own lines.
    """

    def __init__(self):
        self.stacks = {}

    def __call__(self, leaf, label="", native=()):
        """`leaf` is the frame that is about to work; `native` is kept beside its stack."""
        key, frame = [], leaf
        while frame is not None:
            key.append((frame.f_code, frame.f_lineno))
            frame = frame.f_back
        key[0] = key[0][0]
        key = (label,) + tuple(key)
        if key in self.stacks:
            return
        chain = []
        frame = leaf
        while frame is not None:
            chain.append([qualname(frame.f_code), frame.f_code.co_filename, frame.f_lineno])
            frame = frame.f_back
        chain.reverse()
        # The interpreter's own traceback has to agree, or the truth is not one.
        # Entries are tuples (file, line, name, text), or look like it from 3.5 on.
        seen = [(f[0], f[1]) for f in traceback.extract_stack(leaf)]
        assert seen == [(f, n) for _, f, n in chain], (seen, chain)
        self.stacks[key] = {
            "label": label,
            "frames": chain,
            "leaf_lines": legal_lines(leaf.f_code),
            "native": list(native),
        }

    def truth(self):
        return list(self.stacks.values())


def images():
    """Base names of the ELF files mapped executable, by the roles that the truths speak of."""
    mapped = set()
    with open("/proc/self/maps") as maps:
        for line in maps:
            fields = line.split(None, 5)
            if len(fields) == 6 and "x" in fields[1] and fields[5].startswith("/"):
                mapped.add(fields[5].strip())
    exe = os.path.realpath("/proc/self/exe")
    python = next((m for m in mapped if os.path.basename(m).startswith("libpython")), exe)

    def library(stem):
        return next((os.path.basename(m) for m in mapped
                     if os.path.basename(m).startswith(stem)), None)

    def module(name):
        path = getattr(sys.modules.get(name), "__file__", None)
        return os.path.basename(os.path.realpath(path)) if path else os.path.basename(python)

    return {
        "exe": os.path.basename(exe),
        "python": os.path.basename(python),
        "python_path": python,
        "ctypes": module("_ctypes"),
        "ffi": library("libffi"),
        "libc": library("libc.so") or library("libc-"),
        "json": module("_json"),
        "expat": module("pyexpat"),
        # 2.7 has reduce() among the builtins.
        "functools": module("_functools" if sys.version_info[0] > 2 else None),
    }
