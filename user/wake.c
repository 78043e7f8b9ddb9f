/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "wake.h"

#include "clock.h"

uint64_t wake__gather_until(uint64_t looked_ns, uint32_t frequency_hz)
{
	uint64_t share = frequency_hz ? NS_PER_S / frequency_hz / WAKE_GATHER_SHARE : 0;
	uint64_t most = WAKE_GATHER_MS_MAX * NS_PER_MS;

	return looked_ns + (share < most ? share : most);
}

void wake__others(struct wake *w, uint64_t time_ns)
{
	if (time_ns > w->others_ns)
		w->others_ns = time_ns;
}

void wake__lost(struct wake *w)
{
	if (w->halved < WAKE_HALVED)
		w->halved++;
}

bool wake__look(struct wake *w, uint64_t now)
{
	uint64_t lull = WAKE_LULL_MS * NS_PER_MS >> w->halved;
	bool others = now < w->others_ns + lull / 2;

	if (w->ours)
		w->heed_until_ns = now + WAKE_HEED_MS * NS_PER_MS;
	w->ours = false;
	if (now < w->heed_until_ns || (!others && now >= w->lull_until_ns))
		w->lull = false;
	if (!w->lull)
		w->lull_until_ns = 0;
	else if (now >= w->lull_until_ns)
		w->lull_until_ns = now + lull;
	return w->lull;
}
