/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/nearest.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define NAME_MAX_LEN 63 /* of words that are compared: modules have long names */

static size_t min3(size_t a, size_t b, size_t c)
{
	size_t least = a < b ? a : b;

	return least < c ? least : c;
}

/*
 * Letters to add, drop, replace or swap with their neighbour to make one word of the other: the
 * "optimal string alignment" distance, by its recurrence. Both words have at most NAME_MAX_LEN.
 */
static size_t distance(const char *a, const char *b)
{
	uint8_t d[NAME_MAX_LEN + 1][NAME_MAX_LEN + 1];
	size_t la = strlen(a), lb = strlen(b);

	for (size_t i = 0; i <= la; i++)
		d[i][0] = (uint8_t)i;
	for (size_t j = 0; j <= lb; j++)
		d[0][j] = (uint8_t)j;
	for (size_t i = 1; i <= la; i++) {
		for (size_t j = 1; j <= lb; j++) {
			bool same = a[i - 1] == b[j - 1];

			d[i][j] = (uint8_t)min3(d[i - 1][j] + 1, d[i][j - 1] + 1,
						d[i - 1][j - 1] + !same);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    d[i - 2][j - 2] + 1 < d[i][j])
				d[i][j] = (uint8_t)(d[i - 2][j - 2] + 1);
		}
	}
	return d[la][lb];
}

size_t nearest_name(const char *word, const char *const *names, size_t cnt)
{
	size_t least = NAME_MAX_LEN, best = cnt, len = strlen(word);

	if (len < 2 || len > NAME_MAX_LEN)
		return cnt;
	for (size_t i = 0; i < cnt; i++) {
		size_t d, name_len = strlen(names[i]);
		size_t longer = name_len > len ? name_len - len : len - name_len;

		/* As many letters as one is longer, unless it begins with the other. */
		if (name_len > NAME_MAX_LEN || (longer >= least && strncmp(names[i], word, len)))
			continue;
		d = strncmp(names[i], word, len) ? distance(word, names[i]) : 1;
		if (2 * d < strlen(names[i]) && d < least) {
			least = d;
			best = i;
		}
	}
	return best;
}
