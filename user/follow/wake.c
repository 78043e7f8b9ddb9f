/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "follow/wake.h"

#include "base/clock.h"

uint64_t wake__gather_until(uint64_t looked_ns, uint32_t frequency_hz)
{
	uint64_t share = frequency_hz ? NS_PER_S / frequency_hz / WAKE_GATHER_SHARE : 0;
	uint64_t most = WAKE_GATHER_MS_MAX * NS_PER_MS;

	return looked_ns + (share < most ? share : most);
}

void wake__stir(struct wake *w, uint64_t now)
{
	w->calm_ns = now + WAKE_CALM_MS * NS_PER_MS;
}

bool wake__follow(const struct wake *w, uint64_t now, size_t restless)
{
	return restless || now < w->calm_ns;
}

void wake__coming(struct wake *w, uint32_t tgid, uint64_t time_ns)
{
	if (time_ns <= w->area_ns)
		return;
	w->area_tgid = tgid;
	w->area_ns = time_ns;
}

void wake__mapped(struct wake *w, uint32_t tgid, uint64_t time_ns)
{
	if (tgid == w->area_tgid && time_ns > w->area_ns)
		w->area_ns = 0;
}

uint64_t wake__await_ns(struct wake *w, uint64_t now)
{
	uint64_t age = now > w->area_ns ? now - w->area_ns : 0, at = 0;

	for (unsigned i = 0; w->area_ns && i < WAKE_AWAIT_ROUNDS; i++) {
		at += (WAKE_AWAIT_US * 1000ULL) << i;
		if (age < at)
			return at - age;
	}
	w->area_ns = 0; /* it was a file without code */
	return 0;
}
