/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_HEAP_REF_LABELS_H
#define PYPERF_HEAP_REF_LABELS_H
/*
 * Tells single objects apart for people: functions, classes, modules and code objects by their own
 * name, all others by what holds them, and if that is a dict, by what holds the dict. The heap is
 * read once for each of the two.
 */
#include <stddef.h>

#include "heap/referrers.h"

#define REF_LABEL_STEPS 2

struct ref_label {
	char *own; /* owned; or NULL */
	struct ref_group by[REF_LABEL_STEPS];
	size_t step_cnt;
};

/*
 * Fills in the labels of `cnt` objects, as far as they are known; ref_labels__free() in any case.
 * The types of holders live in the scan of `src`. 0 or negative errno.
 */
int ref_labels__find(const struct ref_source *src, const struct heap_object *objects, size_t cnt,
		     struct ref_label *labels);
void ref_labels__free(struct ref_label *labels, size_t cnt);

#endif /* PYPERF_HEAP_REF_LABELS_H */
