# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What the report of a failed case says beside the assertion, for scripts/run-tests: the last lines that
the profiler wrote, and whether the failure is certain, so that the case does not run again.

A conftest.py imports all names.
"""
import os
import signal
import subprocess

import pytest

import harness

CRASHES = [signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSYS]
LAST_LINES = 20


class Watched(subprocess.Popen):
    """A process of a test, whose end and last words can be asked for later."""
    started = []

    def __init__(self, args, *more, **options):
        super().__init__(args, *more, **options)
        self.words = options.get("stderr")
        Watched.started.append(self)

    def communicate(self, *args, **options):
        out, err = super().communicate(*args, **options)
        self.words = err or ""
        return out, err

    def is_profiler(self):
        argv = self.args if isinstance(self.args, (list, tuple)) else [self.args]
        return any(os.path.basename(os.fsdecode(a)).startswith("pyperf-bpf") for a in argv)

    def crash(self):
        """The signal that ended it, if the program is at fault."""
        status = self.returncode or 0
        ended_by = -status if status < 0 else status - 128  # by a shell between
        return next((s.name for s in CRASHES if s == ended_by), None)

    def last_words(self):
        words = self.words
        if hasattr(words, "fileno"):  # a file, perhaps closed
            try:
                words = os.pread(words.fileno(), 1 << 20, 0)
            except (OSError, ValueError):
                return ""
        if isinstance(words, bytes):
            words = words.decode(errors="replace")
        if not isinstance(words, str):
            return ""
        return "\n".join(words.splitlines()[-LAST_LINES:])


@pytest.fixture(autouse=True)
def watched_processes(monkeypatch):
    Watched.started[:] = [p for p in Watched.started if p.returncode is None]
    monkeypatch.setattr(subprocess, "Popen", Watched)


def why_certain(item, error):
    """One of the kinds of failures that scripts/run-tests never runs again, or None."""
    for process in Watched.started:
        if process.is_profiler() and process.crash():
            return "the profiler died of " + process.crash()
        if process.words and "SUMMARY: " in process.last_words() and "Sanitizer" in process.last_words():
            return "a sanitizer's report"
    while error is not None:
        if isinstance(error, harness.CertainFailure):
            return "certain"
        error = error.__cause__ or error.__context__
    return "certain" if item.get_closest_marker("certain") else None


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    error = call.excinfo and call.excinfo.value
    if isinstance(error, Exception) and not isinstance(error, pytest.skip.Exception):
        words = [p.last_words() for p in Watched.started if p.is_profiler()]
        item.user_properties.append(("profiler", "\n".join(filter(None, words[-2:]))))
        why = why_certain(item, error)
        if why:
            item.user_properties.append(("certain", why))
    yield


def pytest_configure(config):
    config.addinivalue_line("markers", "host: needs neither root nor the profiler")
    config.addinivalue_line("markers", "beside: measures nothing, so that it may run next to what does")
    config.addinivalue_line("markers", "certain: a failure that no chance explains")
    config.addinivalue_line("markers", "few_pythons: does not depend on the version: runs on three of the interpreters")
