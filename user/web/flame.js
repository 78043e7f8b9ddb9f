// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The flame graph page. It draws what user/export/export_html.c wrote into the element #profile, and loads
// nothing. Parts, in this order: the profile; what of it is shown; the tree; colours; the picture; the
// panels around it; events.
//
// The tree is made as far as it can be seen. Each stack is parked at the innermost node that was
// made for it. To expand a node is to move its stacks one frame on, into its children. So the work of
// a view grows with what is visible, not with the profile, and any view (hidden kinds, callers,
// lines) is another way of stepping through the same stacks.
"use strict";

(() => {
  const PYTHON = 1, NATIVE = 2, KERNEL = 3, MARKER = 4, PLAIN = 5; // enum sym_kind
  const PLUMBING = "plumbing"; // NATIVE, of the interpreter and in front of Python
  const ROW = 20; // pixels
  const SLIVER = 0.6; // boxes narrower than these pixels are not drawn
  const LABEL_CHARS = 400;
  const TABLE_ROWS = 400;
  const LINE_ROWS = 40;

  const $ = (id) => document.getElementById(id);

  // ---- the profile -------------------------------------------------------------------------------

  // A column of numbers: base `digits / 2`, lowest digit first; the second half of the alphabet says
  // that another digit follows.
  function unpackColumn(text, digits) {
    const base = digits.length / 2;
    const valueOf = new Int8Array(128);
    for (let i = 0; i < digits.length; i++)
      valueOf[digits.charCodeAt(i)] = i;
    const out = new Float64Array(text.length);
    let cnt = 0, n = 0, unit = 1;
    for (let i = 0; i < text.length; i++) {
      const digit = valueOf[text.charCodeAt(i)];
      if (digit >= base) {
        n += (digit - base) * unit;
        unit *= base;
      } else {
        out[cnt++] = n + digit * unit;
        n = 0;
        unit = 1;
      }
    }
    return out.slice(0, cnt);
  }

  function unpack(columns, digits) {
    for (const [name, text] of Object.entries(columns))
      columns[name] = text === null ? null : unpackColumn(text, digits);
    return columns;
  }

  // Stacks come sorted; each names how many places it shares with the one before, and the others.
  function unpackStacks(s) {
    const n = s.value.length;
    const offset = new Int32Array(n + 1);
    for (let i = 0; i < n; i++)
      offset[i + 1] = offset[i] + s.shared[i] + s.fresh[i];
    const elems = new Int32Array(offset[n]);
    let from = 0;
    for (let i = 0; i < n; i++) {
      let to = offset[i];
      if (i)
        elems.copyWithin(to, offset[i - 1], offset[i - 1] + s.shared[i]);
      to += s.shared[i];
      for (let j = 0; j < s.fresh[i]; j++)
        elems[to++] = s.frames[from++];
    }
    return { cnt: n, offset, elems, value: s.value, base: s.base, task: s.task };
  }

  // Or what a file of another tool says no more of.
  const isPython = (kind) => kind === PYTHON || kind === PLAIN;

  // Of each stack, where its innermost Python frame is; plumbing stands only in front of one.
  function findLastPython(stacks, places, funcs) {
    const last = new Int32Array(stacks.cnt);
    for (let i = 0; i < stacks.cnt; i++) {
      let at = stacks.offset[i + 1] - 1;
      while (at >= stacks.offset[i] && !isPython(funcs.kind[places.func[stacks.elems[at]]]))
        at--;
      last[i] = at;
    }
    return last;
  }

  const data = JSON.parse($("profile").textContent);
  const { strings, groups, compared, scale, weights } = data;
  const funcs = unpack(data.funcs, data.digits), places = unpack(data.places, data.digits);
  const tasks = unpack(data.tasks, data.digits), stacks = unpackStacks(unpack(data.stacks, data.digits));
  const lastPython = findLastPython(stacks, places, funcs);
  const funcCnt = funcs.name.length, placeCnt = places.func.length;
  const placeFunc = Int32Array.from(places.func);
  const presentKinds = findKinds();
  data.stacks = null;

  function findKinds() {
    const kinds = new Set();
    for (const place of new Set(stacks.elems)) {
      kinds.add(funcs.kind[placeFunc[place]]);
      if (funcs.plumbing[placeFunc[place]])
        kinds.add(PLUMBING);
    }
    return kinds;
  }

  const nameOf = (func) => strings[funcs.name[func]];
  const fileOf = (func) => strings[funcs.file[func]];

  // ---- what is shown -----------------------------------------------------------------------------

  const KINDS = [
    { id: PYTHON, key: "p", text: "Python" },
    { id: PLAIN, key: "u", text: "Unknown", title: "Frames of a kind that the file does not tell" },
    { id: NATIVE, key: "n", text: "Native" },
    { id: PLUMBING, key: "i", text: "Interpreter", title: "The interpreter's own frames between Python frames" },
    { id: KERNEL, key: "k", text: "Kernel" },
    { id: MARKER, key: "m", text: "Markers", title: "Why a stack, or a part of it, ends early" },
  ];

  const view = {
    picture: "icicle", // flame, table
    inverted: false,
    byLine: false,
    width: "both", // of two profiles: value, base
    hidden: new Set([PLUMBING]),
    task: "all", // p:TGID, t:TASK
    search: "",
    regex: false,
    theme: "light",
    sort: "self",
  };

  const HIDE = 1, HIDE_BEFORE_PYTHON = 2;
  const hide = new Uint8Array(placeCnt);
  const matched = new Uint8Array(funcCnt);
  let hasMatches = false;

  function applyHidden() {
    for (let i = 0; i < placeCnt; i++) {
      const f = placeFunc[i];
      hide[i] = view.hidden.has(funcs.kind[f]) ? HIDE
        : funcs.plumbing[f] && view.hidden.has(PLUMBING) ? HIDE_BEFORE_PYTHON : 0;
    }
  }

  const isShown = (stack, at) => {
    const h = hide[stacks.elems[at]];
    return h === 0 || (h === HIDE_BEFORE_PYTHON && at > lastPython[stack]);
  };

  function inTask(stack) {
    const t = stacks.task[stack];
    if (view.task === "all")
      return true;
    const id = Number(view.task.slice(2));
    return view.task[0] === "t" ? t === id : sameProcess(t, id);
  }

  function sameProcess(a, b) {
    return tasks.pid[a] === tasks.pid[b] && tasks.comm[a] === tasks.comm[b] && tasks.exe[a] === tasks.exe[b];
  }

  // Width of a box, in samples. With a base: the mean of both, so that what is gone is seen, too.
  function weigh(value, base) {
    if (!compared || view.width === "value")
      return value;
    return view.width === "base" ? base * scale : (value + base * scale) / 2;
  }

  // As flame__delta() in user/export/export_flame.c: 0 within two standard deviations.
  function delta(value, base) {
    const b = base * scale;
    if (Math.abs(value - b) <= 2 * Math.sqrt(value * weights[1] + b * scale * weights[0]))
      return 0;
    return (value - b) / (value + b);
  }

  // ---- the tree ----------------------------------------------------------------------------------

  class Node {
    constructor(key, parent) {
      this.key = key; // func, or place by lines; -1: the root
      this.parent = parent;
      this.depth = parent ? parent.depth + 1 : 0;
      this.value = this.base = 0;
      this.self = this.selfBase = 0;
      this.weight = 0;
      this.x = 0; // of the whole width, which is 1
      this.w = 1;
      this.parked = -1; // first stack of a list in tree.next; -1: expanded
      this.ended = -1;
      this.children = null;
    }
  }

  let tree = null;

  function buildTree() {
    const root = new Node(-1, null);
    const next = new Int32Array(stacks.cnt).fill(-1);
    const at = new Int32Array(stacks.cnt);
    const keys = view.byLine ? placeCnt : funcCnt;
    tree = { root, next, at, child: new Array(keys), stamp: new Int32Array(keys), serial: 0 };
    for (let i = stacks.cnt - 1; i >= 0; i--) {
      if (!inTask(i))
        continue;
      at[i] = view.inverted ? stacks.offset[i + 1] : stacks.offset[i] - 1;
      root.value += stacks.value[i];
      root.base += stacks.base ? stacks.base[i] : 0;
      next[i] = root.parked;
      root.parked = i;
    }
    root.weight = weigh(root.value, root.base);
  }

  // Moves a stack to its next frame that is shown. False: it has none.
  function step(stack) {
    const end = view.inverted ? stacks.offset[stack] - 1 : stacks.offset[stack + 1];
    const by = view.inverted ? -1 : 1;
    let at = tree.at[stack] + by;
    while (at !== end && !isShown(stack, at))
      at += by;
    tree.at[stack] = at;
    return at !== end;
  }

  function childFor(node, stack) {
    const place = stacks.elems[tree.at[stack]];
    const key = view.byLine ? place : placeFunc[place];
    if (tree.stamp[key] !== tree.serial) {
      tree.stamp[key] = tree.serial;
      tree.child[key] = new Node(key, node);
      node.children.push(tree.child[key]);
    }
    return tree.child[key];
  }

  function expand(node) {
    if (node.children)
      return;
    node.children = [];
    tree.serial++;
    for (let s = node.parked, following; s >= 0; s = following) {
      following = tree.next[s];
      const value = stacks.value[s], base = stacks.base ? stacks.base[s] : 0;
      if (step(s)) {
        const child = childFor(node, s);
        child.value += value;
        child.base += base;
        tree.next[s] = child.parked;
        child.parked = s;
      } else {
        node.self += value;
        node.selfBase += base;
        tree.next[s] = node.ended;
        node.ended = s;
      }
    }
    node.parked = -1;
    spread(node);
  }

  // The heaviest child is on the left.
  function spread(node) {
    for (const child of node.children)
      child.weight = weigh(child.value, child.base);
    node.children.sort((a, b) => b.weight - a.weight || a.key - b.key);
    let x = node.x;
    for (const child of node.children) {
      child.x = x;
      child.w = node.weight > 0 ? node.w * child.weight / node.weight : 0;
      x += child.w;
    }
  }

  const funcOfNode = (node) => view.byLine ? placeFunc[node.key] : node.key;

  function nodeName(node) {
    if (node.key < 0)
      return view.task === "all" ? "all" : $("task").selectedOptions[0].textContent.split(" \u2014 ")[0];
    const line = view.byLine ? places.line[node.key] : 0;
    return nameOf(funcOfNode(node)) + (line ? ":" + line : "");
  }

  // Every stack that goes through a node.
  function stacksOf(node, use) {
    const todo = [node];
    while (todo.length) {
      const n = todo.pop();
      for (let s = n.parked; s >= 0; s = tree.next[s])
        use(s);
      for (let s = n.ended; s >= 0; s = tree.next[s])
        use(s);
      for (const child of n.children || [])
        todo.push(child);
    }
  }

  // The place of a stack at a depth of the tree (1: below the root), and whether none follows.
  function placeAt(stack, depth) {
    const by = view.inverted ? -1 : 1;
    const end = view.inverted ? stacks.offset[stack] - 1 : stacks.offset[stack + 1];
    let at = view.inverted ? stacks.offset[stack + 1] - 1 : stacks.offset[stack], found = -1;
    for (; at !== end; at += by) {
      if (!isShown(stack, at))
        continue;
      if (depth-- === 1)
        found = stacks.elems[at];
      else if (depth < 0)
        return { place: found, last: false };
    }
    return { place: found, last: true };
  }

  // Samples by line of the function at a node.
  function linesOf(node) {
    const lines = new Map();
    stacksOf(node, (s) => {
      const { place: p, last } = placeAt(s, node.depth);
      const line = places.line[p] || 0;
      const sum = lines.get(line) || { line, self: 0, total: 0, base: 0 };
      const isSelf = view.inverted ? node.depth === 1 : last;
      sum.total += stacks.value[s];
      sum.base += stacks.base ? stacks.base[s] : 0;
      sum.self += isSelf ? stacks.value[s] : 0;
      lines.set(line, sum);
    });
    return [...lines.values()].sort((a, b) => b.self - a.self || b.total - a.total || a.line - b.line);
  }

  // Self and total of each function, over all stacks that are shown; a stack counts once.
  function sumFunctions() {
    const sum = { self: new Float64Array(funcCnt), total: new Float64Array(funcCnt), base: new Float64Array(funcCnt) };
    const seen = new Int32Array(funcCnt).fill(-1);
    for (let s = 0; s < stacks.cnt; s++) {
      if (!inTask(s))
        continue;
      let f = -1;
      for (let at = stacks.offset[s]; at < stacks.offset[s + 1]; at++) {
        if (!isShown(s, at))
          continue;
        f = placeFunc[stacks.elems[at]];
        if (seen[f] === s)
          continue;
        seen[f] = s;
        sum.total[f] += stacks.value[s];
        sum.base[f] += stacks.base ? stacks.base[s] : 0;
      }
      if (f >= 0)
        sum.self[f] += stacks.value[s];
    }
    return sum;
  }

  // ---- search ------------------------------------------------------------------------------------

  // null: the expression is not valid.
  function makeTest(text, regex) {
    if (!regex) {
      const needle = text.toLowerCase();
      return (s) => s.toLowerCase().includes(needle);
    }
    try {
      const expression = new RegExp(text, "iu");
      return (s) => expression.test(s);
    } catch {
      return null;
    }
  }

  function search() {
    const test = view.search ? makeTest(view.search, view.regex) : null;
    const cache = new Map();
    const hit = (text) => {
      if (!cache.has(text))
        cache.set(text, test(strings[text]));
      return cache.get(text);
    };
    hasMatches = test !== null;
    for (let f = 0; f < funcCnt; f++)
      matched[f] = hasMatches && (hit(funcs.name[f]) || hit(funcs.file[f])) ? 1 : 0;
    showMatched(view.search !== "" && !hasMatches);
  }

  // Samples of the stacks in which something shown matches.
  function sumMatched() {
    let sum = 0;
    for (let s = 0; s < stacks.cnt; s++) {
      if (!inTask(s))
        continue;
      for (let at = stacks.offset[s]; at < stacks.offset[s + 1]; at++) {
        if (matched[placeFunc[stacks.elems[at]]] && isShown(s, at)) {
          sum += stacks.value[s];
          break;
        }
      }
    }
    return sum;
  }

  function showMatched(invalid) {
    const out = $("matched");
    out.classList.toggle("bad", invalid);
    if (!hasMatches) {
      out.textContent = invalid ? "not an expression" : "";
      return;
    }
    out.textContent = percent(sumMatched(), tree.root.value) + " matched";
  }

  // ---- numbers and texts -------------------------------------------------------------------------

  const count = (n) => Math.round(n).toLocaleString("en-US");

  function percent(part, whole) {
    const share = whole ? 100 * part / whole : 0;
    return share > 0 && share < 0.05 ? "<0.1%" : share.toFixed(1) + "%";
  }

  function samples(n) {
    const text = count(n) + " " + (n === 1 ? data.one : data.many);
    return data.hz ? text + ", " + (n / data.hz).toFixed(2) + " s" : text;
  }

  function placeText(func, line) {
    const file = fileOf(func);
    return file && line ? file + ":" + line : file;
  }

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

  // Of the packages, heaviest first. Violet is for matches, red for the kernel. user/export/export_svg.c has
  // the same colours, made by this.
  const HUES = [58, 235, 345, 195, 95, 270, 38, 215, 330, 175, 120, 75];
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

  function kindColour(kind, group, shade) {
    switch (kind) {
      case PYTHON:
      case PLAIN: return group === data.stdlib ? tone(0.9, 0.045, 150, shade) : tone(0.85, 0.098, HUES[hueOf(group)], shade);
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
    const group = isPython(kind) ? funcs.group[func] : 0;
    return cached(kind + "/" + group + "/" + shade, () => kindColour(kind, group, shade));
  }

  function nodeColour(node) {
    if (node.key < 0)
      return cached("root", () => tone(0.93, 0.004, 255, 0));
    if (!compared)
      return colourOf(funcOfNode(node));
    const d = Math.round(10 * delta(node.value, node.base)) / 10;
    return cached("d" + d, () => deltaColour(d));
  }

  const matchColour = () => cached("match", () => tone(0.76, 0.16, 308, 0));

  // ---- the picture -------------------------------------------------------------------------------

  const canvas = $("canvas"), stage = $("stage");
  const room = element("div", "", { id: "room" });
  const ctx = canvas.getContext("2d");
  const lens = { from: 0, to: 1 }; // what of the width 0..1 is in the window
  let boxes = []; // { node, x, w } that are visible
  let rows = []; // by depth, boxes by x
  let depth = 0; // deepest row
  let zoomed = null, focused = null, hovered = null;
  let zooms = []; // where Escape goes back to
  let moving = 0, drawing = 0; // requests for an animation frame
  let stale = true; // boxes are not those of the lens and the stage any more
  let wanted = null; // a node to scroll to
  const widths = new Map();

  stage.prepend(room);
  room.append(canvas);

  const isFlame = () => view.picture === "flame";
  const rowTop = (d) => (isFlame() ? Math.max(depth + 1, viewRows()) - 1 - d : d) * ROW;
  const viewRows = () => Math.floor(stage.clientHeight / ROW);

  // What can be seen through the lens, root first.
  function layout() {
    const width = stage.clientWidth, k = width / (lens.to - lens.from);
    const todo = [tree.root];
    boxes = [];
    rows = [];
    depth = 0;
    while (todo.length) {
      const node = todo.pop();
      const x = (node.x - lens.from) * k, w = node.w * k;
      if (w < SLIVER || x + w <= 0 || x >= width)
        continue;
      const left = Math.max(x, 0), box = { node, x: left, w: Math.min(x + w, width) - left };
      boxes.push(box);
      (rows[node.depth] = rows[node.depth] || []).push(box);
      depth = Math.max(depth, node.depth);
      expand(node);
      for (let i = node.children.length - 1; i >= 0; i--)
        todo.push(node.children[i]);
    }
    room.style.height = (depth + 1) * ROW + 6 + "px";
    stale = false;
  }

  function ensureLayout() {
    if (stale)
      layout();
  }

  function textWidth(s) {
    let w = widths.get(s);
    if (w === undefined) {
      if (widths.size > 20000)
        widths.clear();
      widths.set(s, w = ctx.measureText(s).width);
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

  function drawLabel(box, y, ink, dimmed) {
    const inner = box.w - 9;
    const name = nodeName(box.node);
    const dotted = box.node.key >= 0 && isPython(funcs.kind[funcOfNode(box.node)]);
    const text = fit(name, inner, dotted);
    if (!text)
      return;
    ctx.fillStyle = dimmed ? ink.faded : ink.text;
    ctx.fillText(text, box.x + 5, y + ROW / 2 + 0.5);
    if (text !== name || box.node.key < 0)
      return;
    const group = funcs.group[funcOfNode(box.node)], { parent } = box.node;
    if (parent.key >= 0 && funcs.group[funcOfNode(parent)] === group)
      return; // said already
    const more = groups[group];
    const used = textWidth(name) + 10;
    if (used + textWidth(more) > inner)
      return;
    ctx.fillStyle = dimmed ? ink.faded : ink.dim;
    ctx.fillText(more, box.x + 5 + used, y + ROW / 2 + 0.5);
  }

  function drawBox(box, y, ink) {
    const { node } = box;
    const isMatch = node.key >= 0 && matched[funcOfNode(node)];
    const dimmed = hasMatches && !isMatch;
    const w = box.w > 2.4 ? box.w - 1 : box.w;
    ctx.fillStyle = isMatch ? matchColour() : dimmed ? ink.fade : nodeColour(node);
    ctx.fillRect(box.x, y, w, ROW - 1);
    if (box.w > 24)
      drawLabel(box, y, ink, dimmed);
    if (node === focused || node === hovered) {
      ctx.strokeStyle = ink.edge;
      ctx.lineWidth = node === focused ? 2 : 1;
      ctx.strokeRect(box.x + 0.5, y + 0.5, Math.max(w - 1, 1), ROW - 2);
    }
  }

  function draw() {
    const ratio = window.devicePixelRatio || 1;
    const width = stage.clientWidth, height = stage.clientHeight, top = stage.scrollTop;
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
    ctx.font = "12px " + getComputedStyle(document.body).fontFamily;
    ctx.textBaseline = "middle";
    for (const box of boxes) {
      const y = rowTop(box.node.depth) - top;
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

  function paint() {
    drawing = 0;
    if (!stage.hidden) {
      ensureLayout();
      if (wanted)
        scrollTo(wanted);
      wanted = null;
      draw();
    }
    document.documentElement.dataset.state = moving ? "moving" : "ready";
  }

  function boxAt(event) {
    ensureLayout();
    const bounds = canvas.getBoundingClientRect();
    const x = event.clientX - bounds.left, y = event.clientY - bounds.top + stage.scrollTop;
    const line = Math.floor(y / ROW);
    const row = rows[isFlame() ? Math.max(depth + 1, viewRows()) - 1 - line : line] || [];
    let low = 0, high = row.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (row[middle].x + row[middle].w <= x)
        low = middle + 1;
      else
        high = middle;
    }
    return low < row.length && row[low].x <= x ? row[low].node : null;
  }

  function scrollTo(node) {
    const y = rowTop(node.depth);
    if (y < stage.scrollTop + ROW)
      stage.scrollTop = y - 2 * ROW;
    else if (y > stage.scrollTop + stage.clientHeight - 2 * ROW)
      stage.scrollTop = y - stage.clientHeight + 3 * ROW;
  }

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
    if (node.w > 0)
      glide(node.x, node.x + node.w);
    wanted = node;
    showPath();
    showTitle();
  }

  function focus(node, aloud = true) {
    focused = node;
    if (node && aloud)
      $("live").textContent = sentence(node);
    showDetail();
    wanted = node || wanted;
    redraw();
  }

  // ---- the panels --------------------------------------------------------------------------------

  function sentence(node) {
    const text = nodeName(node) + ", " + percent(node.value, tree.root.value) + ", " + samples(node.value);
    return node.key < 0 ? text : text + ", " + kindText(funcOfNode(node));
  }

  function deltaText(value, base) {
    const whole = tree.root.value, before = tree.root.base * scale;
    const points = (whole ? 100 * value / whole : 0) - (before ? 100 * base * scale / before : 0);
    return (points > 0 ? "+" : points < 0 ? "\u2212" : "\u00b1") + Math.abs(points).toFixed(1) + " points";
  }

  function deltaClass(value, base) {
    const d = delta(value, base);
    return d > 0 ? "up" : d < 0 ? "down" : "";
  }

  function showTip(event) {
    const tip = $("tip");
    tip.hidden = !hovered;
    if (!hovered)
      return;
    const share = element("p", percent(hovered.value, tree.root.value) + " \u00b7 " + samples(hovered.value), { className: "share" });
    if (compared)
      share.append(" \u00b7 ", element("span", deltaText(hovered.value, hovered.base), { className: deltaClass(hovered.value, hovered.base) }));
    tip.replaceChildren(element("b", shorten(nodeName(hovered), 300)), share);
    if (hovered.key >= 0) {
      const f = funcOfNode(hovered);
      const line = view.byLine ? places.line[hovered.key] : funcs.line[f];
      tip.append(element("p", shorten(placeText(f, line), 300)), element("p", kindText(f)));
    }
    const x = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8);
    const below = event.clientY + 18;
    const y = below + tip.offsetHeight > window.innerHeight - 8 ? event.clientY - tip.offsetHeight - 12 : below;
    tip.style.transform = "translate(" + Math.max(x, 8) + "px," + Math.max(y, 8) + "px)";
  }

  const shorten = (s, n) => s.length > n ? s.slice(0, n) + "\u2026" : s;

  function number(list, title, part, whole, more) {
    const value = element("dd", percent(part, whole));
    value.append(" ", element("small", more));
    list.append(append(element("div"), element("dt", title), value));
  }

  function showNumbers(node) {
    const list = element("dl", "", { className: "numbers" });
    expand(node);
    number(list, view.inverted ? "Of all" : "Total", node.value, tree.root.value, samples(node.value));
    if (!view.inverted)
      number(list, "Self", node.self, tree.root.value, samples(node.self));
    if (node.parent && node.parent.key >= 0)
      number(list, view.inverted ? "Of the callee" : "Of the caller", node.value, node.parent.value, "");
    if (compared) {
      number(list, "Before", node.base, tree.root.base, count(node.base) + " " + data.many);
      const change = element("dd", deltaText(node.value, node.base), { className: deltaClass(node.value, node.base) });
      list.append(append(element("div"), element("dt", "Change"), change));
    }
    return list;
  }

  function meter(self, total, whole) {
    const bar = element("span", "", { className: "meter", "aria-hidden": "true" });
    const own = element("i"), rest = element("i", "", { className: "rest" });
    own.style.width = (whole ? 100 * self / whole : 0) + "%";
    rest.style.width = (whole ? 100 * (total - self) / whole : 0) + "%";
    return append(element("td", "", { className: "meters" }), append(bar, own, rest));
  }

  function lineRow(file, line, whole) {
    return append(element("tr"),
      element("td", (file + ":" + (line.line || "?")), { className: "place" }),
      element("td", percent(line.self, tree.root.value), { className: "number" }),
      element("td", percent(line.total, tree.root.value), { className: "number" }),
      meter(line.self, line.total, whole));
  }

  function showLines(node) {
    const func = funcOfNode(node);
    const lines = linesOf(node);
    const table = element("table", "", { id: "lines" });
    if (!fileOf(func) || (lines.length === 1 && !lines[0].line))
      return element("p", "");
    table.append(element("caption", "Lines of this function here: self, and with what they call" +
      (lines.length > LINE_ROWS ? " (the first " + LINE_ROWS + " of " + lines.length + ")" : "")));
    const head = append(element("tr"), element("th", "Line"),
      element("th", "Self", { className: "number" }), element("th", "Total", { className: "number" }), element("th", ""));
    const body = element("tbody");
    const whole = lines.reduce((most, l) => Math.max(most, l.total), 1);
    const file = shorten(fileOf(func).replace(/^.*\//u, ""), 60);
    for (const line of lines.slice(0, LINE_ROWS))
      body.append(lineRow(file, line, whole));
    return append(table, append(element("thead"), head), body);
  }

  function showDetail() {
    const detail = $("detail");
    const had = !detail.hidden;
    detail.hidden = !focused || focused.key < 0 || view.picture === "table";
    if (!detail.hidden) {
      const func = funcOfNode(focused), left = element("div");
      const dot = element("i");
      dot.style.background = compared ? nodeColour(focused) : colourOf(func);
      left.append(append(element("p", "", { className: "kind" }), dot, element("span", kindText(func))),
        element("h2", nodeName(focused)), element("p", placeText(func, funcs.line[func]), { className: "where" }), showNumbers(focused));
      detail.replaceChildren(left, showLines(focused));
    }
    if (had === detail.hidden)
      refit(); // the stage has another size
  }

  function showPath() {
    const bar = $("path"), path = [];
    for (let node = zoomed; node; node = node.parent)
      path.unshift(node);
    bar.hidden = path.length < 2 || view.picture === "table";
    const shown = path.length > 7 ? [path[0], ...path.slice(-6)] : path;
    bar.replaceChildren(...shown.flatMap((node, i) => {
      const button = element("button", shorten(nodeName(node), 120), { type: "button" });
      if (node === zoomed)
        button.setAttribute("aria-current", "true");
      button.addEventListener("click", () => zoom(node));
      return i ? [element("span", i === 1 && shown.length < path.length ? "\u203a \u2026 \u203a" : "\u203a", { "aria-hidden": "true" }), button] : [button];
    }));
  }

  const pageTitle = document.title;

  function showTitle() {
    document.title = zoomed === tree.root ? pageTitle
      : shorten(nodeName(zoomed), 80) + " " + percent(zoomed.value, tree.root.value) + " \u2014 " + pageTitle;
  }

  function showQuality() {
    const { complete, userStacks, lost } = data;
    const texts = [];
    if (userStacks) // rounded down, as in the report: 100.0% means all
      texts.push((Math.floor(1000 * complete / userStacks) / 10).toFixed(1) + "% complete");
    if (lost)
      texts.push(count(lost) + " lost");
    $("quality").textContent = texts.join(" \u00b7 ") || "about";
    $("quality").classList.toggle("warn", lost > 0 || complete < 0.98 * userStacks || data.refused > 0);
  }

  function showKinds() {
    const chips = KINDS.filter((k) => presentKinds.has(k.id)).map((k) => {
      const chip = element("button", "", {
        type: "button", className: "chip", "data-kind": k.id, "aria-pressed": String(!view.hidden.has(k.id)),
        title: (k.title || "Show or hide " + k.text.toLowerCase() + " frames") + " (" + k.key + ")",
      });
      const dot = element("i");
      dot.style.background = kindColour(k.id, data.stdlib === 0 ? 1 : 0, 0);
      chip.append(dot, k.text);
      chip.addEventListener("click", () => toggleKind(k.id));
      return chip;
    });
    $("kinds").replaceChildren(...chips);
  }

  // Packages by the samples whose innermost Python frame is theirs.
  function showGroups() {
    const sums = new Map();
    let all = 0;
    for (let s = 0; s < stacks.cnt; s++) {
      if (!inTask(s))
        continue;
      all += stacks.value[s];
      if (lastPython[s] < stacks.offset[s])
        continue;
      const group = funcs.group[placeFunc[stacks.elems[lastPython[s]]]];
      sums.set(group, (sums.get(group) || 0) + stacks.value[s]);
    }
    const top = [...sums].sort((a, b) => b[1] - a[1]).slice(0, 6);
    $("groups").replaceChildren(...(compared ? deltaLegend() : top.map(([group, sum]) => {
      const chip = element("button", "", { type: "button", className: "chip", title: "Search for " + shorten(groups[group], 80) });
      const dot = element("i");
      dot.style.background = kindColour(PYTHON, group, 0);
      chip.append(dot, shorten(groups[group], 24), element("small", percent(sum, all)));
      chip.addEventListener("click", () => setSearch(view.search === groups[group] ? "" : groups[group]));
      return chip;
    })));
  }

  function deltaLegend() {
    return [[-1, "less than before"], [0, "no clear difference"], [1, "more"]].map(([d, text]) => {
      const chip = element("span", "", { className: "chip" }), dot = element("i");
      dot.style.background = deltaColour(d);
      return append(chip, dot, text);
    });
  }

  function showTasks() {
    const select = $("task"), sums = new Map();
    for (let s = 0; s < stacks.cnt; s++)
      sums.set(stacks.task[s], (sums.get(stacks.task[s]) || 0) + stacks.value[s]);
    const processes = [];
    for (const [task, sum] of sums) {
      let process = processes.find((p) => sameProcess(p.task, task));
      if (!process)
        processes.push(process = { task, sum: 0, threads: [] });
      process.sum += sum;
      if (tasks.tid[task])
        process.threads.push({ task, sum });
    }
    processes.sort((a, b) => b.sum - a.sum);
    const threads = processes.reduce((n, p) => n + p.threads.length, 0);
    const option = (value, text, sum) =>
      element("option", shorten(text, 60) + " \u2014 " + percent(sum, data.total), { value });
    select.append(element("option", processes.length === 1 ? "All threads" : "All " + processes.length + " processes", { value: "all" }));
    for (const p of processes) {
      const pid = tasks.pid[p.task];
      if (processes.length > 1)
        select.append(option("p:" + p.task, strings[tasks.comm[p.task]] + (pid ? " " + pid : ""), p.sum));
      p.threads.sort((a, b) => b.sum - a.sum);
      for (const t of p.threads)
        select.append(option("t:" + t.task, "\u00a0\u00a0thread " + (strings[tasks.thread[t.task]] || "") + " " + tasks.tid[t.task], t.sum));
    }
    select.hidden = processes.length < 2 && threads < 2;
  }

  // ---- the table ---------------------------------------------------------------------------------

  const COLUMNS = [["self", "Self"], ["total", "Total"]];

  function tableHead() {
    const head = element("tr");
    for (const [id, text] of COLUMNS) {
      const th = element("th", "", { className: "number", scope: "col" });
      const button = element("button", text, { type: "button" });
      if (view.sort === id)
        th.setAttribute("aria-sort", "descending");
      button.addEventListener("click", () => {
        view.sort = id;
        showTable();
      });
      head.append(append(th, button));
    }
    head.append(element("th", ""));
    if (compared)
      head.append(element("th", "Change", { className: "number", scope: "col" }));
    head.append(element("th", "Function", { scope: "col" }), element("th", "Defined at", { scope: "col" }));
    return append(element("thead"), head);
  }

  function tableRow(f, sum) {
    const row = element("tr"), name = element("td", "", { className: "wide" });
    const dot = element("i", "", { className: "dot" });
    dot.style.background = colourOf(f);
    name.append(dot, element("button", shorten(nameOf(f), 300), { type: "button", className: "name" }));
    row.append(element("td", percent(sum.self[f], tree.root.value), { className: "number" }),
      element("td", percent(sum.total[f], tree.root.value), { className: "number" }),
      meter(sum.self[f], sum.total[f], tree.root.value));
    if (compared)
      row.append(element("td", deltaText(sum.total[f], sum.base[f]), { className: "number " + deltaClass(sum.total[f], sum.base[f]) }));
    row.append(name, element("td", shorten(placeText(f, funcs.line[f]), 300), { className: "place" }));
    row.addEventListener("click", () => {
      setView("icicle");
      setSearch(nameOf(f));
    });
    return row;
  }

  function showTable() {
    const sum = sumFunctions(), order = [];
    for (let f = 0; f < funcCnt; f++)
      if ((sum.total[f] || sum.base[f]) && (!hasMatches || matched[f]))
        order.push(f);
    const by = sum[view.sort], other = sum[view.sort === "self" ? "total" : "self"];
    order.sort((a, b) => by[b] - by[a] || other[b] - other[a] || a - b);
    const body = element("tbody");
    for (const f of order.slice(0, TABLE_ROWS))
      body.append(tableRow(f, sum));
    $("table").replaceChildren(append(element("table"), tableHead(), body));
    if (order.length > TABLE_ROWS)
      $("table").append(element("p", "and " + count(order.length - TABLE_ROWS) + " more", { className: "where" }));
  }

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
    pressed("regex", view.regex);
    $("stage").hidden = isTable;
    $("table").hidden = !isTable;
    showPath();
    showDetail();
    showKinds();
  }

  // Everything again, from the stacks; the zoom starts at the root.
  function rebuild() {
    applyHidden();
    buildTree();
    zooms = [];
    zoomed = tree.root;
    focused = hovered = null;
    lens.from = 0;
    lens.to = 1;
    search();
    refresh();
  }

  function refresh() {
    showControls();
    showTitle();
    $("tip").hidden = true;
    $("nothing").hidden = tree.root.value > 0 || tree.root.base > 0;
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
    view.picture = picture;
    refresh();
  }

  function toggleKind(kind) {
    if (!view.hidden.delete(kind))
      view.hidden.add(kind);
    rebuild();
    $("live").textContent = KINDS.find((k) => k.id === kind).text + (view.hidden.has(kind) ? " hidden" : " shown");
  }

  function setSearch(text) {
    view.search = text;
    $("search").value = text;
    search();
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
    if (tree && view.picture === "table")
      showTable();
    showDetail();
    redraw();
  }

  function toggle(name) {
    view[name] = !view[name];
    rebuild();
  }

  // ---- events ------------------------------------------------------------------------------------

  function nextMatch() {
    ensureLayout();
    const list = boxes.filter((b) => b.node.key >= 0 && matched[funcOfNode(b.node)]).map((b) => b.node);
    if (list.length)
      focus(list[(list.indexOf(focused) + 1) % list.length]);
  }

  function back() {
    if (zooms.length)
      zoom(zooms.pop(), false);
    else if (view.search)
      setSearch("");
    else if (focused)
      focus(null);
  }

  // To the box beside, in the row of the focused one.
  function sideways(by) {
    const row = rows[focused.depth] || [];
    const i = row.findIndex((b) => b.node === focused);
    return i >= 0 && row[i + by] ? row[i + by].node : focused;
  }

  function inwards() {
    expand(focused);
    const child = focused.children[0];
    return child && rows[child.depth] && rows[child.depth].some((b) => b.node === child) ? child : focused;
  }

  function move(key) {
    ensureLayout();
    if (!focused) {
      focus(zoomed);
      return;
    }
    const inner = isFlame() ? "ArrowUp" : "ArrowDown", outer = isFlame() ? "ArrowDown" : "ArrowUp";
    const target = key === inner ? inwards() : key === outer ? focused.parent || focused
      : sideways(key === "ArrowLeft" ? -1 : 1);
    focus(target);
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
    o: () => setView(isFlame() ? "icicle" : "flame"),
    f: () => setView(view.picture === "table" ? "icicle" : "table"),
    t: () => setTheme(view.theme === "dark" ? "light" : "dark"),
  };
  for (const k of KINDS)
    actions[k.key] = () => toggleKind(k.id);

  function onKey(event) {
    const typing = event.target.matches("input, select");
    if (event.ctrlKey || event.metaKey || event.altKey || typing || document.querySelector("dialog[open]"))
      return;
    if (event.target === canvas && event.key.startsWith("Arrow"))
      move(event.key);
    else if (event.target === canvas && event.key === "Enter" && focused)
      zoom(focused);
    else if (Object.hasOwn(actions, event.key))
      actions[event.key]();
    else
      return;
    event.preventDefault();
  }

  function onSearchKey(event) {
    if (event.key === "Enter") {
      nextMatch();
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
    if (!event.ctrlKey && Math.abs(event.deltaX) <= Math.abs(event.deltaY))
      return; // scrolls
    event.preventDefault();
    let to = span, from = lens.from + (event.ctrlKey ? 0 : span * event.deltaX / width);
    if (event.ctrlKey) {
      const at = (event.clientX - canvas.getBoundingClientRect().left) / width;
      to = Math.min(Math.max(span * Math.exp(event.deltaY / 200), 1e-9), 1);
      from = lens.from + at * (span - to);
    }
    lens.from = Math.min(Math.max(from, 0), 1 - to);
    lens.to = lens.from + to;
    stale = true;
    redraw();
  }

  function onMove(event) {
    const node = boxAt(event);
    if (node !== hovered) {
      hovered = node;
      canvas.style.cursor = node ? "pointer" : "default";
      redraw();
    }
    showTip(event);
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
      const node = boxAt(event);
      if (!node)
        return;
      zoom(node);
      focus(node);
      $("tip").hidden = true;
    });
    canvas.addEventListener("wheel", onWheel, { passive: false });
    stage.addEventListener("scroll", redraw);
    document.addEventListener("keydown", onKey);
    $("search").addEventListener("keydown", onSearchKey);
    $("search").addEventListener("input", () => setSearch($("search").value));
    $("regex").addEventListener("click", () => {
      view.regex = !view.regex;
      pressed("regex", view.regex);
      setSearch(view.search);
    });
    $("invert").addEventListener("click", () => toggle("inverted"));
    $("bylines").addEventListener("click", () => toggle("byLine"));
    for (const button of document.querySelectorAll("[data-view]"))
      button.addEventListener("click", () => setView(button.dataset.view));
    $("task").addEventListener("change", () => {
      view.task = $("task").value;
      rebuild();
      showGroups();
    });
    $("width").addEventListener("change", () => {
      view.width = $("width").value;
      rebuild();
    });
    $("theme").addEventListener("click", actions.t);
    $("help").addEventListener("click", actions["?"]);
    $("quality").addEventListener("click", () => $("facts").showModal());
    new ResizeObserver(refit).observe(stage);
  }

  function start() {
    const dark = window.matchMedia("(prefers-color-scheme: dark)");
    // In a frame of another page, that page knows.
    const wanted = location.hash.slice(1);
    view.theme = wanted === "dark" || wanted === "light" ? wanted : dark.matches ? "dark" : "light";
    document.documentElement.dataset.theme = view.theme;
    dark.addEventListener("change", () => setTheme(dark.matches ? "dark" : "light"));
    if (!places.line.some(Boolean))
      $("bylines").hidden = true;
    $("width").hidden = !compared;
    $("nothing").textContent = $("headline").textContent;
    showQuality();
    showTasks();
    rebuild();
    showGroups();
    listen();
  }

  start();
})();
