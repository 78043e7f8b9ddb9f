// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The agent's page: services, a time range, and the flame graph of both in a frame. What is shown is in
// the address: service or all=1 (the whole host), range (15m, 1h, 6h, 24h) or from and to, base (before, 1h, 1d, 7d) or base-from and base-to,
// value (the event whose flame graph it is; without it the agent's first).
// Times are seconds since 1970. All that it knows it asks for: api/services, api/labels, and flame for the frame.
//
// Names are foreign text: they become text nodes and attributes, never markup.
"use strict";

(() => {
  const RANGES = { __proto__: null, "15m": 900, "1h": 3600, "6h": 21600, "24h": 86400 };
  const EARLIER = { __proto__: null, "1h": 3600, "1d": 86400, "7d": 604800 };
  const DEFAULT_RANGE = "1h";
  const LIST_BUCKETS = 40, SERIES_BUCKETS = 120;
  const UPDATE_MS = 30000;
  const APART = "threads=1"; // what makes the flame graph keep processes apart, which are services then
  const SVG = "http://www.w3.org/2000/svg";

  const $ = (id) => document.getElementById(id);

  // What the address says.
  const state = { service: "", all: false, range: DEFAULT_RANGE, from: 0, to: 0, base: "", baseFrom: 0, baseTo: 0,
    value: "" };
  // What was asked for with it: [from, to) is fixed until the next refresh, so that all parts show the same.
  // asked and listed number what was asked for, of the service and of the list: an answer to an older question is none.
  // since: where the picture of samples over time begins, with the first that there are of any service; empty: the steps
  // before them in the list, which goes on with the time.
  const shown = { from: 0, to: 0, since: 0, empty: 0, drawn: 0, services: [], framed: "", asked: 0, listed: 0, busy: 0 };

  // ---- the address -------------------------------------------------------------------------------

  function readAddress() {
    const q = new URLSearchParams(location.search);
    const time = (name) => {
      const n = Number(q.get(name));
      return Number.isFinite(n) && n > 0 ? Math.floor(n) : 0;
    };
    const all = q.get("all") === "1";
    Object.assign(state, { all, service: all ? "" : q.get("service") || "", value: q.get("value") || "", from: time("from"), to: time("to"),
      base: q.get("base") || "", baseFrom: time("base-from"), baseTo: time("base-to") });
    state.range = q.get("range") in RANGES ? q.get("range") : DEFAULT_RANGE;
    if (state.from && state.to > state.from)
      state.range = "custom";
    if (state.baseFrom && state.baseTo > state.baseFrom)
      state.base = "custom";
    else if (!(state.base in EARLIER) && state.base !== "before")
      state.base = "";
  }

  function address() {
    const q = new URLSearchParams();
    if (state.all)
      q.set("all", "1");
    else if (state.service)
      q.set("service", state.service);
    if (state.range === "custom") {
      q.set("from", state.from);
      q.set("to", state.to);
    } else {
      q.set("range", state.range);
    }
    if (state.base === "custom") {
      q.set("base-from", state.baseFrom);
      q.set("base-to", state.baseTo);
    } else if (state.base) {
      q.set("base", state.base);
    }
    if (state.value)
      q.set("value", state.value);
    return "?" + q;
  }

  function go(change, push = true) {
    Object.assign(state, change);
    history[push ? "pushState" : "replaceState"](null, "", address());
    showControls();
    const same = !("range" in change || "from" in change);
    return same ? showService() : refresh();
  }

  // [from, to) of what it is compared with, or null.
  function baseRange() {
    const span = shown.to - shown.from;
    if (!state.base)
      return null;
    if (state.base === "custom")
      return [state.baseFrom, state.baseTo];
    const back = state.base === "before" ? span : EARLIER[state.base];
    return [shown.from - back, shown.to - back];
  }

  // ---- asking ------------------------------------------------------------------------------------

  // Without the token that a link to the page may hold: fetch() takes no address with one, and the browser has it.
  function path(name, args) {
    const url = new URL(name + "?" + new URLSearchParams(args), location.href);
    url.username = url.password = "";
    return url.href;
  }

  async function ask(name, args) {
    const answer = await fetch(path(name, args), { headers: { Accept: "application/json" } });
    if (!answer.ok)
      throw new Error((await answer.text()).trim().slice(0, 300) || answer.statusText);
    return answer.json();
  }

  function say(text, bad) {
    $("headline").textContent = text;
    $("headline").classList.toggle("bad", Boolean(bad));
  }

  // ---- small things ------------------------------------------------------------------------------

  const number = new Intl.NumberFormat("en");
  const pad = (n) => String(n).padStart(2, "0");

  function dayOf(s) {
    const d = new Date(s * 1000);
    return d.getFullYear() + "-" + pad(d.getMonth() + 1) + "-" + pad(d.getDate());
  }

  function clockOf(s) {
    const d = new Date(s * 1000);
    return pad(d.getHours()) + ":" + pad(d.getMinutes()) + ":" + pad(d.getSeconds());
  }

  function rangeText(from, to) {
    const end = dayOf(from) === dayOf(to) ? clockOf(to) : dayOf(to) + " " + clockOf(to);
    return dayOf(from) + " " + clockOf(from) + " to " + end;
  }

  const toInput = (s) => dayOf(s) + "T" + clockOf(s);
  const fromInput = (text) => Math.floor(new Date(text).getTime() / 1000);

  function element(name, className, text) {
    const e = document.createElement(name);
    if (className)
      e.className = className;
    if (text !== undefined)
      e.textContent = text;
    return e;
  }

  function svg(name, attributes) {
    const e = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes))
      e.setAttribute(key, value);
    return e;
  }

  // What is before the first sample of any service says nothing of this one.
  const sinceFirst = (series, step) => series.slice(Math.floor((shown.since - shown.from) / step));

  function sparkline(series) {
    const most = Math.max(1, ...series);
    const at = (n, i) => (i + " " + (20 - 20 * n / most).toFixed(1) + " H" + (i + 1));
    const picture = svg("svg", { viewBox: "0 0 " + series.length + " 20",
      preserveAspectRatio: "none", "aria-hidden": "true" });
    const line = series.map((n, i) => "L" + at(n, i)).join("");
    picture.append(svg("path", { d: "M0 20" + line + "V20Z" }));
    return picture;
  }

  // ---- the list ----------------------------------------------------------------------------------

  function matching() {
    const want = $("filter").value.trim().toLowerCase();
    return shown.services.filter((s) => s.name.toLowerCase().includes(want));
  }

  function row(service, i, all) {
    const li = element("li");
    const facts = element("div", "facts");
    const share = all ? (100 * service.samples / all).toFixed(1) + "%" : "";
    li.id = "service-" + i;
    li.setAttribute("role", "option");
    li.setAttribute("aria-selected", service.name === state.service);
    li.title = number.format(service.samples) + " samples in " +
      number.format(service.windows) + " windows";
    facts.append(element("span", "", number.format(service.samples)), sparkline(service.series.slice(shown.empty)),
      element("span", "", share));
    li.append(element("div", "name", service.name), facts);
    li.addEventListener("click", () => go({ service: service.name, all: false }));
    return li;
  }

  function showList() {
    const list = matching();
    const all = shown.services.reduce((sum, s) => sum + s.samples, 0);
    $("all").setAttribute("aria-pressed", state.all);
    $("services").replaceChildren(...list.map((s, i) => row(s, i, all)));
    const at = list.findIndex((s) => s.name === state.service);
    if (at >= 0) {
      $("services").setAttribute("aria-activedescendant", "service-" + at);
      $("service-" + at).scrollIntoView({ block: "nearest" });
    } else {
      $("services").removeAttribute("aria-activedescendant");
    }
    $("few").hidden = list.length > 0;
    $("few").textContent = shown.services.length ? "No service has this in its name." :
      "Nothing was stored at that time.";
  }

  function step(by) {
    const list = matching();
    const at = list.findIndex((s) => s.name === state.service);
    const next = list[at < 0 ? 0 : Math.max(0, Math.min(list.length - 1, at + by))];
    if (next && next.name !== state.service)
      go({ service: next.name, all: false }, false);
  }

  // ---- the service -------------------------------------------------------------------------------

  // A step is a unit of the picture's width; the last one may be cut.
  function showSeries(whole, step) {
    const series = sinceFirst(whole, step), from = shown.from + (whole.length - series.length) * step;
    const wide = (shown.to - from) / step;
    const most = Math.max(1, ...series);
    const picture = $("series");
    const title = svg("title", {});
    shown.drawn = from;
    title.textContent = "Samples of " + (state.all ? "all services" : "the service") + " from " + rangeText(from, shown.to) +
      "; drag for a part of it";
    picture.setAttribute("viewBox", "0 0 " + wide + " 40");
    picture.replaceChildren(title, svg("rect", { class: "back", width: wide, height: 40 }));
    series.forEach((n, i) => {
      if (n)
        picture.append(svg("rect", { x: i + 0.08, width: 0.84, y: 40 - 38 * n / most,
          height: 38 * n / most }));
    });
  }

  function showLabels(labels) {
    $("labels").replaceChildren(...labels.filter((l) => l.name !== "service_name").map((l) => {
      const li = element("li", "", l.name + "=");
      li.append(element("b", "", l.value));
      li.title = l.name + "=" + l.value;
      return li;
    }));
  }

  // A new element each time: to change the address of a frame would be a step in the history.
  function showFrame(address) {
    const theme = document.documentElement.dataset.theme;
    if (shown.framed === address)
      return;
    shown.framed = address;
    if (!address) {
      $("stage").replaceChildren();
      return;
    }
    const frame = element("iframe");
    frame.setAttribute("sandbox", "allow-scripts allow-downloads");
    frame.title = "Flame graph of " + titleOf();
    frame.src = address + "#" + theme + (state.all ? "&" + APART : "");
    $("stage").replaceChildren(frame);
  }

  function showNothing(text) {
    $("nothing").textContent = text;
    $("nothing").hidden = !text;
  }

  const titleOf = () => state.all ? "the whole host" : state.service;

  // All services, or the one that is asked for, in one series; null: nothing was stored.
  function addUp(services) {
    const found = services.filter((s) => s.samples);
    return found.length ? found[0].series.map((_, i) => found.reduce((sum, s) => sum + s.series[i], 0)) : null;
  }

  async function showService() {
    const asked = ++shown.asked;
    const who = state.all ? {} : { service: state.service };
    const times = { from: shown.from, to: shown.to };
    const range = { ...(state.all ? { all: 1 } : who), ...times };
    const base = baseRange();
    showList();
    const chosen = state.all || state.service;
    document.title = (chosen ? titleOf() + " on " : "") + document.querySelector("h1").textContent;
    $("chosen").hidden = !chosen;
    if (!chosen) {
      showFrame("");
      showNothing(shown.services.length ? "Choose a service." : "");
      return;
    }
    $("service").textContent = state.all ? "Whole host" : state.service;
    $("when").textContent = rangeText(shown.from, shown.to) +
      (base ? ", compared with " + rangeText(base[0], base[1]) : "");
    $("pprof").href = path("api/profile", range);
    if (state.value)
      range.value = state.value;
    if (base)
      Object.assign(range, { "base-from": base[0], "base-to": base[1] });
    const flame = path("flame", range);
    $("alone").href = flame + (state.all ? "#" + APART : "");
    try {
      // Of the base, one number will do: whether there is something.
      const [mine, labels, theirs] = await Promise.all([
        ask("api/services", { ...who, ...times, buckets: SERIES_BUCKETS }),
        state.all ? { labels: [] } : ask("api/labels", { ...who, ...times }),
        base && ask("api/services", { ...who, from: base[0], to: base[1], buckets: 1 })]);
      if (asked !== shown.asked)
        return;
      const series = addUp(mine.services);
      showSeries(series || [], mine.step);
      showLabels(labels.labels);
      const what = state.all ? "Nothing was stored" : "Nothing was stored of this service";
      const missing = !series ? what + " at that time." :
        theirs && !addUp(theirs.services) ? what + " at the time that it is compared with." : "";
      showNothing(missing);
      showFrame(missing ? "" : flame);
    } catch (error) {
      if (asked === shown.asked)
        say(error.message, true);
    }
  }

  // What the agent counts; nothing to choose where that is one event. The address may name one of another time.
  function showValues(names) {
    const all = state.value && !names.includes(state.value) ? [...names, state.value] : names;
    $("values").hidden = all.length < 2;
    $("value").replaceChildren(...all.map((name) => {
      const option = element("option", "", name);
      option.value = name;
      return option;
    }));
    $("value").value = state.value || all[0] || "";
  }

  function rangeNow() {
    const now = Math.floor(Date.now() / 1000) + 1;
    return state.range === "custom" ? [state.from, state.to] : [now - RANGES[state.range], now];
  }

  // The page begins with the service that has most samples.
  function begin(service) {
    state.service = service;
    history.replaceState(null, "", address());
  }

  // The list, and then what is chosen. `quiet` leaves that alone, as its picture may be looked at.
  async function refresh(quiet) {
    const [from, to] = rangeNow();
    const listed = ++shown.listed;
    if (!quiet)
      Object.assign(shown, { from, to, asked: shown.asked + 1 });
    shown.busy += 1;
    try {
      const all = await ask("api/services", { from, to, buckets: LIST_BUCKETS });
      if (listed !== shown.listed)
        return null;
      const sum = all.services.reduce((n, s) => n + s.samples, 0);
      const first = Math.min(...all.services.map((s) => s.series.findIndex(Boolean)).filter((i) => i >= 0));
      shown.services = all.services;
      shown.empty = Number.isFinite(first) ? first : 0;
      if (!quiet)
        shown.since = from + shown.empty * all.step;
      if (!quiet && !state.service && !state.all && all.services.length)
        begin(all.services[0].name);
      showValues(all.values);
      say(number.format(all.services.length) + (all.more ? " or more" : "") +
        (all.services.length === 1 ? " service, " : " services, ") + number.format(sum) + " samples");
    } catch (error) {
      if (listed !== shown.listed)
        return null;
      shown.services = [];
      say(error.message, true);
    } finally {
      shown.busy -= 1;
    }
    return quiet ? showList() : showService();
  }

  // ---- controls ----------------------------------------------------------------------------------

  function showControls() {
    for (const button of $("ranges").children)
      button.setAttribute("aria-pressed", button.dataset.range === state.range);
    $("custom").hidden = state.range !== "custom";
    $("base-custom").hidden = state.base !== "custom";
    $("base").value = state.base;
    if (state.range === "custom") {
      $("from").value = toInput(state.from);
      $("to").value = toInput(state.to);
    }
    if (state.base === "custom") {
      $("base-from").value = toInput(state.baseFrom);
      $("base-to").value = toInput(state.baseTo);
    }
  }

  function chooseRange(range) {
    if (range === "custom")
      go({ range, from: shown.from, to: shown.to });
    else
      go({ range, from: 0, to: 0 });
  }

  function chooseBase(base) {
    const [baseFrom, baseTo] = baseRange() ||
      [shown.from - (shown.to - shown.from), shown.from];
    go(base === "custom" ? { base, baseFrom, baseTo } : { base, baseFrom: 0, baseTo: 0 });
  }

  function setTheme(theme) {
    document.documentElement.dataset.theme = theme;
    shown.framed = "";
    showService();
  }

  // A part of the series is chosen by dragging over it.
  function dragged() {
    const picture = $("series");
    let start = null, mark = null;
    const place = (e) => {
      const box = picture.getBoundingClientRect();
      return Math.max(0, Math.min(1, (e.clientX - box.left) / box.width));
    };
    const draw = (e) => {
      const [a, b] = [start, place(e)].sort((x, y) => x - y);
      const width = picture.viewBox.baseVal.width;
      mark.setAttribute("x", a * width);
      mark.setAttribute("width", (b - a) * width);
      return [a, b];
    };
    picture.addEventListener("pointerdown", (e) => {
      start = place(e);
      mark = svg("rect", { class: "drag", y: 0, height: 40, width: 0 });
      picture.append(mark);
      picture.setPointerCapture(e.pointerId);
    });
    picture.addEventListener("pointermove", (e) => mark && draw(e));
    picture.addEventListener("pointercancel", () => {
      mark?.remove();
      mark = null;
    });
    picture.addEventListener("pointerup", (e) => {
      if (!mark)
        return;
      const [a, b] = draw(e);
      const at = (share) => Math.round(shown.drawn + share * (shown.to - shown.drawn));
      mark.remove();
      mark = null;
      if (at(b) > at(a))
        go({ range: "custom", from: at(a), to: at(b) });
    });
  }

  function onForm(form, from, to, apply) {
    $(form).addEventListener("submit", (e) => {
      const range = [fromInput($(from).value), fromInput($(to).value)];
      e.preventDefault();
      if (range[1] > range[0])
        apply(...range);
      else
        say("from has to be before to", true);
    });
  }

  const actions = {
    a: () => go({ service: "", all: true }),
    "/": () => $("filter").focus(),
    c: () => $("base").focus(),
    v: () => $("value").focus(),
    r: () => refresh(),
    t: () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"),
    "?": () => $("keys").showModal(),
  };

  function onKey(e) {
    const typing = e.target.closest("input, select, dialog");
    if (e.ctrlKey || e.altKey || e.metaKey)
      return;
    if (e.target === $("filter") && e.key === "Escape") {
      $("filter").value = "";
      showList();
      $("services").focus();
    }
    if ((e.key === "ArrowDown" || e.key === "ArrowUp") &&
        (e.target === $("filter") || e.target === $("services"))) {
      step(e.key === "ArrowDown" ? 1 : -1);
      e.preventDefault();
    } else if (!typing && "12345".includes(e.key)) {
      $("ranges").children[Number(e.key) - 1].click();
    } else if (!typing && actions[e.key]) {
      actions[e.key]();
      e.preventDefault();
    }
  }

  // ---- begin -------------------------------------------------------------------------------------

  const dark = matchMedia("(prefers-color-scheme: dark)");
  document.documentElement.dataset.theme = dark.matches ? "dark" : "light";
  dark.addEventListener("change", () => setTheme(dark.matches ? "dark" : "light"));
  for (const button of $("ranges").children)
    button.addEventListener("click", () => chooseRange(button.dataset.range));
  $("base").addEventListener("change", () => chooseBase($("base").value));
  $("value").addEventListener("change", () => go({ value: $("value").value }));
  onForm("custom", "from", "to", (from, to) => go({ range: "custom", from, to }));
  onForm("base-custom", "base-from", "base-to", (baseFrom, baseTo) => go({ base: "custom", baseFrom, baseTo }));
  $("filter").addEventListener("input", showList);
  $("all").addEventListener("click", actions.a);
  $("refresh").addEventListener("click", () => refresh());
  $("theme").addEventListener("click", actions.t);
  $("help").addEventListener("click", actions["?"]);
  document.addEventListener("keydown", onKey);
  dragged();
  window.addEventListener("popstate", () => {
    readAddress();
    showControls();
    refresh();
  });
  setInterval(() => {
    if (!document.hidden && state.range !== "custom" && !shown.busy)
      refresh(true);
  }, UPDATE_MS);
  readAddress();
  showControls();
  refresh();
})();
