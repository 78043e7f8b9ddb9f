# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The agent's page in a browser, and what it asks: services out of a store, a flame graph, a diff.

The store is made by the store's own code (tests/store/windows.c) from profiles that are written by hand.
"""
import gzip
import json
import subprocess
import time
import urllib.parse

import pytest

import harness
import pprof_read
import pprof_write
import webdriver
from agent_server import Server
from harness import REPO

pytestmark = pytest.mark.host

WINDOWS = REPO / ".output" / "store" / "windows"
HOSTILE = "<img src=x onerror=document.title='hit'>\"'&<script>document.title='hit'</script>"
HZ = 19
WINDOW = 60  # seconds


def pprof(path, leaf, count):
    """main calls `leaf` in all samples but ten."""
    profile = pprof_write.Profile(hz=HZ)
    main = (("main", "/srv/app.py"), 1)
    profile.add([main, ((leaf, "/srv/app.py"), 10)], count)
    profile.add([main], 10)
    path.write_bytes(profile.pack())


class Filled:
    """A store with "web" for the last half hour, which calls `fast` and, in the last 15 minutes, `slow`."""

    def __init__(self, directory):
        self.path = directory / "store.db"
        self.files = directory
        self.now = int(time.time())
        begin = self.now // WINDOW * WINDOW
        for i in range(30):
            leaf = "slow" if i < 15 else "fast"
            self.put("web", leaf, 90, begin - (i + 1) * WINDOW)
        self.put("worker <b>", "job", 40, begin - WINDOW)
        self.put(HOSTILE, HOSTILE, 30, begin - WINDOW)
        self.put("yesterday's", "old", 20, begin - 86400)

    def put(self, service, leaf, count, start):
        file = self.files / "one.pb.gz"
        pprof(file, leaf, count)
        subprocess.run([WINDOWS, "put", self.path, file, service, str(start), str(WINDOW), str(HZ),
                        str(count + 10), "host=h", "region=<i>eu</i>"], check=True,
                       timeout=harness.PATIENCE)


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    return Filled(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def server(filled):
    with Server(store=filled.path) as server:
        yield server


def query(server, path, **args):
    args = {key.replace("_", "-"): value for key, value in args.items()}
    return server.get(path + "?" + urllib.parse.urlencode(args))


def ask(server, path, **args):
    status, headers, body = query(server, path, **args)
    assert status == 200 and headers["Content-Type"] == "application/json", body
    return json.loads(body)


# ---- what scripts and the page ask -----------------------------------------------------------------

def test_services(server, filled):
    answer = ask(server, "/api/services", **{"from": "-1h", "buckets": 12})
    names = [s["name"] for s in answer["services"]]
    assert names == ["web", "worker <b>", HOSTILE] and not answer["more"]
    assert answer["values"] == ["cpu-clock", "page-faults"]
    web = answer["services"][0]
    assert web["samples"] == 30 * 100 == sum(web["series"]) and web["windows"] == 30
    assert len(web["series"]) == 12 and web["series"][0] == 0
    assert answer["to"] - answer["from"] == 3600 and answer["step"] == 300
    # A step has whole minutes, so that windows of a minute do not beat with it.
    assert set(ask(server, "/api/services", service="web", **{
        "from": filled.now // WINDOW * WINDOW - 900, "buckets": 240})["services"][0]["series"]) <= {0, 100}
    one = ask(server, "/api/services", service=HOSTILE, **{"from": filled.now - 3600, "to": filled.now})
    assert [s["name"] for s in one["services"]] == [HOSTILE]
    assert ask(server, "/api/services", **{"from": 1, "to": 2})["services"] == []


@pytest.mark.parametrize("to", [9223372036, 18446744073, 253402300799])
@pytest.mark.parametrize("buckets", [1, 2, 240])
def test_services_of_all_times(server, to, buckets):
    answer = ask(server, "/api/services", **{"from": 0, "to": to, "buckets": buckets})
    assert sum(s["windows"] for s in answer["services"]) == 33
    assert all(1 <= len(s["series"]) <= buckets for s in answer["services"])


def test_services_beyond_the_limit_of_an_answer(tmp_path):
    store = tmp_path / "store.db"
    subprocess.run([WINDOWS, "fill", store, "1", "5002", "10", "360"], check=True, timeout=harness.PATIENCE)
    with Server(store=store) as server:
        answer = ask(server, "/api/services", **{"from": "-3d", "buckets": 12})
    assert answer["more"] and len(answer["services"]) == 5000
    assert {s["windows"] for s in answer["services"]} == {4}, "those that are listed are listed whole"


def test_metrics_of_the_store(server):
    text = server.get("/metrics")[2].decode()
    assert "\npyperf_store_windows 33\n" in text
    assert '\npyperf_store_dropped_windows_total{reason="age"} 0\n' in text


def test_labels(server):
    labels = ask(server, "/api/labels", service="web", **{"from": "-1h"})["labels"]
    assert {"name": "region", "value": "<i>eu</i>"} in labels
    assert {"name": "service_name", "value": "web"} in labels


def test_profile_of_a_range(server, filled):
    status, headers, body = query(server, "/api/profile", service="web", **{"from": "-1h"})
    assert status == 200 and headers["Content-Disposition"].endswith('"profile.pb.gz"')
    assert gzip.decompress(body)
    go = harness.find_go()
    if not go:
        pytest.skip("go is not installed")
    url = "http://127.0.0.1:%d/api/profile?service=web&from=-1h" % server.port
    top = subprocess.run([go, "tool", "pprof", "-top", "-unit=count", "-sample_index=samples", url],
                         capture_output=True, text=True, timeout=harness.PATIENCE,
                         env={**harness.clean_environment(), "PPROF_TMPDIR": str(filled.files)})
    assert top.returncode == 0, top.stderr
    assert "1350" in next(line for line in top.stdout.splitlines() if "slow" in line), top.stdout


def test_profile_of_the_whole_host(server):
    """Of each service one process, named after it, with as many samples as the service has."""
    status, _, body = query(server, "/api/profile", all=1, **{"from": "-1h"})
    assert status == 200, body
    found = {}
    for sample in pprof_read.parse(gzip.decompress(body))["samples"]:
        name = sample["labels"]["comm"]
        found[name] = found.get(name, 0) + sample["values"]["samples"]
    services = ask(server, "/api/services", **{"from": "-1h"})["services"]
    assert found == {s["name"]: s["samples"] for s in services} and len(found) == 3


def test_refuses(server):
    for path, args, want in [
            ("/api/services", {"from": "tomorrow"}, 400), ("/api/services", {"buckets": "241"}, 400),
            ("/api/services", {"from": "now", "to": "-1h"}, 400), ("/flame", {}, 400),
            ("/flame", {"service": "web", "all": "1"}, 400), ("/api/profile", {"all": "0"}, 400),
            ("/flame", {"all": "1", "from": "1", "to": "2"}, 404),
            ("/flame", {"service": "web", "from": "1", "to": "2"}, 404),
            ("/flame", {"service": "web", "from": "-1h", "base_from": "1", "base_to": "2"}, 404),
            ("/api/profile", {"service": "nobody"}, 404), ("/flame", {"service": "x" * 2000}, 400)]:
        status, _, body = query(server, path, **args)
        assert status == want and body.count(b"\n") == 1, (path, args, status, body)
    assert query(server, "/flame", service=b"\xff\xfe\xed\xa0\x80")[0] == 404
    with Server() as alone:
        assert alone.status("/api/services") == 404
    with Server(store="/nowhere/store.db") as alone:
        assert alone.status("/api/services") == 404


def test_a_profile_may_be_too_large(tmp_path):
    """The agent has little memory, and whoever asks for all there is must not end it."""
    file, store = tmp_path / "large.pb.gz", tmp_path / "store.db"
    profile = pprof_write.Profile(hz=HZ)
    below = b"".join(pprof_write.varint(profile.location((("f", "/srv/app.py"), i % 100))) for i in range(60000))
    for i in range(71):
        leaf = pprof_write.varint(profile.location((("leaf", "/srv/app.py"), i)))
        profile.samples.append(pprof_write.data(2, pprof_write.data(1, leaf + below) + pprof_write.data(2, b"\1\1")))
    file.write_bytes(profile.pack())
    subprocess.run([WINDOWS, "put", store, file, "web", str(int(time.time()) - 60), "60", str(HZ), "71"],
                   check=True, timeout=harness.PATIENCE)
    with Server(store=store) as server:
        status, _, body = query(server, "/flame", service="web")
        assert (status, body) == (413, b"too much for the agent: a shorter range, or report\n")


def test_flame_is_in_an_origin_of_its_own(server):
    _, headers, body = query(server, "/flame", service="web", **{"from": "-1h"})
    policy = headers["Content-Security-Policy"]
    assert "sandbox allow-scripts" in policy and "allow-same-origin" not in policy
    assert "frame-ancestors 'self'" in policy
    assert b"default-src 'none'" in body
    assert "frame-ancestors 'none'" in server.get("/")[1]["Content-Security-Policy"]


# ---- in a browser --------------------------------------------------------------------------------

@pytest.fixture
def page(browser, server):
    """Opens the page with a query, and waits for the list."""
    def open_page(search=""):
        browser.go("http://127.0.0.1:%d/%s" % (server.port, search))
        browser.wait("return document.querySelector('#services li, #few:not([hidden])')")
        return browser
    browser.console()
    yield open_page
    assert browser.console() == []


def in_frame(browser, script, address="true"):
    """What the script returns in the frame, when it is something true.

    `address` is true of the frame's address `u` once the page has made the frame that is meant: it replaces them.
    """
    browser.wait("const f = document.querySelector('iframe'); if (!f) return false;"
                 "const u = new URL(f.src), q = u.searchParams; return " + address)
    browser.post("/frame", id={webdriver.ELEMENT: browser.find("iframe")})
    try:
        return browser.wait(script)
    finally:
        browser.post("/frame", id=None)


FUNCTIONS = """
document.querySelector('[data-view="table"]').click();
const names = [...document.querySelectorAll('#table .name')].map((e) => e.innerText);
return names.length && names"""


def names(browser):
    return browser.js("return [...document.querySelectorAll('#services .name')].map((e) => e.textContent)")


def test_choose_a_service(page, server):
    browser = page()
    assert names(browser) == ["web", "worker <b>", HOSTILE]
    assert "3 services" in browser.text("#headline")
    browser.wait("return document.querySelector('#service').innerText === 'web'")  # the biggest, until one is chosen
    assert browser.js("return document.querySelector('#services [aria-selected=true] .name').innerText") == "web"
    # Half an hour of samples in the last hour: the pictures begin where those do.
    wide = browser.js("return [...document.querySelectorAll('#services svg, #series')].map((e) => e.viewBox.baseVal.width)")
    steps = 3600 / ask(server, "/api/services", **{"from": "-1h", "buckets": 40})["step"]
    assert all(0.4 * steps < w <= 0.6 * steps for w in wide[:-1]), wide
    browser.click("#services li:nth-child(2)")
    browser.wait("return document.querySelector('iframe')?.src.includes('service=worker')")
    browser.click("#services li")
    functions = in_frame(browser, FUNCTIONS, "q.get('service') === 'web'")
    assert {"main", "slow", "fast"} <= set(functions)
    assert in_frame(browser, "return Math.abs(document.querySelector('main').getBoundingClientRect().bottom - innerHeight) < 2")
    assert browser.text("#service") == "web" and "region=<i>eu</i>" in browser.text("#labels")
    assert "service=web" in browser.js("return location.search")
    assert browser.js("return document.querySelectorAll('#series rect').length") > 20
    browser.click('[data-range="15m"]')
    browser.wait("return location.search.includes('range=15m')")
    assert "fast" not in in_frame(browser, FUNCTIONS, "q.get('to') - q.get('from') === 900")
    browser.post("/back")
    assert "fast" in in_frame(browser, FUNCTIONS, "q.get('to') - q.get('from') === 3600")


def test_whole_host(page, server):
    """All services in one picture, which Back, a copied link and the keyboard know, too."""
    browser = page()
    browser.wait("return document.querySelector('#service').innerText === 'web'")
    browser.click("#all")
    functions = in_frame(browser, FUNCTIONS, "q.get('all') === '1'")
    assert {"main", "slow", "fast", "job", HOSTILE} <= set(functions)
    assert in_frame(browser, "return document.querySelector('#bytask').ariaPressed") == "true"  # services are apart
    assert browser.text("#service") == "Whole host" and browser.text("#labels") == ""
    assert browser.js("return document.querySelector('#all').ariaPressed") == "true"
    assert browser.js("return document.querySelectorAll('#services [aria-selected=true]').length") == 0
    assert "all=1" in browser.js("return location.search") and "service=" not in browser.js("return location.search")
    browser.post("/back")
    assert "job" not in in_frame(browser, FUNCTIONS, "q.get('service') === 'web'")
    assert browser.js("return document.querySelector('#all').ariaPressed") == "false"
    browser.press("a")
    assert "job" in in_frame(browser, FUNCTIONS, "q.get('all') === '1'")
    browser = page("?all=1&range=15m&base=before")
    in_frame(browser, "return document.querySelector('#table')", "q.get('base-from') && q.get('all') === '1'")
    browser.click("#services li")
    browser.wait("return document.querySelector('iframe')?.src.includes('service=web')")


# What the page does each half minute is done when the test says so, and answers about a service wait for that, too.
HELD = """
window.setInterval = (f) => { window.update = f; };
window.lists = 0;
window.held = new Promise((resolve) => { window.release = resolve; });
const real = window.fetch;
window.fetch = async (url, options) => {
  const answer = await real(url, options);
  if (String(url).includes("service="))
    await window.held;
  else
    window.lists += 1;
  return answer;
};
"""


def test_an_update_of_the_list_meanwhile(browser, page):
    script = browser.post("/goog/cdp/execute", cmd="Page.addScriptToEvaluateOnNewDocument", params={"source": HELD})
    try:
        page()
        browser.click("#services li")
        browser.js("window.update()")
        browser.wait("return window.lists === 2")
        browser.js("window.release()")
        browser.wait("return document.querySelector('iframe')")
        page("?range=constructor")
        assert browser.js("return document.querySelector('[aria-pressed=true]').dataset.range") == "1h"
    finally:
        browser.post("/goog/cdp/execute", cmd="Page.removeScriptToEvaluateOnNewDocument", params=script)


def test_an_update_is_of_its_own_hour(browser, page, server):
    """25 minutes later the hour begins 25 minutes later, and so does what it has of samples."""
    def widths():
        return browser.js("return [...document.querySelectorAll('#services svg')].map((e) => e.viewBox.baseVal.width)")
    script = browser.post("/goog/cdp/execute", cmd="Page.addScriptToEvaluateOnNewDocument", params={"source": HELD})
    try:
        page()
        steps = 3600 / ask(server, "/api/services", **{"from": "-1h", "buckets": 40})["step"]
        assert all(0.4 * steps < w <= 0.6 * steps for w in widths())  # half an hour of samples
        browser.js("const now = Date.now; Date.now = () => now() + 25 * 60000;"
                   "document.querySelector('#services li').old = true; window.update()")
        browser.wait("return !document.querySelector('#services li').old")
        assert all(0.8 * steps < w <= steps for w in widths())
    finally:
        browser.post("/goog/cdp/execute", cmd="Page.removeScriptToEvaluateOnNewDocument", params=script)


def test_a_link_with_the_token(browser, filled, tmp_path):
    """As the agent prints it. The browser asks nobody, and sends the token to this port alone."""
    token = tmp_path / "token"
    token.write_text("0123456789abcdef\n")
    with Server(store=filled.path, token_file=token) as server:
        browser.go("http://pyperf:0123456789abcdef@127.0.0.1:%d/" % server.port)
        browser.wait("return document.querySelector('#services li')")
        assert names(browser) == ["web", "worker <b>", HOSTILE]
        browser.click("#services li")
        assert {"main", "slow", "fast"} <= set(in_frame(browser, FUNCTIONS))
        assert "0123456789abcdef" not in browser.js("return document.cookie + document.documentElement.outerHTML")
        for link in "pprof", "alone":
            assert "0123456789abcdef" not in browser.js("return document.getElementById('%s').href" % link)


def test_address_says_all(page, filled):
    begin = filled.now // WINDOW * WINDOW
    browser = page("?service=web&from=%d&to=%d&base-from=%d&base-to=%d" % (
        begin - 900, begin, begin - 1800, begin - 900))
    assert in_frame(browser, "return document.querySelector('#width:not([hidden])')")
    functions = in_frame(browser, FUNCTIONS)
    assert {"slow", "fast"} <= set(functions)
    assert "compared with" in browser.text("#when")
    assert browser.js("return document.querySelector('#base').value") == "custom"
    assert browser.shown("#base-from") and browser.shown("#from")
    # What it is compared with can be chosen, too.
    browser.js("const b = document.querySelector('#base'); b.value = '1d';"
               "b.dispatchEvent(new Event('change'))")
    browser.wait("return document.querySelector('#nothing').textContent.includes('compared with')")


def test_choose_what_is_counted(page):
    """The frame is asked for the event, the address says which, and who follows it asks for the same."""
    browser = page("?service=web")
    browser.wait("return document.querySelector('#stage iframe') !== null")
    assert browser.shown("#value")
    assert browser.js("return [...document.querySelectorAll('#value option')].map((o) => o.value).join()") == \
        "cpu-clock,page-faults"
    browser.js("const v = document.querySelector('#value'); v.value = 'cpu-clock';"
               "v.dispatchEvent(new Event('change'))")
    browser.wait("return document.querySelector('#stage iframe').src.includes('value=cpu-clock')")
    address = browser.js("return location.search")
    assert "value=cpu-clock" in address
    browser = page(address)
    browser.wait("return document.querySelector('#stage iframe')?.src.includes('value=cpu-clock')")


def test_drag_for_a_part(page, filled):
    begin = filled.now // WINDOW * WINDOW
    browser = page("?service=web&from=%d&to=%d" % (begin - 1800, begin))
    in_frame(browser, FUNCTIONS)
    x, y, width = browser.js("const r = document.querySelector('#series').getBoundingClientRect();"
                             "return [r.left, r.top + r.height / 2, r.width]")
    actions = [{"type": "pointerMove", "duration": 0, "x": round(x + 2), "y": round(y)},
               {"type": "pointerDown", "button": 0},
               {"type": "pointerMove", "duration": 0, "x": round(x + 0.4 * width), "y": round(y)},
               {"type": "pointerUp", "button": 0}]
    browser.post("/actions", actions=[{"type": "pointer", "id": "mouse", "actions": actions}])
    assert "slow" not in in_frame(browser, FUNCTIONS, "q.get('to') - q.get('from') < 800")
    assert browser.js("return document.querySelector('#custom').hidden") is False


def test_keys(page):
    browser = page()
    browser.press("/")
    browser.press(*"worker")
    assert names(browser) == ["worker <b>"]
    browser.press("ArrowDown")
    browser.wait("return document.querySelector('#service').textContent === 'worker <b>'")
    assert "job" in in_frame(browser, FUNCTIONS, "q.get('service') === 'worker <b>'")
    browser.press("Escape")
    assert len(names(browser)) == 3
    assert browser.js("return document.activeElement.id") == "services"
    browser.press("ArrowUp")
    browser.wait("return document.querySelector('#service').textContent === 'web'")
    browser.press("4")
    browser.wait("return location.search.includes('range=24h')")
    dark = browser.js("return document.documentElement.dataset.theme") == "dark"
    browser.press("t")
    want = "light" if dark else "dark"
    assert browser.js("return document.documentElement.dataset.theme") == want
    assert in_frame(browser, "return document.documentElement.dataset.theme",
                    "u.hash === '#%s'" % want) == want
    browser.press("?")
    assert browser.shown("#keys")
    browser.press("Escape")


def test_names_stay_text(page):
    browser = page("?" + urllib.parse.urlencode({"service": HOSTILE}))
    functions = in_frame(browser, FUNCTIONS)
    assert HOSTILE in functions
    assert browser.text("#service") == HOSTILE
    assert browser.js("return document.querySelectorAll('body img, body b img').length") == 0
    assert browser.js("return document.title").startswith(HOSTILE)
    assert in_frame(browser, "return document.title") != "hit"


def test_frame_cannot_reach_out(page):
    """The flame graph, should it ever run foreign script, has no access to the page or the agent."""
    browser = page("?service=web")
    in_frame(browser, FUNCTIONS)
    reached = """
        try { return "read " + parent.document.title } catch (e) { return e.name }"""
    assert in_frame(browser, reached) == "SecurityError"
    assert in_frame(browser, "return self.origin") == "null"


def test_dark(page):
    browser = page("?service=web")
    for dark in True, False:
        browser.dark(dark)
        want = "dark" if dark else "light"
        browser.wait("return document.documentElement.dataset.theme === '%s'" % want)
        assert in_frame(browser, "return document.documentElement.dataset.theme",
                        "u.hash === '#%s'" % want) == want
