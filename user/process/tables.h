/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TABLES_H
#define PYPERF_TABLES_H
/*
 * Manages the BPF map `tables`: which index holds which unwind table, and how a table gets there
 * without a wait. Only this module writes the map.
 *
 * An update of a map of maps returns only after a grace period of RCU, 8 to 25 ms, longer than many
 * processes live. Writing into an existing inner map takes no grace period. So:
 *
 *	start		tables of the running processes, of their exact size, and spares, empty
 *			inner maps of a few sizes, are all published at once, by threads that share
 *			the wait
 *	live		a new table is written into the smallest spare that holds it, and is valid
 *			at once; a thread, the filler, replaces the spare
 *	... no spare	a map of its own is handed to the filler: the table is "coming", and its
 *			user gets the index later, see tables__usable()
 *
 *	index:	FREE -> COMING -> READY -> LEAVING -> FREE	a table
 *		FREE -> FILLING -> SPARE -> READY		a spare that becomes one
 *
 * A thread for each update, with a check whether the element is there before the update returns,
 * would need no spares. Measured on a busy machine, every second such thread started 3.5 ms late.
 *
 * A table that was removed is never written again: its map is deleted, and its index is given out
 * when the kernel has waited for the programs that may still read it.
 *
 * Threads: all functions are for one thread. The filler sees only whole batches of jobs, which it
 * owns between tables__flush() and the next tables__collect() after they are done.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPARE_BYTES_DEFAULT (4ULL << 20)

struct tables_stats {
	uint64_t spare_bytes;	/* of spares that are there or on their way */
	uint64_t spares;	/* there */
	uint64_t spares_used;	/* ever */
	uint64_t spares_missed; /* tables for which no spare was left */
	uint64_t waits;		/* grace periods that the caller waited for */
};

struct tables;

/*
 * `cap`: entries of the map; index 0 is not used. `spare_bytes`: limit for spares; 0: the default;
 * less than the smallest spare: no spares. NULL and errno.
 */
struct tables *tables__new(int tables_fd, uint32_t cap, uint64_t spare_bytes);
/* Waits for the filler, at most a few grace periods. Tables in the kernel stay there. */
void tables__free(struct tables *t);

/* From now on no call waits. 0, or negative errno: all calls work, with waits. */
int tables__go_live(struct tables *t);

/* The size in bytes of a spare for so many words; 0: there is none. */
uint64_t tables__spare_bytes(const struct tables *t, size_t word_cnt);
bool tables__full(const struct tables *t);
/*
 * Adds a table of whole chunks of words and returns its index. `spare`: use a spare, if there is
 * one. *bytes: its size in the kernel. -ENOSPC, or other negative errno.
 */
int tables__add(struct tables *t, const uint32_t *words, size_t word_cnt, bool spare,
		uint64_t *bytes);
/*
 * 1: BPF programs find the table under this index; 0: it is coming; negative errno: it will not
 * come.
 */
int tables__usable(const struct tables *t, uint32_t index);
/* Removes a table that is not coming. No image may name it any more. */
void tables__remove(struct tables *t, uint32_t index);

/* Takes over the jobs that the filler has finished. */
void tables__collect(struct tables *t);
/*
 * Starts the filler on the tables that were added. Waits for them before tables__go_live(), does
 * not wait after it.
 */
int tables__flush(struct tables *t);

const struct tables_stats *tables__stats(const struct tables *t);

#endif /* PYPERF_TABLES_H */
