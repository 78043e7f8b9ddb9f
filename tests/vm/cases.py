# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""How cases are run inside a virtual machine and told to its console, from which tests/vm/guests.bash reads them:
"vm <tab> pass|fail <tab> CASE <tab> REASON" for each case and "vm <tab> figure <tab> NAME <tab> VALUE"."""
import platform
import time
import traceback


def say(kind, name, text=""):
    print("vm", kind, name, " ".join(str(text).split())[:600], sep="\t", flush=True)


def reason_of(error):
    """What it says, or, of a bare assert, its line."""
    at = traceback.extract_tb(error.__traceback__)[-1]
    return str(error) or "%s in %s:%d: %s" % (type(error).__name__, at.filename.rpartition("/")[2], at.lineno, at.line)


def run_cases(cases, goes_on=lambda: True):
    """Functions, each a case that fails by what it raises; then goes_on() says whether the others are run."""
    say("figure", "kernel", platform.release())
    for case in cases:
        begin = time.monotonic()
        try:
            case()
            say("pass", case.__name__, "%d s" % (time.monotonic() - begin))
        except Exception as error:
            traceback.print_exc()
            say("fail", case.__name__, reason_of(error))
            if not goes_on():
                break
