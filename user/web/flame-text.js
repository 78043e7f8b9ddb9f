// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Numbers, texts and colours: how a function, an amount or a change is written and painted. Keeps nothing but a cache
// of colours, which belong to one theme.
"use strict";

// ---- numbers and texts -------------------------------------------------------------------------

const count = (n) => Math.round(n).toLocaleString("en-US");

function percent(part, whole) {
  const share = whole ? 100 * part / whole : 0;
  return share > 0 && share < 0.05 ? "<0.1%" : share.toFixed(1) + "%";
}

// "825 samples, 8.33 s", "3 page faults", "2.35 s waiting", "5.34 ms waiting"
function amount(n) {
  const s = n / data.hz, text = count(n) + " " + (n === 1 ? data.one : data.many);
  if (data.seconds)
    return (s && Math.abs(s) < 0.1 ? (1000 * s).toPrecision(3) + " m" : s.toFixed(2) + " ") + data.seconds.trim();
  return data.hz ? text + ", " + s.toFixed(2) + " s" : text;
}

function placeText(func, line) {
  const file = fileOf(func);
  return file && line ? file + ":" + line : file;
}

const KIND_LINES = { [NATIVE]: 1, [KERNEL]: 2 };
const KIND_TEXT = { [PYTHON]: "Python", [NATIVE]: "native", [KERNEL]: "kernel", [PLAIN]: "kind not known" };

function kindText(func) {
  const kind = funcs.kind[func];
  return kind === MARKER ? "the stack ends early here" : groups[funcs.group[func]] + " \u00b7 " + KIND_TEXT[kind];
}

function element(tag, text, attributes = {}) {
  const e = document.createElement(tag);
  if (text)
    e.textContent = text;
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "className")
      e.className = value;
    else
      e.setAttribute(name, value);
  }
  return e;
}

function append(parent, ...children) {
  parent.append(...children);
  return parent;
}

// ---- colours -----------------------------------------------------------------------------------

// Oklch -> "rgb(...)": equal steps look equal, so any text on any box has the same contrast.
// Björn Ottosson, "A perceptual color space for image processing", 2020.
function oklch(l, c, h) {
  const a = c * Math.cos(h * Math.PI / 180), b = c * Math.sin(h * Math.PI / 180);
  const x = (l + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const y = (l - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const z = (l - 0.0894841775 * a - 1.2914855480 * b) ** 3;
  const rgb = [
    4.0767416621 * x - 3.3077115913 * y + 0.2309699292 * z,
    -1.2684380046 * x + 2.6097574011 * y - 0.3413193965 * z,
    -0.0041960863 * x - 0.7034186147 * y + 1.7076147010 * z,
  ].map((v) => {
    const u = Math.min(Math.max(v, 0), 1);
    return Math.round(255 * (u <= 0.0031308 ? 12.92 * u : 1.055 * u ** (1 / 2.4) - 0.055));
  });
  return "rgb(" + rgb.join(",") + ")";
}

// Of the packages, heaviest first. Amber is for own code, which is stronger, too; violet for matches, red for the
// kernel. user/export/export_svg.c has the same colours, made by this.
const HUES = [235, 345, 195, 95, 270, 330, 175, 120, 215];
const OWN_HUE = 60;
const INK = {
  light: { text: "#17191d", dim: "#4a4f59", back: "#ffffff", fade: "#f1f1f3", faded: "#5c626d", edge: "#17191d" },
  dark: { text: "#f4f5f7", dim: "#c5cad3", back: "#1b1e23", fade: "#262a30", faded: "#a0a6b1", edge: "#ffffff" },
};
const colourCache = new Map();

// `shade` -1, 0, 1: neighbours differ a little.
function tone(l, c, h, shade) {
  const dark = view.theme === "dark";
  return oklch((dark ? 1.33 - l : l) + 0.014 * shade, dark ? c * 0.95 : c, h);
}

const hueOf = (group) => (group - (data.stdlib >= 0 && group > data.stdlib ? 1 : 0)) % HUES.length;

function kindColour(kind, group, shade, own = false) {
  switch (kind) {
    case PYTHON:
    case PLAIN: return own ? tone(0.8, 0.145, OWN_HUE, shade)
      : group === data.stdlib ? tone(0.9, 0.045, 150, shade) : tone(0.87, 0.08, HUES[hueOf(group)], shade);
    case NATIVE: return tone(0.865, 0.028, 255, shade);
    case PLUMBING: return tone(0.91, 0.006, 255, shade);
    case KERNEL: return tone(0.82, 0.085, 18, shade);
    default: return tone(0.8, 0.012, 95, shade);
  }
}

function deltaColour(d) {
  if (!d)
    return tone(0.9, 0.004, 255, 0);
  return tone(0.91 - 0.14 * Math.abs(d), 0.03 + 0.12 * Math.abs(d), d > 0 ? 25 : 250, 0);
}

function cached(key, make) {
  if (!colourCache.has(key))
    colourCache.set(key, make());
  return colourCache.get(key);
}

function colourOf(func) {
  const shade = func * 7 % 3 - 1;
  const kind = funcs.plumbing[func] ? PLUMBING : funcs.kind[func];
  const group = isPython(kind) ? funcs.group[func] : 0, own = funcs.own[func] > 0;
  return cached(kind + "/" + group + "/" + own + "/" + shade, () => kindColour(kind, group, shade, own));
}

// Of boxes that are no function.
const chainColour = () => cached("chain", () => tone(0.93, 0.004, 255, 0));

function nodeColour(node) {
  if (funcOfNode(node) < 0)
    return chainColour();
  if (!compared)
    return colourOf(funcOfNode(node));
  const d = Math.round(10 * delta(node.value, node.base)) / 10;
  return cached("d" + d, () => deltaColour(d));
}

const matchColour = () => cached("match", () => tone(0.76, 0.16, 308, 0));
