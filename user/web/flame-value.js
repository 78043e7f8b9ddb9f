// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The value types of a run, if there are several: the address says which one is shown. The page is loaded anew to
// show another one.
"use strict";

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

function setValue(name) {
  const q = new URLSearchParams(stateText());
  if (name === values[0].dataset.value)
    q.delete("value");
  else
    q.set("value", name);
  history[framed ? "replaceState" : "pushState"](null, "", "#" + q);
  location.reload();
}
