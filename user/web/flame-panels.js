// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The panels around the picture: tip, detail, path, chips, tasks; and the table of functions. Each show...()
// writes one of them from the profile and the view.
"use strict";

const TABLE_ROWS = 400;
const LINE_ROWS = 40;
const TIP_FRAMES = 16;
const JUMPS = 4; // callers and callees in the panel

// ---- the panels --------------------------------------------------------------------------------

function sentence(node) {
  const box = boxOf.get(node), shares = ", " + percent(node.value, all.value) + ", " + amount(node.value);
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
  const share = element("p", percent(value, all.value) + " \u00b7 " + amount(value), { className: "share" });
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
  number(list, back ? "Of all" : "Total", node.value, all.value, amount(node.value));
  if (!back)
    number(list, "Self", node.self, all.value, amount(node.self));
  if (node.parent && funcOfNode(node.parent) >= 0)
    number(list, back ? "Of the callee" : "Of the caller", node.value, node.parent.value, "");
  if (compared) {
    number(list, data.before, node.base, all.base, count(node.base) + " " + data.many);
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
  return [[-1, "less than " + data.before.toLowerCase()], [0, "no clear difference"], [1, "more"]].map(([d, text]) => {
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

const COLUMNS = [
  ["own", "Own", "In the function, and in the native and kernel code that it calls: as the report's table"],
  ["self", "Self", "In the function itself"],
  ["total", "Total", "In the function and in all that it calls"],
];

function tableHead() {
  const head = element("tr");
  for (const [id, text, title] of COLUMNS) {
    const th = element("th", "", { className: "number", scope: "col" });
    const button = element("button", text, { type: "button", title });
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
  for (const [id] of COLUMNS)
    row.append(element("td", percent(sum[id][f], all.value), { className: "number" }));
  row.append(meter(sum.own[f], sum.total[f], all.value));
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
  const by = sum[view.sort], other = sum[view.sort === "total" ? "own" : "total"];
  order.sort((a, b) => by[b] - by[a] || other[b] - other[a] || a - b);
  const body = element("tbody");
  for (const f of order.slice(0, TABLE_ROWS))
    body.append(tableRow(f, sum));
  $("table").replaceChildren(append(element("table"), tableHead(), body));
  if (order.length > TABLE_ROWS)
    $("table").append(element("p", "and " + count(order.length - TABLE_ROWS) + " more", { className: "where" }));
}
