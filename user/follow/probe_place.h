/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_PROBE_PLACE_H
#define PYPERF_PROBE_PLACE_H
/*
 * Where the breakpoints of a probe go, as the user names it, and what their hits must be like
 * (probe_rule.h):
 *
 *	uprobe:/lib/libc.so.6:malloc sum arg1 if arg1 > 4096
 *	uprobe:PATH:SYMBOL+OFFSET, uprobe:PATH:0xOFFSET
 *	usdt:/usr/bin/python3:python:gc__start
 *
 *	probe_place__parse(&place, "uprobe", text);
 *	spots = probe_place__find(&place, readers, pid);
 *	probe_set__add(&set, &place, spots, 0, pid, prog_fd);
 *	probe_spots__free(spots);
 *	... hits ...
 *	uprobe_list__close(&set.breakpoints);
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/reader.h"
#include "elf/elf.h"
#include "follow/probe_rule.h"
#include "follow/uprobe.h"

#define PROBE_TEXT_MAX 256

struct probe_place {
	char text[PROBE_TEXT_MAX]; /* all of it, as given */
	char path[PROBE_TEXT_MAX];
	char symbol[PROBE_TEXT_MAX]; /* "": `offset` is one of the file */
	uint64_t offset;
	bool exact;					     /* an offset was given */
	char provider[PROBE_TEXT_MAX], name[PROBE_TEXT_MAX]; /* of a static probe; else "" */
	struct probe_words words;
};

struct probe_spots {
	struct elf_file *ef;
	size_t cnt;
	struct probe_spot {
		uint64_t offset, semaphore; /* of the file; semaphore 0: none */
		bool emulated;		    /* by the kernel; otherwise a hit costs much more */
		struct probe_rule rule;
	} at[PROBE_SPOTS];
};

/* `kind`: "uprobe" or "usdt", `text`: what follows its colon. 0, or -EINVAL after one line. */
int probe_place__parse(struct probe_place *p, const char *kind, const char *text);
bool probe_place__is_usdt(const struct probe_place *p);
/*
 * "libc.so.6:malloc sum arg1" in `size` bytes, as much of it as there is room for; with `sum` if
 * there is one.
 */
void probe_place__name(const struct probe_place *p, char *out, size_t size);

/*
 * `pid`: the process by whose root the path goes, through `rs` (or NULL); -1: ours. NULL after a
 * message, and errno.
 */
struct probe_spots *probe_place__find(const struct probe_place *p, struct readers *rs, pid_t pid);
void probe_spots__free(struct probe_spots *s);

/* The breakpoints of all probes of a BPF object. */
struct probe_set {
	int rules_fd; /* its map probe_rules */
	bool cookies; /* the kernel tells its programs which breakpoint was hit */
	struct uprobe_list breakpoints;
};
/* The number of a breakpoint in probe_rules: of the probe `type`, at the place `spot` of it. */
uint32_t probe_set__number(const struct probe_set *s, uint32_t type, size_t spot);
/*
 * Sets the breakpoints of a probe, at which a program runs. `pid`: in this process; -1: in all. The
 * kernel counts in the semaphore of a static probe while a breakpoint is there, and takes it back
 * at any end. 0, or negative errno after a message.
 */
int probe_set__add(struct probe_set *s, const struct probe_place *place,
		   const struct probe_spots *spots, uint32_t type, pid_t pid, int prog_fd);

#endif /* PYPERF_PROBE_PLACE_H */
