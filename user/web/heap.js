// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The page of a heap that was read several times. It draws what user/cmd/heap_page.c wrote into the element #heap, and
// loads nothing. Names are foreign text: they become text nodes, never markup.
"use strict";

(() => {
  const LINES = 8; // types with a line
  const SVG = "http://www.w3.org/2000/svg";
  const $ = (id) => document.getElementById(id);
  const { when, types } = JSON.parse($("heap").textContent);
  const last = when.length - 1;
  let point = last;

  const seconds = (ms) => (ms / 1000).toFixed(1) + " s";
  const signed = (n, text) => (n < 0 ? "\u2212" : "+") + text;
  const count = (n) => Math.round(n).toLocaleString("en-US");

  function bytes(n) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let i = 0;
    for (; Math.abs(n) >= 1024 && i < units.length - 1; i++)
      n /= 1024;
    return n.toFixed(i ? 1 : 0) + " " + units[i];
  }

  const change = (list, i) => list[i] - list[0];

  function element(tag, text, className = "") {
    const e = document.createElement(tag);
    e.textContent = text;
    e.className = className;
    return e;
  }

  function shape(tag, attributes) {
    const e = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes))
      e.setAttribute(name, value);
    return e;
  }

  const x = (i) => 1000 * when[i] / Math.max(when[last], 1);

  function draw() {
    const drawn = types.slice(0, LINES), all = drawn.flatMap((t) => t.bytes.map((_, i) => change(t.bytes, i)));
    const top = Math.max(...all, 1), low = Math.min(...all, 0);
    const y = (v) => 4 + 92 * (top - v) / (top - low);
    $("curves").replaceChildren(
      shape("line", { x1: 0, x2: 1000, y1: y(0), y2: y(0) }),
      shape("line", { x1: x(point), x2: x(point), y1: 0, y2: 100, class: "now" }),
      ...drawn.map((t, k) => shape("polyline", { class: "c" + k,
        points: when.map((_, i) => x(i).toFixed(1) + "," + y(change(t.bytes, i)).toFixed(2)).join(" ") })));
    $("curves").setAttribute("aria-label", "Change of bytes over " + seconds(when[last]) +
      drawn.map((t) => ", " + t.name + " " + signed(change(t.bytes, last), bytes(Math.abs(change(t.bytes, last))))).join(""));
    $("most").textContent = signed(top, bytes(top));
    $("least").textContent = low < 0 ? signed(low, bytes(-low)) : "";
  }

  function row(t, k) {
    const tr = element("tr", "", t.sure ? "sure" : "");
    const name = element("td", ""), by = change(t.count, point), more = change(t.bytes, point);
    if (k < LINES)
      name.append(element("i", "", "c" + k));
    name.append(t.name);
    tr.append(name, element("td", count(t.count[point]), "number"), element("td", signed(by, count(Math.abs(by))), "number"),
      element("td", bytes(t.bytes[point]), "number"), element("td", signed(more, bytes(Math.abs(more))), "number"),
      element("td", signed(t.rate, count(Math.abs(t.rate))) + " \u00b1 " + count(t.error), "number"));
    return tr;
  }

  function show(i) {
    point = Math.min(Math.max(i, 0), last);
    const text = "Reading " + (point + 1) + " of " + when.length + ", after " + seconds(when[point]);
    $("moment").value = point;
    $("moment").setAttribute("aria-valuetext", text);
    $("when").textContent = text;
    document.querySelector("#types tbody").replaceChildren(...types.map(row));
    draw();
  }

  function setTheme(theme) {
    document.documentElement.dataset.theme = theme;
  }

  const toggleTheme = () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", () => setTheme(dark.matches ? "dark" : "light"));
  setTheme(dark.matches ? "dark" : "light");
  $("theme").addEventListener("click", toggleTheme);
  document.addEventListener("keydown", (event) => {
    if (event.key === "t" && !event.ctrlKey && !event.metaKey && !event.altKey)
      toggleTheme();
  });
  $("moment").max = last;
  $("moment").addEventListener("input", () => show(Number($("moment").value)));
  $("curves").addEventListener("click", (event) => {
    const box = $("curves").getBoundingClientRect(), at = when[last] * (event.clientX - box.left) / box.width;
    show(when.reduce((best, ms, i) => Math.abs(ms - at) < Math.abs(when[best] - at) ? i : best, 0));
  });
  show(last);
})();
