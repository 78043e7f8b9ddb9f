// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The picture: which boxes the lens sees, how they are painted, and which one is where the pointer is. What changes
// says so by `stale` (the boxes are others) and redraw(); one animation frame paints any number of changes.
"use strict";

const ROW = 20; // pixels
const SLIVER = 0.6; // boxes narrower than these pixels are not drawn
const LABEL_CHARS = 400;
const PRINT_HEIGHT = 4000; // pixels
const CHAIN_LEAST = 3; // frames that one box is worth
const CHAIN_SLACK = 4; // pixels

const canvas = $("canvas"), stage = $("stage");
const room = element("div", "", { id: "room" });
const ctx = canvas.getContext("2d");
const lens = { from: 0, to: 1 }; // what of the width 0..1 is in the window
let boxes = []; // { node, row, x, w, outer (box), chain (see chainFrom()) } that are visible
let rows = []; // boxes by x; from the root, or of a sandwich from the outermost caller
let boxOf = new Map(); // node -> box
let zoomed = null; // the node in the first row
let focused = null, hovered = null;
let opened = new Set(); // nodes of chains that are shown frame by frame
let zooms = []; // where Escape goes back to
let printing = false;
let typing = 0, searchTime = 0; // the timer of a search, milliseconds of the last one
let moving = 0, drawing = 0; // requests for an animation frame
let stale = true; // boxes are not those of the lens and the stage any more
let wanted = null; // a node to scroll to
const widths = new Map(), fonts = { usual: "", own: "" };

function initPicture() {
  stage.prepend(room);
  room.append(canvas);
}

const isFlame = () => view.picture === "flame";
const viewRows = () => printing ? 0 : Math.floor(stage.clientHeight / ROW);
const turned = (row) => isFlame() ? Math.max(rows.length, viewRows()) - 1 - row : row;
const rowTop = (row) => turned(row) * ROW;

// Whether a box of many frames may have this one.
function isDull(node) {
  const func = funcOfNode(node);
  return func >= 0 && !funcs.own[func] && !matched[func] && funcs.kind[func] !== MARKER;
}

// The child that is as wide as an expanded node, but for `slack`.
function onlyChild(node, slack) {
  const child = node.children[0];
  return child && child.w >= node.w - Math.min(slack, node.w / 50) ? child : null;
}

// The frames between an expanded node and its first descendant that tells something: own code, a match, one that
// takes samples itself or calls several. What is too narrow to be read does not count, unless it may be what is
// searched for. Null: too few for a box.
function chainFrom(node, k) {
  const frames = [], slack = hasMatches ? 1e-12 : CHAIN_SLACK / k;
  if (!view.chains)
    return null;
  for (let n = onlyChild(node, slack); n && isDull(n); frames.push(n), n = onlyChild(n, slack)) {
    expand(n);
    if (!onlyChild(n, slack))
      break;
  }
  return frames.length < CHAIN_LEAST || opened.has(frames[0]) ? null : frames;
}

// What of a tree can be seen through the lens, from `root` on, in levels 0 and on, or -1 and back.
function place(root, levels) {
  const width = stage.clientWidth, k = width / (lens.to - lens.from), by = root.tree === sandwich?.callers ? -1 : 1;
  const todo = [{ node: root, level: 0, outer: null, chain: null }];
  while (todo.length) {
    const { node, level, outer, chain } = todo.pop();
    const x = (node.x - lens.from) * k, w = node.w * k;
    if (w < SLIVER || x + w <= 0 || x >= width)
      continue;
    const left = Math.max(x, 0), box = { node, row: level, x: left, w: Math.min(x + w, width) - left, outer, chain };
    if (level || by > 0) {
      boxes.push(box);
      boxOf.set(node, box);
      (levels[level] = levels[level] || []).push(box);
    }
    const last = chain ? chain[chain.length - 1] : node;
    expand(last);
    const next = chain ? null : chainFrom(last, k);
    if (next)
      todo.push({ node: next[0], level: level + by, outer: box, chain: next });
    else
      for (let i = last.children.length - 1; i >= 0; i--)
        todo.push({ node: last.children[i], level: level + by, outer: box, chain: null });
  }
}

function layout() {
  const levels = {};
  boxes = [];
  boxOf = new Map();
  if (sandwich) {
    place(sandwich.callers.root, levels);
    place(sandwich.callees.root, levels);
  } else {
    place(zoomed, levels);
  }
  const order = Object.keys(levels).map(Number).sort((a, b) => a - b);
  rows = order.map((level) => levels[level]);
  for (const box of boxes)
    box.row -= order[0];
  room.style.height = rows.length * ROW + 6 + "px";
  stale = false;
}

function ensureLayout() {
  if (stale)
    layout();
}

// In the font that is set.
function textWidth(s) {
  const key = ctx.font + s;
  let w = widths.get(key);
  if (w === undefined) {
    if (widths.size > 20000)
      widths.clear();
    widths.set(key, w = ctx.measureText(s).width);
  }
  return w;
}

// What fits of: the name, of a Python function its last component, a beginning of that.
function fit(name, space, dotted) {
  const dot = name.lastIndexOf(".");
  if (name.length < LABEL_CHARS && textWidth(name) <= space)
    return name;
  const last = dotted && dot > 0 && dot < name.length - 1 ? name.slice(dot + 1) : name;
  const s = last.slice(0, LABEL_CHARS);
  if (textWidth(s) <= space)
    return s;
  let n = Math.floor(s.length * space / textWidth(s));
  while (n > 0 && ctx.measureText(s.slice(0, n) + "\u2026").width > space)
    n--;
  return n > 1 ? s.slice(0, n) + "\u2026" : "";
}

const groupOf = (node) => node && funcOfNode(node) >= 0 ? funcs.group[funcOfNode(node)] : -1;
const boxName = (box) => box.chain ? box.chain.length + " frames" : nodeName(box.node);

// What stands behind a name: whose it is, where the box before does not say it already.
function boxGroups(box) {
  if (box.chain)
    return [...new Set(box.chain.map((node) => groups[groupOf(node)]))].join(", ");
  return groupOf(box.node) === groupOf(box.node.parent) ? "" : groups[groupOf(box.node)] || "";
}

function drawLabel(box, y, ink, dimmed) {
  const inner = box.w - 9;
  const name = boxName(box), func = box.chain ? -1 : funcOfNode(box.node);
  ctx.font = func >= 0 && funcs.own[func] ? fonts.own : fonts.usual;
  const text = fit(name, inner, func >= 0 && isPython(funcs.kind[func]));
  if (!text)
    return;
  ctx.fillStyle = dimmed ? ink.faded : ink.text;
  ctx.fillText(text, box.x + 5, y + ROW / 2 + 0.5);
  const more = text === name ? boxGroups(box).slice(0, LABEL_CHARS) : "";
  if (!more)
    return;
  const used = textWidth(name) + 10;
  ctx.font = fonts.usual;
  const rest = box.chain ? fit(more, inner - used, false) : more;
  if (!rest || used + textWidth(rest) > inner)
    return;
  ctx.fillStyle = dimmed ? ink.faded : ink.dim;
  ctx.fillText(rest, box.x + 5 + used, y + ROW / 2 + 0.5);
}

function drawBox(box, y, ink) {
  const { node } = box;
  const isMatch = !box.chain && funcOfNode(node) >= 0 && matched[funcOfNode(node)];
  const dimmed = hasMatches && !isMatch;
  const w = box.w > 2.4 ? box.w - 1 : box.w;
  ctx.fillStyle = isMatch ? matchColour() : dimmed ? ink.fade : box.chain ? chainColour() : nodeColour(node);
  ctx.fillRect(box.x, y, w, ROW - 1);
  drawKind(box, y, w, ink);
  if (box.w > 24)
    drawLabel(box, y, ink, dimmed);
  if (node === focused || node === hovered || isSameAsHovered(box)) {
    ctx.strokeStyle = ink.edge;
    ctx.lineWidth = node === focused ? 2 : 1;
    ctx.strokeRect(box.x + 0.5, y + 0.5, Math.max(w - 1, 1), ROW - 2);
  }
}

// Every box of the function that the pointer is at.
function isSameAsHovered(box) {
  return hovered && !box.chain && !boxOf.get(hovered)?.chain && funcOfNode(hovered) >= 0 &&
    funcOfNode(box.node) === funcOfNode(hovered);
}

// The kind for those who cannot tell the colours: a line below native boxes, a double one below the kernel's.
function drawKind(box, y, w, ink) {
  const func = funcOfNode(box.node), lines = box.chain || func < 0 ? 0 : KIND_LINES[funcs.kind[func]] || 0;
  ctx.fillStyle = ink.dim;
  for (let i = 0; i < lines && w > 3; i++)
    ctx.fillRect(box.x, y + ROW - 2 - 2 * i, w, 1);
}

function draw() {
  const ratio = window.devicePixelRatio || 1;
  const width = stage.clientWidth, top = printing ? 0 : stage.scrollTop;
  const height = printing ? Math.min(rows.length * ROW + 6, PRINT_HEIGHT) : stage.clientHeight;
  const ink = INK[view.theme];
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = width + "px";
    canvas.style.height = height + "px";
  }
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.fillStyle = ink.back;
  ctx.fillRect(0, 0, width, height);
  fonts.usual = "12px " + getComputedStyle(document.body).fontFamily;
  fonts.own = "600 " + fonts.usual; // own code, as in the report
  ctx.textBaseline = "middle";
  for (const box of boxes) {
    const y = rowTop(box.row) - top;
    if (y > -ROW && y < height)
      drawBox(box, y, ink);
  }
}

// Any number of changes become one picture.
function redraw() {
  document.documentElement.dataset.state = "moving";
  if (!drawing)
    drawing = requestAnimationFrame(paint);
}

// Of the boxes that are shown, root first.
function matchingNodes() {
  return boxes.filter((b) => !b.chain && funcOfNode(b.node) >= 0 && matched[funcOfNode(b.node)]).map((b) => b.node);
}

function showHits() {
  const list = hasMatches && view.picture !== "table" ? matchingNodes() : [], at = list.indexOf(focused);
  for (const id of ["hits", "before", "next"])
    $(id).hidden = !list.length;
  $("hits").textContent = (at < 0 ? "" : count(at + 1) + " of ") + count(list.length);
}

function paint() {
  drawing = 0;
  if (!stage.hidden) {
    ensureLayout();
    showHits();
    if (wanted)
      scrollTo(wanted);
    wanted = null;
    draw();
  }
  document.documentElement.dataset.state = moving || typing ? "moving" : "ready";
}

// On paper all rows, dark on light.
function print(begins) {
  const { theme } = view;
  printing = begins;
  document.documentElement.dataset.theme = begins ? "light" : theme;
  if (begins && !stage.hidden) {
    view.theme = "light";
    colourCache.clear();
    ensureLayout();
    draw();
    view.theme = theme;
    colourCache.clear();
  } else {
    redraw();
  }
}

function boxAt(event) {
  ensureLayout();
  const bounds = canvas.getBoundingClientRect();
  const x = event.clientX - bounds.left, y = event.clientY - bounds.top + stage.scrollTop;
  const line = Math.floor(y / ROW);
  const row = rows[turned(line)] || [];
  let low = 0, high = row.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (row[middle].x + row[middle].w <= x)
      low = middle + 1;
    else
      high = middle;
  }
  return low < row.length && row[low].x <= x ? row[low] : null;
}

function scrollTo(node) {
  if (!boxOf.has(node))
    return;
  const y = rowTop(boxOf.get(node).row);
  if (y < stage.scrollTop + ROW)
    stage.scrollTop = y - 2 * ROW;
  else if (y > stage.scrollTop + stage.clientHeight - 2 * ROW)
    stage.scrollTop = y - stage.clientHeight + 3 * ROW;
}

const dark = window.matchMedia("(prefers-color-scheme: dark)");
const calm = window.matchMedia("(prefers-reduced-motion: reduce)");

// The lens glides, so that the eye can follow.
function glide(from, to) {
  const fromBefore = lens.from, toBefore = lens.to, began = performance.now(), time = calm.matches ? 0 : 160;
  const frame = (now) => {
    const t = time ? Math.min(Math.max((now - began) / time, 0), 1) : 1, eased = 1 - (1 - t) ** 3;
    lens.from = t < 1 ? fromBefore + (from - fromBefore) * eased : from;
    lens.to = t < 1 ? toBefore + (to - toBefore) * eased : to;
    moving = t < 1 ? requestAnimationFrame(frame) : 0;
    stale = true;
    redraw();
  };
  cancelAnimationFrame(moving);
  frame(began);
}

function zoom(node, remember = true) {
  if (remember && node !== zoomed)
    zooms.push(zoomed);
  zoomed = node;
  glide(node.x, node.w > 0 ? node.x + node.w : 1);
  wanted = node;
  showPath();
  showTitle();
  writeAddress();
}

function openChain(chain) {
  for (const node of chain)
    opened.add(node);
  stale = true;
}

function focus(node, aloud = true) {
  ensureLayout();
  focused = node;
  if (node && aloud)
    $("live").textContent = sentence(node);
  showDetail();
  wanted = node || wanted;
  redraw();
}
