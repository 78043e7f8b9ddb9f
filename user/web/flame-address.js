// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The fragment of the address: what is shown, so that a reload, Back and a copied link show it again.
"use strict";

// After the #, only what is not as at first:
//
//  theme  light, dark (of a page in a frame: just the word)
//  view  flame, table
//  by  callers
//  lines, all (frames), threads  1
//  of  the function of a sandwich, as a tag
//  hide  keys of KINDS
//  width  value, base
//  task  NAME.PID or NAME.PID.TID
//  search, regex, sort
//  time  milliseconds, of memory over time
//  value  of several value types the one that is shown
//  zoom  tags of the functions from the root to the frame in the first row
//
// A tag is a hash of what a person calls it, so a link fits another recording of the program as far as that has the
// same functions.
const framed = window.parent !== window; // the page around has the address
const PICTURES = ["icicle", "flame", "table"];
const HIDDEN_AT_FIRST = "i";

// FNV-1a
function tagOf(text) {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++)
    h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  return (h >>> 0).toString(36);
}

const tagOfFunc = (func) => tagOf(nameOf(func) + "\n" + fileOf(func));
const tagOfNode = (node) => tagOf(nodeName(node) + "\n" + fileOf(funcOfNode(node)));

function taskLink(value) {
  const t = Number(value.slice(2)), process = strings[tasks.comm[t]] + "." + tasks.pid[t];
  return value === "all" ? "" : value[0] === "p" ? process : process + "." + tasks.tid[t];
}

function stateText() {
  const q = new URLSearchParams(), put = (name, value) => value && q.set(name, value);
  put("theme", view.themed && view.theme);
  put("view", view.picture !== "icicle" && view.picture);
  put("by", view.inverted && "callers");
  put("lines", view.byLine && "1");
  put("all", !view.chains && "1");
  put("threads", view.byTask && "1");
  put("of", view.middle >= 0 && tagOfFunc(view.middle));
  const hidden = KINDS.filter((k) => view.hidden.has(k.id)).map((k) => k.key).join("");
  put("hide", hidden !== HIDDEN_AT_FIRST && (hidden || "none"));
  put("width", view.width !== "both" && view.width);
  put("task", taskLink(view.task));
  put("search", view.search);
  put("regex", view.regex && "1");
  put("sort", view.sort !== "own" && view.sort);
  put("time", curves && view.point !== curves.cnt - 1 && String(curves.when[view.point]));
  put("value", shownValue && values[shownValue].dataset.value);
  put("zoom", zoomTags().join("."));
  return q.toString();
}

function zoomTags() {
  const path = [];
  for (let node = zoomed; node && node.parent; node = node.parent)
    path.unshift(tagOfNode(node));
  return path;
}

let written = ""; // what the address says

// `step`: Back undoes it.
function writeAddress(step = true) {
  const text = stateText();
  if (text === written)
    return;
  written = text;
  history[step && !framed ? "pushState" : "replaceState"](null, "", "#" + text);
}

function findNode(path) {
  let node = tree.root;
  for (const tag of path) {
    expand(node);
    const child = node.children.find((c) => tagOfNode(c) === tag);
    if (!child)
      break;
    node = child;
  }
  return node;
}

// Whatever the address says is one of what there is, or ignored.
function readAddress() {
  const q = new URLSearchParams(location.hash.slice(1));
  const oneOf = (list, name) => list.includes(q.get(name)) ? q.get(name) : list[0];
  const theme = q.has("dark") ? "dark" : q.has("light") ? "light" : oneOf(["", "light", "dark"], "theme");
  view.themed = theme !== "";
  view.theme = theme || (dark.matches ? "dark" : "light");
  view.picture = oneOf(PICTURES, "view");
  view.inverted = q.get("by") === "callers";
  view.byLine = q.has("lines") && !$("bylines").hidden;
  view.chains = !q.has("all");
  view.byTask = q.has("threads") && !$("bytask").hidden;
  view.middle = q.has("of") ? funcs.name.findIndex((_, func) => tagOfFunc(func) === q.get("of")) : -1;
  const hidden = q.get("hide") || HIDDEN_AT_FIRST;
  view.hidden = new Set(KINDS.filter((k) => hidden !== "none" && hidden.includes(k.key)).map((k) => k.id));
  view.width = compared ? oneOf(["both", "value", "base"], "width") : "both";
  const options = [...$("task").options].map((o) => o.value);
  view.task = options.find((value) => taskLink(value) === (q.get("task") || "")) || "all";
  view.search = (q.get("search") || "").slice(0, LABEL_CHARS);
  view.regex = q.has("regex");
  view.sort = oneOf(["own", "self", "total"], "sort");
  if (curves)
    view.point = q.has("time") ? nearestTo(curves.when, Number(q.get("time")) || 0) : curves.cnt - 1;
  $("task").value = view.task;
  $("width").value = view.width;
  $("search").value = view.search;
  return (q.get("zoom") || "").split(".");
}

// All as the address says it: at first, and after Back.
function followAddress() {
  if (valueOfAddress() !== shownValue) {
    location.reload();
    return;
  }
  const path = readAddress();
  applyTime();
  setTheme(view.theme);
  rebuild();
  showGroups();
  zoomed = findNode(path);
  if (sandwich)
    focused = sandwich.callees.root;
  showAll();
  refresh();
  written = stateText();
}
