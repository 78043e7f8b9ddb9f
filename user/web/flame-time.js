// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Memory over time, of a profile that has it (`curves`): the areas above the picture, and the moment that the picture
// shows.
"use strict";

const AREAS = 7; // functions with a colour of their own
const SVG = "http://www.w3.org/2000/svg";

const seconds = (ms) => (ms / 1000).toFixed(1) + " s";

function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; Math.abs(n) >= 1024 && i < units.length - 1; i++)
    n /= 1024;
  return n.toFixed(i ? 1 : 0) + " " + units[i];
}

// The function that a stack counts for: the innermost of own code, else of Python, else of all.
function ownerOf(stack) {
  let python = -1;
  for (let at = stacks.offset[stack + 1] - 1; at >= stacks.offset[stack]; at--) {
    const func = placeFunc[stacks.elems[at]];
    if (funcs.own[func])
      return func;
    if (python < 0 && isPython(funcs.kind[func]))
      python = func;
  }
  const last = stacks.offset[stack + 1] - 1;
  return python >= 0 || last < stacks.offset[stack] ? python : placeFunc[stacks.elems[last]];
}

// By function, those that had most first; the others as one, which has the function -1.
function sumAreas() {
  const sums = new Map(), n = curves.cnt;
  for (let s = 0; s < stacks.cnt; s++) {
    if (!inTask(s))
      continue;
    const func = ownerOf(s);
    if (!sums.has(func))
      sums.set(func, { func, values: new Float64Array(n), most: 0 });
    const values = sums.get(func).values;
    for (let i = 0; i < n; i++)
      values[i] += curves.values[s * n + i];
  }
  for (const area of sums.values())
    area.most = Math.max(...area.values);
  const order = [...sums.values()].sort((a, b) => b.most - a.most || a.func - b.func);
  const rest = { func: -1, values: new Float64Array(n), most: 0 };
  for (const area of order.splice(AREAS))
    area.values.forEach((v, i) => (rest.values[i] += v));
  rest.most = Math.max(...rest.values);
  return rest.most > 0 ? [...order, rest] : order;
}

const areaName = (area) => area.func < 0 ? "others" : nameOf(area.func);
const areaColour = (i, area) => area.func < 0 ? tone(0.8, 0.012, 95, 0) : tone(0.78, 0.115, HUES[i % HUES.length], 0);

function shape(tag, attributes) {
  const e = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes))
    e.setAttribute(name, value);
  return e;
}

const timeX = (i) => 1000 * curves.when[i] / Math.max(curves.when[curves.cnt - 1], 1);

// Areas on top of each other: of each point, what is below and with it.
function drawAreas(areas, top) {
  const below = new Float64Array(curves.cnt), y = (v) => (100 - 96 * v / top).toFixed(2);
  return areas.map((area, k) => {
    const low = [], high = [];
    for (let i = 0; i < curves.cnt; i++) {
      low.unshift(timeX(i).toFixed(1) + " " + y(below[i]));
      below[i] += area.values[i];
      high.push(timeX(i).toFixed(1) + " " + y(below[i]));
    }
    return shape("path", { d: "M" + high.concat(low).join("L") + "Z", fill: areaColour(k, area) });
  });
}

function areaChip(area, i) {
  const button = element("button", "", { type: "button", className: "chip", title: "Search for " + shorten(areaName(area), 80) });
  const dot = element("i");
  dot.style.background = areaColour(i, area);
  button.append(dot, shorten(areaName(area), 32), element("small", bytes(area.values[view.point])));
  button.disabled = area.func < 0;
  button.addEventListener("click", () => setSearch(view.search === nameOf(area.func) ? "" : nameOf(area.func)));
  return button;
}

function showTime() {
  if (!curves)
    return;
  const areas = sumAreas(), whole = new Float64Array(curves.cnt);
  for (const area of areas)
    area.values.forEach((v, i) => (whole[i] += v));
  const top = Math.max(...whole, 1), now = timeX(view.point), peak = timeX(curves.peak);
  $("curves").replaceChildren(...drawAreas(areas, top),
    shape("line", { x1: peak, x2: peak, y1: 0, y2: 100, class: "mark" }),
    shape("line", { x1: now, x2: now, y1: 0, y2: 100, class: "now" }));
  $("curves").setAttribute("aria-label", "Memory in use over " + seconds(curves.when[curves.cnt - 1]) + ": at most " + bytes(top) +
    areas.map((area) => ", " + areaName(area) + " " + bytes(area.most)).join(""));
  $("most").textContent = bytes(top);
  $("areas").replaceChildren(...areas.map(areaChip));
  const text = seconds(curves.when[view.point]) + ": " + bytes(whole[view.point]) + " in use, " + bytes(curves.rss[view.point]) + " resident";
  $("when").textContent = text;
  $("moment").value = view.point;
  $("moment").setAttribute("aria-valuetext", text);
}

function applyTime() {
  for (let s = 0; curves && s < stacks.cnt; s++)
    stacks.value[s] = curves.values[s * curves.cnt + view.point];
}

// The picture of another moment; the zoom stays as far as the frames are there.
function setTime(point) {
  const path = zoomTags();
  view.point = Math.min(Math.max(point, 0), curves.cnt - 1);
  applyTime();
  rebuild();
  zoomed = findNode(path);
  showAll();
  refresh();
  showGroups();
  writeAddress(false);
}

function listenToTime() {
  const onX = (event) => {
    const box = $("curves").getBoundingClientRect();
    setTime(nearestTo(curves.when, curves.when[curves.cnt - 1] * (event.clientX - box.left) / box.width));
  };
  $("time").hidden = false;
  document.body.classList.add("timed");
  $("moment").max = curves.cnt - 1;
  $("moment").addEventListener("input", () => setTime(Number($("moment").value)));
  $("curves").addEventListener("click", onX);
  $("atpeak").addEventListener("click", actions.b);
  $("atend").addEventListener("click", actions.e);
}
