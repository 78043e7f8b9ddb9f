// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// What of the profile is shown: kinds of frames, a task, and what the search finds. `view` is all that a person can
// choose; flame-address.js writes it into the address.
"use strict";

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
  sort: "own",
  middle: -1, // the function of a sandwich
  point: 0, // in time
  byTask: false, // the first row has a box for each thread, or process
  chains: true, // frames that are alone in their rows become one box
};

const HIDE = 1, HIDE_WITH_PYTHON = 2;
let hide, matched; // by place, by function
let hasMatches = false;

function initView() {
  hide = new Uint8Array(placeCnt);
  matched = new Uint8Array(funcCnt);
}

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
