/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Any bytes as a saved heap: what is taken can be compared and shown. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heap/saved.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void show(const struct heap_saved *before, const struct heap_saved *after)
{
	FILE *f = fopen("/dev/null", "w");
	struct heap_diff d;

	if (!f || heap_diff__make(&d, before, after) || heap_diff__text(f, &d, 80, true, false) ||
	    heap_diff__json(f, &d))
		abort();
	heap_diff__free(&d);
	fclose(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct heap_saved none = { 0 };
	struct heap_saved s;

	if (!heap_saved__parse(&s, (const char *)data, size)) {
		for (size_t i = 1; i < s.cnt; i++)
			if (strcmp(s.types[i - 1].name, s.types[i].name) >= 0)
				abort();
		show(&none, &s);
		show(&s, &none);
	}
	heap_saved__free(&s);
	return 0;
}
