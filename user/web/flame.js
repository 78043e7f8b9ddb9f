// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The flame graph page. It draws what user/export/export_html.c wrote into the element #profile, and loads
// nothing. Parts, in this order: the profile; what of it is shown; the trees; search; colours; the picture;
// the panels around it; the address; events.
//
// The tree is made as far as it can be seen. Each stack is parked at the innermost node that was
// made for it. To expand a node is to move its stacks one frame on, into its children. So the work of
// a view grows with what is visible, not with the profile, and any view (hidden kinds, callers,
// lines, what calls one function and what it calls) is another way of stepping through the same stacks.
//
// What is shown is in the fragment of the address (writeAddress()), so that a reload, Back and a copied link
// show it again.
"use strict";

(async () => {
  const PYTHON = 1, NATIVE = 2, KERNEL = 3, MARKER = 4, PLAIN = 5; // enum sym_kind
  const PLUMBING = "plumbing"; // NATIVE, the glue of user/profile/glue.h
  const PLUMBING_FRAME = 1, PLUMBING_BOX = 2; // enum flame_plumbing
  const ROW = 20; // pixels
  const SLIVER = 0.6; // boxes narrower than these pixels are not drawn
  const LABEL_CHARS = 400;
  const TABLE_ROWS = 400;
  const LINE_ROWS = 40;
  const TIP_FRAMES = 16;
  const PRINT_HEIGHT = 4000; // pixels
  const CHAIN_LEAST = 3; // frames that one box is worth
  const CHAIN_SLACK = 4; // pixels
  const JUMPS = 4; // callers and callees in the panel
  const SLOW_SEARCH = 40; // milliseconds

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

  // Of each stack, where its innermost Python frame is; a stack without one shows its plumbing.
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

  // Bytes of gzip in base64 -> text
  async function unzip(base64) {
    const binary = atob(base64), bytes = new Uint8Array(binary.length);
    for (let i = 0; i < binary.length; i++)
      bytes[i] = binary.charCodeAt(i);
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  }

  // The value types of a run, if there are several: the address says which one is shown. The page is loaded anew to
  // show another one.
  const values = [...document.querySelectorAll("template[data-value]")];
  const valueOfAddress = () => {
    const name = new URLSearchParams(location.hash.slice(1)).get("value");
    return Math.max(0, values.findIndex((v) => v.dataset.value === name));
  };
  const shownValue = valueOfAddress();

  // The words of the value that is shown.
  function showValue() {
    const select = $("value");
    select.hidden = values.length < 2;
    for (const { dataset } of values)
      select.append(new Option(dataset.value, dataset.value));
    if (!shownValue)
      return;
    const [headline, counted, account] = values[shownValue].content.cloneNode(true).children;
    $("headline").textContent = headline.textContent;
    $("counted").textContent = counted.textContent;
    $("account").replaceWith(account);
    account.id = "account";
    select.selectedIndex = shownValue;
  }

  // Null: the page says why.
  async function readProfile() {
    const { type, textContent } = $("profile" + (shownValue || ""));
    if (type !== "application/gzip")
      return JSON.parse(textContent);
    if (typeof DecompressionStream === "undefined") {
      sayInstead("This browser cannot unpack the profile in this page. Chromium 80, Firefox 113 and Safari 16.4 can, and later ones.");
      return null;
    }
    try {
      return JSON.parse(await unzip(textContent));
    } catch {
      sayInstead("The profile in this page is damaged: is the file complete?");
      return null;
    }
  }

  // In place of the picture.
  function sayInstead(text) {
    $("nothing").textContent = text;
    $("nothing").className = "";
  }

  // What each stack had at each point: [stack * points + point].
  function unpackCurves(packed, digits) {
    const { when, rss, peak, change } = unpack(packed, digits), n = when.length;
    const values = change;
    for (let i = 0; i < values.length; i++)
      values[i] = (i % n ? values[i - 1] : 0) + (values[i] % 2 ? -(values[i] - 1) / 2 : values[i] / 2);
    return { when, rss, values, cnt: n, peak: nearestTo(when, peak[0]) };
  }

  function nearestTo(when, time) {
    let best = 0;
    for (let i = 1; i < when.length; i++)
      if (Math.abs(when[i] - time) < Math.abs(when[best] - time))
        best = i;
    return best;
  }

  showValue();
  const data = await readProfile();
  if (!data)
    return;
  const { strings, groups, compared, scale, weights } = data;
  const funcs = unpack(data.funcs, data.digits), places = unpack(data.places, data.digits);
  const tasks = unpack(data.tasks, data.digits), stacks = unpackStacks(unpack(data.stacks, data.digits));
  const lastPython = findLastPython(stacks, places, funcs);
  const curves = data.curves ? unpackCurves(data.curves, data.digits) : null;
  const funcCnt = funcs.name.length, placeCnt = places.func.length;
  const placeFunc = Int32Array.from(places.func);
  const presentKinds = findKinds();
  data.stacks = null;

  function findKinds() {
    const kinds = new Set();
    for (const place of new Set(stacks.elems)) {
      kinds.add(funcs.kind[placeFunc[place]]);
      if (funcs.plumbing[placeFunc[place]] === PLUMBING_FRAME)
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
    { id: PLUMBING, key: "i", text: "Interpreter", title: "The interpreter's own frames; else one box stands for those at the end of a stack" },
    { id: KERNEL, key: "k", text: "Kernel" },
    { id: MARKER, key: "m", text: "Markers", title: "What a thread waited for; why a stack, or a part of it, ends early" },
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
    themed: false, // by the address or a person, not by the system
    sort: "self",
    middle: -1, // the function of a sandwich
    point: curves ? curves.cnt - 1 : 0, // in time
    byTask: false, // the first row has a box for each thread, or process
    chains: true, // frames that are alone in their rows become one box
  };

  const HIDE = 1, HIDE_WITH_PYTHON = 2;
  const hide = new Uint8Array(placeCnt);
  const matched = new Uint8Array(funcCnt);
  let hasMatches = false;

  function applyHidden() {
    for (let i = 0; i < placeCnt; i++) {
      const f = placeFunc[i];
      hide[i] = view.hidden.has(funcs.kind[f]) ? HIDE
        : funcs.plumbing[f] === PLUMBING_BOX && !view.hidden.has(PLUMBING) ? HIDE
        : funcs.plumbing[f] === PLUMBING_FRAME && view.hidden.has(PLUMBING) ? HIDE_WITH_PYTHON : 0;
    }
  }

  const isShown = (stack, at) => {
    const h = hide[stacks.elems[at]];
    return h === 0 || (h === HIDE_WITH_PYTHON && lastPython[stack] < stacks.offset[stack]);
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
    constructor(tree, key, parent) {
      this.tree = tree;
      this.key = key; // func, or place by lines; -1: the root; TASK_KEY - task
      this.parent = parent;
      this.depth = parent && key >= 0 ? parent.depth + 1 : 0; // in frames
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

  const TASK_KEY = -2; // and less
  const ABSENT = -2; // of a tree, a stack that is not in it

  let tree = null; // of all stacks of the task
  let sandwich = null; // { callers, callees }: trees with view.middle as their root
  const all = { value: 0, base: 0 }; // of the task: what shares are of

  // `by`: 1 from callers to callees, -1 back. `func`: the root's, or -1. `before`: of a stack, where it stands
  // before its first step.
  function makeTree(by, func, before) {
    const keys = view.byLine ? placeCnt : funcCnt;
    const t = { by, func, before, next: new Int32Array(stacks.cnt).fill(-1), at: new Int32Array(stacks.cnt),
      child: new Array(keys), stamp: new Int32Array(keys), serial: 0, byTask: func < 0 && view.byTask, root: null };
    const root = t.root = new Node(t, -1, null);
    for (let i = stacks.cnt - 1; i >= 0; i--) {
      if (!inTask(i) || (t.at[i] = before(i)) === ABSENT)
        continue;
      root.value += stacks.value[i];
      root.base += stacks.base ? stacks.base[i] : 0;
      t.next[i] = root.parked;
      root.parked = i;
    }
    root.weight = weigh(root.value, root.base);
    return t;
  }

  function buildTree() {
    tree = view.inverted ? makeTree(-1, -1, (s) => stacks.offset[s + 1])
      : makeTree(1, -1, (s) => stacks.offset[s] - 1);
    all.value = tree.root.value;
    all.base = tree.root.base;
  }

  // A stack is divided where the function is outermost, so a recursion is below it, and counts once.
  function buildSandwich() {
    const outermost = (s) => {
      for (let at = stacks.offset[s]; at < stacks.offset[s + 1]; at++)
        if (placeFunc[stacks.elems[at]] === view.middle && isShown(s, at))
          return at;
      return ABSENT;
    };
    sandwich = view.middle < 0 ? null
      : { callers: makeTree(-1, view.middle, outermost), callees: makeTree(1, view.middle, outermost) };
    if (sandwich && !sandwich.callees.root.value && !sandwich.callees.root.base) {
      sandwich = null; // it is hidden, or not in this process
      view.middle = -1;
    }
  }

  const isEnd = (t, stack, at) => at === (t.by < 0 ? stacks.offset[stack] - 1 : stacks.offset[stack + 1]);

  // Moves a stack to its next frame that is shown. False: it has none.
  function step(t, stack) {
    let at = t.at[stack] + t.by;
    while (!isEnd(t, stack, at) && !isShown(stack, at))
      at += t.by;
    t.at[stack] = at;
    return !isEnd(t, stack, at);
  }

  function childFor(node, stack) {
    const t = node.tree, place = stacks.elems[t.at[stack]];
    const key = view.byLine ? place : placeFunc[place];
    if (t.stamp[key] !== t.serial) {
      t.stamp[key] = t.serial;
      t.child[key] = new Node(t, key, node);
      node.children.push(t.child[key]);
    }
    return t.child[key];
  }

  // The root's children are threads.
  function splitTasks(root) {
    const t = root.tree, children = new Map();
    for (let s = root.parked, following; s >= 0; s = following) {
      following = t.next[s];
      const task = stacks.task[s];
      if (!children.has(task))
        children.set(task, new Node(t, TASK_KEY - task, root));
      const child = children.get(task);
      child.value += stacks.value[s];
      child.base += stacks.base ? stacks.base[s] : 0;
      t.next[s] = child.parked;
      child.parked = s;
    }
    root.children = [...children.values()];
    root.parked = -1;
    spread(root);
  }

  function expand(node) {
    if (node.children)
      return;
    const t = node.tree;
    if (t.byTask && !node.parent) {
      splitTasks(node);
      return;
    }
    node.children = [];
    t.serial++;
    for (let s = node.parked, following; s >= 0; s = following) {
      following = t.next[s];
      const value = stacks.value[s], base = stacks.base ? stacks.base[s] : 0;
      if (step(t, s)) {
        const child = childFor(node, s);
        child.value += value;
        child.base += base;
        t.next[s] = child.parked;
        child.parked = s;
      } else {
        node.self += value;
        node.selfBase += base;
        t.next[s] = node.ended;
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

  // -1: a node that is no function.
  const funcOfNode = (node) => node.key < 0 ? node.tree.func : view.byLine ? placeFunc[node.key] : node.key;

  function nodeName(node) {
    const func = funcOfNode(node);
    if (node.key <= TASK_KEY)
      return taskName(TASK_KEY - node.key);
    if (func < 0)
      return view.task === "all" ? "all" : $("task").selectedOptions[0].textContent.split(" \u2014 ")[0].trim();
    const line = node.key >= 0 && view.byLine ? places.line[node.key] : 0;
    return nameOf(func) + (line ? ":" + line : "");
  }

  // "web 42, MainThread 43"
  function taskName(task) {
    const id = (name, number) => [name, number || ""].filter(Boolean).join(" ");
    return [id(strings[tasks.comm[task]], tasks.pid[task]), id(strings[tasks.thread[task]], tasks.tid[task])].filter(Boolean).join(", ");
  }

  // Outermost first, as the program called them.
  function pathOf(node) {
    const path = [];
    for (let n = node; n; n = n.parent)
      if (funcOfNode(n) >= 0)
        path.unshift(n);
    return node.tree.by < 0 ? path.reverse() : path;
  }

  // Every stack that goes through a node.
  function stacksOf(node, use) {
    const todo = [node];
    while (todo.length) {
      const n = todo.pop();
      for (let s = n.parked; s >= 0; s = n.tree.next[s])
        use(s);
      for (let s = n.ended; s >= 0; s = n.tree.next[s])
        use(s);
      for (const child of n.children || [])
        todo.push(child);
    }
  }

  // The place of a stack at a depth of its tree, and whether it calls nothing that is shown.
  function placeAt(node, stack) {
    const t = node.tree;
    let at = t.before(stack);
    for (let depth = node.depth; depth > 0; depth--)
      for (at += t.by; !isEnd(t, stack, at) && !isShown(stack, at);)
        at += t.by;
    let inner = at + 1;
    while (inner < stacks.offset[stack + 1] && !isShown(stack, inner))
      inner++;
    return { place: stacks.elems[at], last: inner === stacks.offset[stack + 1] };
  }

  // Samples by line of the function at a node.
  function linesOf(node) {
    const lines = new Map();
    stacksOf(node, (s) => {
      const { place: p, last: isSelf } = placeAt(node, s);
      const line = places.line[p] || 0;
      const sum = lines.get(line) || { line, self: 0, total: 0, base: 0, text: places.text ? strings[places.text[p]] : "" };
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

  // All strings in lower case, one after the other, so that one search of the browser's finds a text in all of them.
  // Each begins behind a character that is in none.
  const SEAM = "\u0000";
  let joined = null, seams = null; // seams[i]: where string i begins

  function join() {
    if (joined !== null)
      return;
    const lower = strings.map((s) => s.toLowerCase());
    seams = new Int32Array(lower.length + 1);
    for (let i = 0; i < lower.length; i++)
      seams[i + 1] = seams[i] + lower[i].length + 1;
    joined = lower.join(SEAM) + SEAM;
  }

  function markText(text, hits) {
    const needle = text.toLowerCase();
    join();
    for (let at = joined.indexOf(needle), i = 0; at >= 0; at = joined.indexOf(needle, seams[i])) {
      while (seams[i + 1] <= at)
        i++;
      hits[i++] = 1;
    }
  }

  // Null: it is not valid.
  function makeExpression(text) {
    try {
      return new RegExp(text, "iu");
    } catch {
      return null;
    }
  }

  // By string, whether it matches; null: nothing is searched for, or the expression is not valid.
  function findStrings() {
    const hits = new Uint8Array(strings.length), expression = view.regex ? makeExpression(view.search) : null;
    if (!view.search || (view.regex && !expression))
      return null;
    if (expression)
      strings.forEach((s, i) => hits[i] = expression.test(s) ? 1 : 0);
    else
      markText(view.search, hits);
    return hits;
  }

  function search() {
    const hits = findStrings();
    hasMatches = hits !== null;
    for (let f = 0; f < funcCnt; f++)
      matched[f] = hasMatches && (hits[funcs.name[f]] || hits[funcs.file[f]]) ? 1 : 0;
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
    out.textContent = percent(sumMatched(), all.value) + " matched";
  }

  // ---- numbers and texts -------------------------------------------------------------------------

  const count = (n) => Math.round(n).toLocaleString("en-US");

  function percent(part, whole) {
    const share = whole ? 100 * part / whole : 0;
    return share > 0 && share < 0.05 ? "<0.1%" : share.toFixed(1) + "%";
  }

  // "825 samples, 8.33 s", "3 page faults", "2.35 s waiting"
  function samples(n) {
    if (data.seconds)
      return (n / data.hz).toFixed(2) + data.seconds;
    const text = count(n) + " " + (n === 1 ? data.one : data.many);
    return data.hz ? text + ", " + (n / data.hz).toFixed(2) + " s" : text;
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

  // ---- the picture -------------------------------------------------------------------------------

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

  stage.prepend(room);
  room.append(canvas);

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

  // ---- the panels --------------------------------------------------------------------------------

  function sentence(node) {
    const box = boxOf.get(node), shares = ", " + percent(node.value, all.value) + ", " + samples(node.value);
    if (box && box.chain)
      return boxName(box) + shares + ", Enter shows them";
    return nodeName(node) + shares + (funcOfNode(node) < 0 ? "" : ", " + kindText(funcOfNode(node)));
  }

  function deltaText(value, base) {
    const whole = all.value, before = all.base * scale;
    const points = (whole ? 100 * value / whole : 0) - (before ? 100 * base * scale / before : 0);
    return (points > 0 ? "+" : points < 0 ? "\u2212" : "\u00b1") + Math.abs(points).toFixed(1) + " points";
  }

  function deltaClass(value, base) {
    const d = delta(value, base);
    return d > 0 ? "up" : d < 0 ? "down" : "";
  }

  function tipLines(box) {
    if (box.chain) {
      const names = box.chain.slice(0, TIP_FRAMES).map((node) => element("p", shorten(nodeName(node), 100)));
      if (box.chain.length > TIP_FRAMES)
        names.push(element("p", "and " + (box.chain.length - TIP_FRAMES) + " more"));
      return names;
    }
    const f = funcOfNode(box.node);
    if (f < 0)
      return [];
    const line = view.byLine && box.node.key >= 0 ? places.line[box.node.key] : funcs.line[f];
    return [element("p", shorten(placeText(f, line), 300)), element("p", kindText(f))];
  }

  function showTip(event, box) {
    const tip = $("tip");
    tip.hidden = !box;
    if (!box)
      return;
    const { value, base } = box.node;
    const share = element("p", percent(value, all.value) + " \u00b7 " + samples(value), { className: "share" });
    if (compared)
      share.append(" \u00b7 ", element("span", deltaText(value, base), { className: deltaClass(value, base) }));
    tip.replaceChildren(element("b", shorten(boxName(box), 300)), share, ...tipLines(box));
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
    const list = element("dl", "", { className: "numbers" }), back = node.tree.by < 0;
    expand(node);
    number(list, back ? "Of all" : "Total", node.value, all.value, samples(node.value));
    if (!back)
      number(list, "Self", node.self, all.value, samples(node.self));
    if (node.parent && funcOfNode(node.parent) >= 0)
      number(list, back ? "Of the callee" : "Of the caller", node.value, node.parent.value, "");
    if (compared) {
      number(list, "Before", node.base, all.base, count(node.base) + " " + data.many);
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

  function lineRow(file, line, most) {
    return append(element("tr"),
      element("td", (file + ":" + (line.line || "?")), { className: "place" }),
      element("td", line.text, { className: "code" }),
      element("td", percent(line.self, all.value), { className: "number" }),
      element("td", percent(line.total, all.value), { className: "number" }),
      meter(line.self, line.total, most));
  }

  function showLines(node) {
    const func = funcOfNode(node);
    const lines = linesOf(node);
    const table = element("table", "", { id: "lines" });
    if (!fileOf(func) || (lines.length === 1 && !lines[0].line))
      return element("p", "");
    table.append(element("caption", "Lines of this function here: self, and with what they call" +
      (lines.length > LINE_ROWS ? " (the first " + LINE_ROWS + " of " + lines.length + ")" : "")));
    const head = append(element("tr"), element("th", "Line"), element("th", lines.some((l) => l.text) ? "Source" : ""),
      element("th", "Self", { className: "number" }), element("th", "Total", { className: "number" }), element("th", ""));
    const body = element("tbody");
    const most = lines.reduce((n, l) => Math.max(n, l.total), 1);
    const file = shorten(fileOf(func).replace(/^.*\//u, ""), 60);
    for (const line of lines.slice(0, LINE_ROWS))
      body.append(lineRow(file, line, most));
    return append(table, append(element("thead"), head), body);
  }

  // Of a function: how many samples each of its callers and callees has with it; the innermost call of a stack counts.
  function neighbours(func) {
    const callers = new Map(), callees = new Map(), add = (map, f, n) => f >= 0 && map.set(f, (map.get(f) || 0) + n);
    for (let s = 0; s < stacks.cnt; s++) {
      if (!inTask(s))
        continue;
      let caller = -1, callee = -1, last = -1, found = false;
      for (let at = stacks.offset[s]; at < stacks.offset[s + 1]; at++) {
        const f = placeFunc[stacks.elems[at]];
        if (!isShown(s, at))
          continue;
        if (f === func) {
          found = true;
          caller = last === func ? caller : last;
          callee = -1;
        } else if (found && callee < 0) {
          callee = f;
        }
        last = f;
      }
      add(callers, caller, found ? stacks.value[s] : 0);
      add(callees, callee, stacks.value[s]);
    }
    return [callers, callees].map((map) => [...map].sort((a, b) => b[1] - a[1]).slice(0, JUMPS));
  }

  // To each of the heaviest of them, with all its callers and callees.
  function jumpsOf(func) {
    const [callers, callees] = neighbours(func);
    return [["Called by", callers], ["Calls", callees]].filter(([, list]) => list.length).map(([title, list]) => {
      const bar = element("p", title, { className: "jumps near" });
      for (const [f, sum] of list) {
        const button = append(element("button", shorten(nameOf(f), 40), { type: "button", title: placeText(f, funcs.line[f]) }), " ",
          element("small", percent(sum, all.value)));
        button.addEventListener("click", () => setMiddle(f));
        bar.append(button);
      }
      return bar;
    });
  }

  // Works in a sandboxed frame and without https, where there is no navigator.clipboard.
  function copy(text, what) {
    const put = (event) => {
      event.clipboardData.setData("text/plain", text);
      event.preventDefault();
    };
    document.addEventListener("copy", put);
    const done = document.execCommand("copy");
    document.removeEventListener("copy", put);
    $("live").textContent = done ? what + " copied" : "The browser does not allow to copy";
  }

  // As a traceback has it: outermost first, each with its file and line.
  function stackText(node) {
    return pathOf(node).map((n) => {
      const func = funcOfNode(n), line = view.byLine && n.key >= 0 ? places.line[n.key] : funcs.line[func];
      const where = placeText(func, line);
      return nameOf(func) + (where ? " (" + where + ")" : "");
    }).join("\n");
  }

  function detailButtons(node) {
    const bar = element("p", "", { className: "jumps" });
    const add = (id, text, title, act) => {
      const button = element("button", text, { type: "button", id, title });
      button.addEventListener("click", act);
      bar.append(button);
    };
    if (view.middle !== funcOfNode(node))
      add("sandwich", "Callers and callees", "All that calls this function, and all that it calls (s)", () => setMiddle(funcOfNode(node)));
    add("copyname", "Copy name", "Copy the name of the function", () => copy(nameOf(funcOfNode(node)), "Name"));
    add("copystack", "Copy stack", "Copy the stack, outermost first (y)", () => copy(stackText(node), "Stack"));
    return bar;
  }

  function showDetail() {
    const detail = $("detail");
    const had = !detail.hidden;
    detail.hidden = !focused || funcOfNode(focused) < 0 || view.picture === "table" || Boolean(boxOf.get(focused)?.chain);
    if (!detail.hidden) {
      const func = funcOfNode(focused), left = element("div");
      const dot = element("i");
      dot.style.background = compared ? nodeColour(focused) : colourOf(func);
      left.append(append(element("p", "", { className: "kind" }), dot, element("span", kindText(func))),
        element("h2", nodeName(focused)), element("p", placeText(func, funcs.line[func]), { className: "where" }), showNumbers(focused),
        detailButtons(focused), ...jumpsOf(func));
      detail.replaceChildren(left, showLines(focused));
    }
    if (had === detail.hidden)
      refit(); // the stage has another size
  }

  function showPath() {
    const bar = $("path"), path = [];
    for (let node = zoomed; node; node = node.parent)
      path.unshift(node);
    bar.hidden = (path.length < 2 && !sandwich) || view.picture === "table";
    if (sandwich) {
      const out = element("button", nodeName(tree.root), { type: "button" });
      out.addEventListener("click", () => setMiddle(-1));
      bar.replaceChildren(out, element("span", "\u203a", { "aria-hidden": "true" }),
        element("b", shorten(nameOf(view.middle), 120)), element("span", "\u00a0with its callers and callees"));
      return;
    }
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
    const node = sandwich ? sandwich.callees.root : zoomed;
    document.title = node === tree.root ? pageTitle
      : shorten(nodeName(node), 80) + " " + percent(node.value, all.value) + " \u2014 " + pageTitle;
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
      dot.style.background = kindColour(k.id, data.stdlib === 0 ? 1 : 0, 0, k.id === PYTHON && funcs.own.some(Boolean));
      chip.append(dot, k.text);
      chip.addEventListener("click", () => toggleKind(k.id));
      return chip;
    });
    $("kinds").replaceChildren(...chips);
  }

  // Packages by the samples whose innermost Python frame is theirs.
  function showGroups() {
    const sums = new Map(), own = new Set();
    let all = 0;
    for (let s = 0; s < stacks.cnt; s++) {
      if (!inTask(s))
        continue;
      all += stacks.value[s];
      if (lastPython[s] < stacks.offset[s])
        continue;
      const func = placeFunc[stacks.elems[lastPython[s]]], group = funcs.group[func];
      if (funcs.own[func])
        own.add(group);
      sums.set(group, (sums.get(group) || 0) + stacks.value[s]);
    }
    const top = [...sums].sort((a, b) => b[1] - a[1]).slice(0, 6);
    $("groups").replaceChildren(...(compared ? deltaLegend() : top.map(([group, sum]) => {
      const chip = element("button", "", { type: "button", className: "chip", title: "Search for " + shorten(groups[group], 80) });
      const dot = element("i");
      dot.style.background = kindColour(PYTHON, group, 0, own.has(group));
      chip.append(dot, element(own.has(group) ? "b" : "span", shorten(groups[group], 24)), element("small", percent(sum, all)));
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
        writeAddress();
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
    row.append(element("td", percent(sum.self[f], all.value), { className: "number" }),
      element("td", percent(sum.total[f], all.value), { className: "number" }),
      meter(sum.self[f], sum.total[f], all.value));
    if (compared)
      row.append(element("td", deltaText(sum.total[f], sum.base[f]), { className: "number " + deltaClass(sum.total[f], sum.base[f]) }));
    row.append(name, element("td", shorten(placeText(f, funcs.line[f]), 300), { className: "place" }));
    row.addEventListener("click", () => setMiddle(f));
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

  // ---- over time ---------------------------------------------------------------------------------

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

  // ---- the address -------------------------------------------------------------------------------

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
    put("sort", view.sort !== "self" && view.sort);
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

  function setValue(name) {
    const q = new URLSearchParams(stateText());
    if (name === values[0].dataset.value)
      q.delete("value");
    else
      q.set("value", name);
    history[framed ? "replaceState" : "pushState"](null, "", "#" + q);
    location.reload();
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
    view.sort = oneOf(["self", "total"], "sort");
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

  start();
})();
