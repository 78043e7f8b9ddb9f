// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The profile, as user/export/export_html.c wrote it into the element #profile: read, unpacked, and in columns by
// number: functions, places (a line of a function), tasks, stacks. A stack is a run of places, outermost first.
"use strict";

const PYTHON = 1, NATIVE = 2, KERNEL = 3, MARKER = 4, PLAIN = 5; // enum sym_kind
const PLUMBING = "plumbing"; // NATIVE, the glue of user/profile/glue.h
const PLUMBING_FRAME = 1, PLUMBING_BOX = 2; // enum flame_plumbing

const $ = (id) => document.getElementById(id);

// The profile, once openProfile() has it. Only setTime() changes it then: the value of each stack.
let data, strings, groups, compared, scale, weights;
let funcs, places, tasks, stacks, lastPython, curves;
let funcCnt, placeCnt, placeFunc, presentKinds;

// False: there is none, and the page says why.
async function openProfile() {
  showValue();
  data = await readProfile();
  if (!data)
    return false;
  ({ strings, groups, compared, scale, weights } = data);
  funcs = unpack(data.funcs, data.digits);
  places = unpack(data.places, data.digits);
  tasks = unpack(data.tasks, data.digits);
  stacks = unpackStacks(unpack(data.stacks, data.digits));
  lastPython = findLastPython(stacks, places, funcs);
  curves = data.curves ? unpackCurves(data.curves, data.digits) : null;
  funcCnt = funcs.name.length;
  placeCnt = places.func.length;
  placeFunc = Int32Array.from(places.func);
  presentKinds = findKinds();
  data.stacks = null;
  return true;
}

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
