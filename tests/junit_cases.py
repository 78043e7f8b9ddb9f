# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Usage: junit_cases.py JUNIT.xml DIRECTORY

Prints what pytest found, a line for each case: STATUS, CASE, REASON, SECONDS, FILE, separated by the
control character US. FILE, in DIRECTORY, is there for a failed case: the assertion, and at its end the
last lines of the profiler (tests/e2e/reporting.py).
"""
import sys
import xml.etree.ElementTree as xml
from pathlib import Path


def explain(part):
    """What was asserted comes behind the message given with it: a long message leaves room for it."""
    message = " ".join((part.get("message") or part.tag).split())
    text = [line[1:].strip() for line in (part.text or "").splitlines() if line.startswith("E ")]
    if message == "collection failure":
        return " ".join(text) or message
    asserted = [line for line in text if line.startswith("assert ")]
    if asserted and asserted[-1] not in message[:300]:
        message = message[:200] + " ... " + asserted[-1]
    return message


def judge(case):
    """(status, reason, details)"""
    said = {p.get("name"): p.get("value") for p in case.iter("property")}
    status, reason, details = "pass", "", ""
    for part in case:
        if part.tag in ("failure", "error"):
            status, reason = "certain" if "certain" in said else "fail", explain(part)
            details += (part.text or "") + "\n" + said.get("profiler", "")
        elif part.tag == "skipped" and status == "pass":
            # An expected failure is a known problem, not a missing thing: it is listed all the same.
            status, reason = "skip", part.get("message") or "no reason given"
    if "certain" in said:
        reason = said["certain"] + ": " + reason
    return status, " ".join(reason.split()), details


def main(junit, directory):
    for number, case in enumerate(xml.parse(junit).iter("testcase")):
        status, reason, details = judge(case)
        file = Path(directory, str(number))
        if details:
            file.write_text(details)
        name = case.get("name") or case.get("classname")
        print(status, name, reason, case.get("time", ""), file if details else "", sep="\x1f")


if __name__ == "__main__":
    main(*sys.argv[1:])
