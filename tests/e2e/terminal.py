# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A program on a terminal: a pseudo-terminal, and pyte, which draws what the program sends.

pyte knows nothing of the profiler or of curses; what it shows is what a user sees. It has no second
screen, so the sequences that switch to it and back are noted here.
"""
import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

import harness

pyte = harness.import_pure("pyte")

ENTER_ALTERNATE, LEAVE_ALTERNATE = b"\x1b[?1049h", b"\x1b[?1049l"
SHOW_CURSOR, HIDE_CURSOR = b"\x1b[?25h", b"\x1b[?25l"
KEYS = {"up": "\x1bOA", "down": "\x1bOB", "right": "\x1bOC", "left": "\x1bOD", "enter": "\r",
        "escape": "\x1b", "backspace": "\x7f", "end": "\x1bOF", "home": "\x1bOH"}


class Screen(pyte.Screen):
    """pyte 0.8 does not know of scrolling by SU and SD, which curses uses."""

    def scroll_up(self, count=None):
        self.scroll(count, (self.margins or pyte.screens.Margins(0, self.lines - 1)).bottom,
                    self.index)

    def scroll_down(self, count=None):
        self.scroll(count, (self.margins or pyte.screens.Margins(0, self.lines - 1)).top,
                    self.reverse_index)

    def scroll(self, count, line, step):
        y, self.cursor.y = self.cursor.y, line
        for _ in range(count or 1):
            step()
        self.cursor.y = y


class Stream(pyte.ByteStream):
    csi = {**pyte.ByteStream.csi, "S": "scroll_up", "T": "scroll_down"}
    events = pyte.ByteStream.events | {"scroll_up", "scroll_down"}


class Terminal:
    """Runs argv with a terminal as standard input and output, and as its controlling terminal."""

    def __init__(self, argv, rows=24, cols=80, **env):
        self.screen = Screen(cols, rows)
        self.stream = Stream(self.screen)
        self.raw = b""
        self.master, self.slave = pty.openpty()
        self.set_size(rows, cols)
        self.modes = termios.tcgetattr(self.slave)
        env = harness.clean_environment(**{"TERM": "screen-256color", **env})
        self.status = None
        self.pid = os.fork()
        if not self.pid:
            with contextlib.suppress(BaseException):
                os.setsid()
                fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)
                for fd in range(3):
                    os.dup2(self.slave, fd)
                os.execve(argv[0], list(map(str, argv)), env)
            os._exit(127)
        # The slave stays open here: what is left of the modes can be read after the end.

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.master)
        os.close(self.slave)

    def set_size(self, rows, cols):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def resize(self, rows, cols):
        """As a terminal emulator does it; the kernel sends SIGWINCH."""
        self.screen.resize(rows, cols)
        self.set_size(rows, cols)

    def read(self, wait=0.05):
        """Takes in what the program has sent. False: nothing came."""
        any_came = False
        while select.select([self.master], [], [], 0 if any_came else wait)[0]:
            data = os.read(self.master, 65536)
            self.raw += data
            self.stream.feed(data)
            any_came = True
        return any_came

    def press(self, *keys):
        for key in keys:
            os.write(self.master, KEYS.get(key, key).encode())

    @property
    def lines(self):
        return [line.rstrip() for line in self.screen.display]

    def __str__(self):
        return "\n".join("|%s|" % line for line in self.screen.display)

    def until(self, condition, what, bound=harness.PATIENCE):
        """Reads until condition(lines) holds; its value."""
        end = time.monotonic() + bound
        while True:
            ended = self.ended() is not None  # asked first: what it sent before its end is read
            self.read()
            value = condition(self.lines)
            if value:
                return value
            assert not ended, "ended with %d:\n%s" % (self.status, self)
            assert time.monotonic() < end, "waited in vain for %s:\n%s" % (what, self)

    def shows(self, pattern, bound=harness.PATIENCE):
        """Until a line matches; the match."""
        return self.until(lambda lines: next(filter(None, (re.search(pattern, line)
                                                           for line in lines)), None),
                          repr(pattern), bound)

    def ended(self):
        """The status as a shell gives it, or None while it runs."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status

    def wait(self):
        def over():
            self.read(0.02)
            return self.ended() is not None
        harness.poll(over, "the end of the program")
        self.read(0)
        return self.status

    def restored(self):
        """Modes, cursor and screen are those from before."""
        assert termios.tcgetattr(self.slave) == self.modes
        assert self.raw.count(ENTER_ALTERNATE) >= 1
        assert self.raw.rindex(LEAVE_ALTERNATE) > self.raw.rindex(ENTER_ALTERNATE)
        assert self.raw.rindex(SHOW_CURSOR) > self.raw.rindex(HIDE_CURSOR)
