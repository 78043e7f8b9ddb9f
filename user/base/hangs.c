// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "base/hangs.h"

static struct hang_note *find_note(struct hang_notes *h, uint32_t uid, bool stops)
{
	struct hang_note *oldest = h->notes;

	for (unsigned int i = 0; i < h->cnt; i++) {
		struct hang_note *n = &h->notes[i];

		if (n->uid == uid && n->stops == stops)
			return n;
		if (n->said.since_ns < oldest->said.since_ns)
			oldest = n;
	}
	if (h->cnt < HANGS_USERS_MAX)
		oldest = &h->notes[h->cnt++];
	*oldest = (struct hang_note){ .uid = uid, .stops = stops };
	return oldest;
}

static void add_process(struct hang_note *n, uint32_t tgid)
{
	for (unsigned int i = 0; i < n->tgid_cnt; i++)
		if (n->tgids[i] == tgid)
			return;
	if (n->tgid_cnt < HANGS_PROCESSES_MAX)
		n->tgids[n->tgid_cnt++] = tgid;
}

bool hangs__note(struct hang_notes *h, uint32_t uid, uint32_t tgid, bool stops, uint64_t now_ns,
		 unsigned int *processes)
{
	struct hang_note *n = find_note(h, uid, stops);
	uint64_t held;

	add_process(n, tgid);
	if (!rate_limit__allows_at(&n->said, 1, HANGS_SPAN_NS, now_ns, &held))
		return false;
	*processes = n->tgid_cnt;
	n->tgid_cnt = 0;
	return true;
}
