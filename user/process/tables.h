/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TABLES_H
#define PYPERF_TABLES_H
/*
 * The BPF map `tables`: which index holds the unwind table of what, and how one gets there without
 * a wait. This module alone writes the map.
 *
 * An update of a map of maps returns only after a grace period of RCU, 8 to 25 ms, longer than many
 * processes live. To write into an inner map that is there already takes none. So:
 *
 *	start		tables of what runs already, of their exact size, and spares, empty inner
 *			maps of a few sizes: all published at once, by threads that share the wait
 *	live		a new table is written into the smallest spare that holds it, and is good at
 *			once; a thread, the filler, replaces the spare
 *	... no spare	a map of its own is handed to the filler: the table is "coming", its user is
 *			told the index later, see tables__usable()
 *
 *	index:	FREE -> COMING -> READY -> LEAVING -> FREE	a table
 *		FREE -> FILLING -> SPARE -> READY		a spare that becomes one
 *
 * A thread for each update, and looking whether the element is there before the update returns,
 * would need no spares. Measured on a busy machine, every second one started 3.5 ms late.
 *
 * A table that was removed is never written again: its map is deleted, and its index is given out
 * when the kernel has waited for the programs that may still read it.
 *
 * Threads: all functions are for one thread. The filler sees whole batches of jobs only, which are
 * its own between tables__flush() and the next tables__collect() after they are done.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPARE_BYTES_DEFAULT (4ULL << 20)

struct tables_stats {
	uint64_t spare_bytes;	/* of spares: there, or on their way */
	uint64_t spares;	/* there */
	uint64_t spares_used;	/* ever */
	uint64_t spares_missed; /* tables for which there was none */
	uint64_t waits;		/* grace periods that the caller waited for */
};

struct tables;

/*
 * `cap`: entries of the map; index 0 is not used. `spare_bytes`: at most that much for spares; 0:
 * the default. What is less than the smallest spare makes none. NULL and errno.
 */
struct tables *tables__new(int tables_fd, uint32_t cap, uint64_t spare_bytes);
/* Waits for the filler, at most a few grace periods. What is in the kernel stays there. */
void tables__free(struct tables *t);

/* From now on nothing waits. 0, or negative errno: then all works, with waits. */
int tables__go_live(struct tables *t);

/* The bytes that a spare for so many words takes; 0: there is none. */
uint64_t tables__spare_bytes(const struct tables *t, size_t word_cnt);
bool tables__full(const struct tables *t);
/*
 * A new table of whole chunks of words: its index. `spare`: take one, if there is one. *bytes is
 * what it takes in the kernel. -ENOSPC, or other negative errno.
 */
int tables__add(struct tables *t, const uint32_t *words, size_t word_cnt, bool spare,
		uint64_t *bytes);
/* 1: programs that are told of it find it; 0: it is coming; negative errno: it will not come. */
int tables__usable(const struct tables *t, uint32_t index);
/* Of one that is not coming. No image may name it any more. */
void tables__remove(struct tables *t, uint32_t index);

/* Takes over what the filler has done. */
void tables__collect(struct tables *t);
/* Sees to it that what was added arrives: waits before tables__go_live(), does not after it. */
int tables__flush(struct tables *t);

const struct tables_stats *tables__stats(const struct tables *t);

#endif /* PYPERF_TABLES_H */
