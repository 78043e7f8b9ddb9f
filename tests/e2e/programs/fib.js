// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Computes until its stdin is closed.
let running = true;

function fibOfJs(n) {
	return n < 2 ? n : fibOfJs(n - 1) + fibOfJs(n - 2);
}

function turn() {
	fibOfJs(22);
	if (running)
		setImmediate(turn);
	else
		process.exit(0);
}

process.stdin.on("data", () => {});
process.stdin.on("end", () => { running = false; });
console.log("ready");
turn();
