# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A WSGI application whose requests take a while; the answer is the process and the stacks that
there were in it."""
import json
import os
import sys

from common import Recorder, clock


def spin(record):
    x = 1
    record(sys._getframe())
    end = clock() + 0.01
    while clock() < end:
        for i in range(300):
            x = (x * 31 + i) & 0xffff


def sort_key(record):
    spin(record)
    return 0


class View(object):
    def get(self, record):
        spin(record)
        sorted([record], key=sort_key)


def application(environ, start_response):
    record = Recorder()
    View().get(record)
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps({"pid": os.getpid(), "stacks": record.truth()}).encode()]
