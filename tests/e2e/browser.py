# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A browser without a screen, driven over HTTP as https://www.w3.org/TR/webdriver2/ says."""
import contextlib
import functools
import http.server
import json
import re
import subprocess
import threading
import urllib.request

import pytest

import harness

OPTIONS = {"args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                    "--enable-unsafe-swiftshader", "--window-size=1200,900"]}


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@contextlib.contextmanager
def serve(directory):
    """The address at which the files of a directory are."""
    handler = functools.partial(Quiet, directory=str(directory))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield "http://127.0.0.1:%d/" % server.server_address[1]
        server.shutdown()


class Browser:
    def __init__(self, base):
        self.base = base

    def call(self, path, **body):
        request = urllib.request.Request(self.base + path, json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def go(self, url):
        self.call("/url", url=url)

    def run(self, script):
        """The value that a function body returns in the page."""
        return self.call("/execute/sync", script=script, args=[])

    def wait(self, script):
        """Until the function body returns something true; that."""
        found = []

        def look():
            found[:] = [self.run(script)]
            return found[0]

        harness.poll(look, script)
        return found[0]


@contextlib.contextmanager
def browser():
    driver, chromium = harness.find_tool("chromedriver"), harness.find_tool("chromium")
    if not driver or not chromium:
        pytest.skip("chromium and chromedriver are not installed")
    with subprocess.Popen([driver, "--port=0"], stdout=subprocess.PIPE, text=True) as process:
        try:
            for line in process.stdout:
                if match := re.search(r"on port (\d+)\.", line):
                    break
            base = "http://127.0.0.1:%s" % match[1]
            options = {"binary": chromium, **OPTIONS}
            session = Browser(base).call("/session", capabilities={
                "alwaysMatch": {"goog:chromeOptions": options}})
            page = Browser("%s/session/%s" % (base, session["sessionId"]))
            try:
                yield page
            finally:
                end = urllib.request.Request(page.base, method="DELETE")
                urllib.request.urlopen(end, timeout=60).close()
        finally:
            process.terminate()
