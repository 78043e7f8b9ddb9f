// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The flame graph page. It draws what user/export/export_html.c wrote into the element #profile, and loads
// nothing. scripts/embed-page makes one script of its parts, flame-*.js, in the order of flame.html. They share
// one scope; only this one, the last, acts by itself. Here: changes of the view, and events.
"use strict";

const SLOW_SEARCH = 40; // milliseconds

// ---- changes of the view -----------------------------------------------------------------------

function pressed(id, value) {
  $(id).setAttribute("aria-pressed", String(value));
}

function showControls() {
  const isTable = view.picture === "table";
  for (const button of document.querySelectorAll("[data-view]"))
    button.setAttribute("aria-pressed", String(button.dataset.view === view.picture));
  pressed("invert", view.inverted);
  pressed("bylines", view.byLine);
  pressed("chains", view.chains);
  pressed("bytask", view.byTask);
  pressed("regex", view.regex);
  $("stage").hidden = isTable;
  $("table").hidden = !isTable;
  if (tree)
    showPath();
  showDetail();
  showKinds();
}

// Everything again, from the stacks; the zoom starts at the root.
function rebuild() {
  opened = new Set();
  applyHidden();
  buildTree();
  buildSandwich();
  zooms = [];
  zoomed = tree.root;
  focused = hovered = null;
  lens.from = 0;
  lens.to = 1;
  search();
  refresh();
}

// What a person changed, so that Back undoes it.
function change() {
  rebuild();
  writeAddress();
}

function refresh() {
  showControls();
  showTitle();
  showTime();
  $("tip").hidden = true;
  $("nothing").hidden = all.value > 0 || all.base > 0;
  if (view.picture === "table")
    showTable();
  refit();
}

// After the stage has another size.
function refit() {
  stale = true;
  wanted = focused || zoomed;
  redraw();
}

function setView(picture) {
  if (picture === "table" && sandwich) {
    view.middle = -1;
    sandwich = null;
    focused = null;
    showAll();
  }
  view.picture = picture;
  refresh();
  writeAddress();
}

function toggleKind(kind) {
  if (!view.hidden.delete(kind))
    view.hidden.add(kind);
  change();
  $("live").textContent = KINDS.find((k) => k.id === kind).text + (view.hidden.has(kind) ? " hidden" : " shown");
}

function setSearch(text) {
  view.search = text;
  $("search").value = text;
  search();
  writeAddress(false);
  stale = true; // a match is in no box of many frames
  if (view.picture === "table")
    showTable();
  redraw();
}

function setTheme(theme) {
  view.theme = theme;
  document.documentElement.dataset.theme = theme;
  colourCache.clear();
  showKinds();
  showGroups();
  if (tree)
    showTime();
  if (tree && view.picture === "table")
    showTable();
  showDetail();
  redraw();
}

function toggle(name) {
  view[name] = !view[name];
  change();
}

function toggleChains() {
  view.chains = !view.chains;
  opened = new Set();
  refresh();
  writeAddress();
}

// ---- events ------------------------------------------------------------------------------------

function nextMatch(by) {
  finishTyping();
  ensureLayout();
  const list = matchingNodes(), at = list.indexOf(focused);
  if (list.length)
    focus(list[at < 0 && by < 0 ? list.length - 1 : (at + by + list.length) % list.length]);
}

// A search that takes long waits until the typing pauses.
function onType() {
  clearTimeout(typing);
  typing = 0;
  if (searchTime < SLOW_SEARCH) {
    finishTyping();
    return;
  }
  document.documentElement.dataset.state = "moving";
  typing = setTimeout(finishTyping, 120);
}

function finishTyping() {
  clearTimeout(typing);
  typing = 0;
  if (view.search === $("search").value)
    return redraw();
  const began = performance.now();
  setSearch($("search").value);
  searchTime = performance.now() - began;
  return undefined;
}

function back() {
  if (sandwich)
    setMiddle(-1);
  else if (zoomed !== tree.root)
    zoom(zooms.pop() || tree.root, false);
  else if (view.search)
    setSearch("");
  else if (focused)
    focus(null);
}

// One function in the middle, what calls it above, what it calls below; -1: all again.
function setMiddle(func) {
  view.middle = func;
  if (view.picture === "table")
    view.picture = "icicle";
  buildSandwich();
  showAll();
  focused = sandwich ? sandwich.callees.root : null;
  hovered = null;
  refresh();
  writeAddress();
}

// The lens over all that the first row, or the function in the middle, has.
function showAll() {
  cancelAnimationFrame(moving);
  moving = 0;
  lens.from = sandwich ? 0 : zoomed.x;
  lens.to = sandwich ? 1 : zoomed.x + (zoomed.w || 1);
}

// Enter, or a click.
function enter(box) {
  if (box.chain) {
    openChain(box.chain);
    focus(box.node);
    return;
  }
  if (sandwich) {
    setMiddle(funcOfNode(box.node));
    return;
  }
  zoom(box.node);
  focus(box.node);
}

// The box of the function in the middle has two sides; of the callers, the middle is the inner one.
function nextBox(box, inwards) {
  const isCaller = box.node.tree === sandwich?.callers;
  if (inwards !== isCaller)
    return boxes.find((b) => b.outer === box);
  if (isCaller)
    return boxOf.get(box.outer.node) || boxOf.get(sandwich.callees.root);
  return sandwich && !box.outer ? boxes.find((b) => b.node.parent === sandwich.callers.root) : box.outer;
}

// To the box beside, outside or inside of the focused one. Outside of the first is the one that calls it.
function move(key) {
  ensureLayout();
  const box = boxOf.get(focused);
  if (!box) {
    focus(zoomed);
    return;
  }
  const inner = isFlame() ? "ArrowUp" : "ArrowDown", outer = isFlame() ? "ArrowDown" : "ArrowUp";
  const row = rows[box.row], beside = row[row.indexOf(box) + (key === "ArrowLeft" ? -1 : 1)];
  if (key === outer && !box.outer && box.node.parent) {
    zoom(box.node.parent, false);
    focus(zoomed);
  } else {
    focus(((key === inner || key === outer ? nextBox(box, key === inner) : beside) || box).node);
  }
}

const actions = {
  "/": () => {
    $("search").focus();
    $("search").select();
  },
  "?": () => $("keys").showModal(),
  Escape: back,
  v: () => toggle("inverted"),
  l: () => toggle("byLine"),
  d: () => $("bytask").hidden || toggle("byTask"),
  c: toggleChains,
  s: () => focused && funcOfNode(focused) >= 0 && setMiddle(funcOfNode(focused)),
  y: () => focused && copy(stackText(focused), "Stack"),
  b: () => curves && setTime(curves.peak),
  e: () => curves && setTime(curves.cnt - 1),
  o: () => setView(isFlame() ? "icicle" : "flame"),
  f: () => setView(view.picture === "table" ? "icicle" : "table"),
  t: () => {
    view.themed = true;
    setTheme(view.theme === "dark" ? "light" : "dark");
    writeAddress(false);
  },
};
for (const k of KINDS)
  actions[k.key] = () => toggleKind(k.id);

function onKey(event) {
  const typing = event.target.matches("input, select");
  if (event.ctrlKey || event.metaKey || event.altKey || typing || document.querySelector("dialog[open]"))
    return;
  if (event.target === canvas && event.key.startsWith("Arrow"))
    move(event.key);
  else if (event.target === canvas && event.key === "Enter" && boxOf.has(focused))
    enter(boxOf.get(focused));
  else if (Object.hasOwn(actions, event.key))
    actions[event.key]();
  else
    return;
  event.preventDefault();
}

function onSearchKey(event) {
  if (event.key === "Enter") {
    nextMatch(event.shiftKey ? -1 : 1);
  } else if (event.key === "Escape") {
    if (view.search)
      setSearch("");
    else
      canvas.focus();
  } else {
    return;
  }
  event.preventDefault();
  event.stopPropagation();
}

function onWheel(event) {
  const width = stage.clientWidth, span = lens.to - lens.from;
  const left = sandwich ? 0 : zoomed.x, most = sandwich || !zoomed.w ? 1 : zoomed.w;
  if (!event.ctrlKey && Math.abs(event.deltaX) <= Math.abs(event.deltaY))
    return; // scrolls
  event.preventDefault();
  let to = span, from = lens.from + (event.ctrlKey ? 0 : span * event.deltaX / width);
  if (event.ctrlKey) {
    const at = (event.clientX - canvas.getBoundingClientRect().left) / width;
    to = Math.min(Math.max(span * Math.exp(event.deltaY / 200), 1e-9), most);
    from = lens.from + at * (span - to);
  }
  lens.from = Math.min(Math.max(from, left), left + most - to);
  lens.to = lens.from + to;
  stale = true;
  redraw();
}

function onMove(event) {
  const box = boxAt(event), node = box && box.node;
  if (node !== hovered) {
    hovered = node;
    canvas.style.cursor = node ? "pointer" : "default";
    redraw();
  }
  showTip(event, box);
}

function leave() {
  hovered = null;
  $("tip").hidden = true;
  redraw();
}

function listen() {
  canvas.addEventListener("mousemove", onMove);
  canvas.addEventListener("mouseleave", leave);
  canvas.addEventListener("click", (event) => {
    const box = boxAt(event);
    if (!box)
      return;
    enter(box);
    $("tip").hidden = true;
  });
  canvas.addEventListener("wheel", onWheel, { passive: false });
  stage.addEventListener("scroll", redraw);
  document.addEventListener("keydown", onKey);
  $("search").addEventListener("keydown", onSearchKey);
  $("search").addEventListener("input", onType);
  $("search").addEventListener("focus", () => setTimeout(join));
  $("before").addEventListener("click", () => nextMatch(-1));
  $("next").addEventListener("click", () => nextMatch(1));
  $("regex").addEventListener("click", () => {
    view.regex = !view.regex;
    pressed("regex", view.regex);
    setSearch(view.search);
  });
  $("invert").addEventListener("click", () => toggle("inverted"));
  $("bylines").addEventListener("click", () => toggle("byLine"));
  $("bytask").addEventListener("click", actions.d);
  $("chains").addEventListener("click", toggleChains);
  for (const button of document.querySelectorAll("[data-view]"))
    button.addEventListener("click", () => setView(button.dataset.view));
  $("value").addEventListener("change", () => setValue($("value").value));
  $("task").addEventListener("change", () => {
    view.task = $("task").value;
    change();
    showGroups();
  });
  $("width").addEventListener("change", () => {
    view.width = $("width").value;
    change();
  });
  $("theme").addEventListener("click", actions.t);
  $("help").addEventListener("click", actions["?"]);
  $("quality").addEventListener("click", () => $("facts").showModal());
  if (curves)
    listenToTime();
  new ResizeObserver(refit).observe(stage);
}

function start() {
  initView();
  initPicture();
  dark.addEventListener("change", () => setTheme(dark.matches ? "dark" : "light"));
  window.addEventListener("popstate", followAddress);
  window.addEventListener("beforeprint", () => print(true));
  window.addEventListener("afterprint", () => print(false));
  document.documentElement.classList.toggle("framed", framed);
  if (!places.line.some(Boolean))
    $("bylines").hidden = true;
  $("width").hidden = !compared;
  $("bytask").hidden = tasks.comm.length < 2;
  $("bytask").textContent = tasks.tid.some(Boolean) ? "By thread" : "By process";
  sayInstead($("headline").textContent);
  showQuality();
  showTasks();
  followAddress();
  listen();
}

openProfile().then((is) => {
  if (is)
    start();
});
