// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The trees of the picture. A tree is made as far as it can be seen. Each stack is parked at the innermost
// node that was made for it. To expand a node is to move its stacks one frame on, into its children. So the
// work of a view grows with what is visible, not with the profile, and any view (hidden kinds, callers, lines,
// what calls one function and what it calls) is another way of stepping through the same stacks.
"use strict";

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

// Own, self and total time of each function, over all stacks that are shown; a stack counts once. Own as in
// user/profile/view.h: of the innermost Python function, else of the innermost native one.
function sumFunctions() {
  const column = () => new Float64Array(funcCnt);
  const sum = { own: column(), self: column(), total: column(), base: column() };
  const seen = new Int32Array(funcCnt).fill(-1);
  for (let s = 0; s < stacks.cnt; s++) {
    if (!inTask(s))
      continue;
    let f = -1, python = -1, native = -1; // the innermost ones
    for (let at = stacks.offset[s]; at < stacks.offset[s + 1]; at++) {
      if (!isShown(s, at))
        continue;
      f = placeFunc[stacks.elems[at]];
      if (isPython(funcs.kind[f]))
        python = f;
      else if (funcs.kind[f] === NATIVE)
        native = f;
      if (seen[f] === s)
        continue;
      seen[f] = s;
      sum.total[f] += stacks.value[s];
      sum.base[f] += stacks.base ? stacks.base[s] : 0;
    }
    if (f < 0)
      continue;
    sum.self[f] += stacks.value[s];
    sum.own[python >= 0 ? python : native >= 0 ? native : f] += stacks.value[s];
  }
  return sum;
}
