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


def run_cases(cases, goes_on):
    """Functions, each a case that fails by what it raises. Then goes_on(BEGIN, ERROR) prints what else is known of the case,
    which began then (time.monotonic()), and says whether the others are run. What stands before the line of a failed case is
    its own: guests.bash shows it."""
    say("figure", "kernel", platform.release())
    for case in cases:
        begin = time.monotonic()
        try:
            case()
            say("pass", case.__name__, "%d s" % (time.monotonic() - begin))
        except Exception as error:
            traceback.print_exc()
            more = False
            try:
                more = goes_on(begin, error)
            finally:
                say("fail", case.__name__, reason_of(error))
            if not more:
                break
