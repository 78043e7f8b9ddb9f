# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A headless Chromium, driven through chromedriver by plain WebDriver (W3C): HTTP and JSON.

    with Browser() as browser:
        browser.open(path)
        browser.click("#invert")
        assert browser.js("return document.title") == "..."

It notes what the page asked the network for and what it wrote to the console.
"""
import base64
import contextlib
import functools
import http.server
import json
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import harness

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the key of an element, from the standard
KEYS = {"Enter": "\ue007", "Escape": "\ue00c", "ArrowLeft": "\ue012", "ArrowUp": "\ue013",
        "ArrowRight": "\ue014", "ArrowDown": "\ue015", "Tab": "\ue004", "Backspace": "\ue003"}
PATIENCE = 60
TRIES = 5


def find():
    """(browser, driver), or the name of what is missing."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
    driver = shutil.which("chromedriver")
    if not browser:
        return "chromium is not installed"
    if not driver:
        return "chromedriver is not installed"
    return browser, driver


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
    def __init__(self, size=(1280, 800)):
        browser, driver = find()
        self.directory = tempfile.mkdtemp(prefix="pyperf-browser-")
        try:
            self.url = "http://127.0.0.1:%d" % self.start_driver(driver)
            self.start(browser, size)
        except BaseException:
            self.close()
            raise

    def start_driver(self, driver):
        """The port that it listens on: with --port=0 it takes one for IPv4 that may be in use for IPv6, and gives up."""
        for _ in range(TRIES):
            self.driver = subprocess.Popen([driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                           start_new_session=True,
                                           env={**os.environ, "HOME": self.directory, "TMPDIR": self.directory})
            port, text = self.read_port()
            if port or b"already in use" not in text:
                break
            self.end_driver()
        if not port:
            raise AssertionError("chromedriver did not start: %r" % text)
        return port

    def end_driver(self):
        """With the browser, which writes to the directory until it has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.driver.pid, signal.SIGTERM)
        self.driver.wait()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.driver.pid, signal.SIGKILL)
        self.driver.stdout.close()

    def read_port(self):
        """(the port, or None; what the driver wrote)"""
        text, end = b"", time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if select.select([self.driver.stdout], [], [], 1)[0]:
                text += os.read(self.driver.stdout.fileno(), 4096)
            if match := re.search(rb"started successfully on port (\d+)", text):
                return int(match[1]), text
            if self.driver.poll() is not None:
                break
        return None, text

    def start(self, browser, size):
        args = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
                "--user-data-dir=" + self.directory, "--window-size=%d,%d" % size,
                "--force-prefers-reduced-motion", "--enable-unsafe-swiftshader"]  # WebGL
        options = {"binary": browser, "args": args, "perfLoggingPrefs": {"enableNetwork": True}}
        capabilities = {"browserName": "chrome", "goog:chromeOptions": options,
                        "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
        self.session = None
        answer = self.ask("POST", "/session", {"capabilities": {"alwaysMatch": capabilities}})
        self.session = "/session/" + answer["sessionId"]

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, method=method,
                                         headers={"Content-Type": "application/json"})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=PATIENCE) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            value = json.load(error)["value"]
            raise AssertionError("%s: %s" % (value["error"], value["message"])) from None

    def post(self, path, **body):
        return self.ask("POST", self.session + path, body)

    def close(self):
        try:
            if getattr(self, "session", None):
                self.ask("DELETE", self.session)
        finally:
            self.end_driver()
            self.remove_directory()

    def remove_directory(self):
        """A process that was killed may still be in a system call that makes a file."""
        for _ in range(TRIES):
            with contextlib.suppress(OSError):
                return shutil.rmtree(self.directory)
            time.sleep(0.2)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    # ---- what a person does --------------------------------------------------------------------

    def go(self, url):
        self.post("/url", url=url)

    def open(self, path):
        self.go(Path(path).resolve().as_uri())

    def dark(self, dark):
        """What the system prefers, as pages see it."""
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.post("/goog/cdp/execute", cmd="Emulation.setEmulatedMedia",
                  params={"features": features})

    def js(self, script, *args):
        return self.post("/execute/sync", script=script, args=args)

    def wait(self, script):
        """Until the function body returns something true; that."""
        found = []

        def look():
            found[:] = [self.js(script)]
            return found[0]

        harness.poll(look, script)
        return found[0]

    def find(self, selector):
        return self.post("/element", using="css selector", value=selector)[ELEMENT]

    def click(self, selector):
        self.post("/element/%s/click" % self.find(selector))

    def type(self, selector, text):
        self.post("/element/%s/value" % self.find(selector), text=text)

    def press(self, *keys):
        actions = [{"type": kind, "value": KEYS.get(key, key)}
                   for key in keys for kind in ("keyDown", "keyUp")]
        self.post("/actions", actions=[{"type": "key", "id": "keys", "actions": actions}])

    def mouse(self, x, y, click=True):
        actions = [{"type": "pointerMove", "duration": 0, "x": round(x), "y": round(y)}]
        if click:
            actions += [{"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
        self.post("/actions", actions=[{"type": "pointer", "id": "mouse", "actions": actions}])

    # ---- what came of it -----------------------------------------------------------------------

    def text(self, selector):
        return self.js("return document.querySelector(arguments[0]).innerText", selector)

    def shown(self, selector):
        return self.js("return document.querySelector(arguments[0]).checkVisibility()", selector)

    def screenshot(self, path):
        Path(path).write_bytes(base64.b64decode(self.ask("GET", self.session + "/screenshot")))

    def log(self, kind):
        return self.ask("POST", self.session + "/se/log", {"type": kind})

    def console(self):
        """Warnings and errors, among them what the page's policy refused."""
        return [e["message"] for e in self.log("browser") if e["level"] in ("WARNING", "SEVERE")]

    def requests(self):
        """Addresses that pages from files asked for, but for their own."""
        urls = []
        for entry in self.log("performance"):
            message = json.loads(entry["message"])["message"]
            params = message["params"]
            if (message["method"] == "Network.requestWillBeSent" and
                    params["documentURL"].startswith("file:") and
                    params["request"]["url"] != params["documentURL"]):
                urls.append(params["request"]["url"])
        return urls
