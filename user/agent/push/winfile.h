/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_WINFILE_H
#define PYPERF_AGENT_WINFILE_H
/*
 * A window as bytes, for a file that the same machine reads again, perhaps after a power cut.
 *
 *	magic and version, CRC-32 of all that follows, numbers, id, labels ("name\0value\0"...),
 *	pprof
 *
 * Invariant: winfile__unpack() accepts only windows that winfile__pack() could have made; any other
 * bytes are -EBADMSG.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "store/window.h"

#define WINFILE_LABELS_MAX	64
#define WINFILE_LABELS_MAX_SIZE (64U << 10) /* bytes of all names and values */
#define WINFILE_PPROF_MAX_SIZE	(64U << 20)
#define WINFILE_MAX_SIZE	(WINFILE_PPROF_MAX_SIZE + WINFILE_LABELS_MAX_SIZE + 4096)

/*
 * Appends a window to `out`, whose err says if memory was short. 0, or -EINVAL: not a window, or
 * above the limits.
 */
int winfile__pack(const struct window *w, struct strbuf *out);

struct winfile {
	struct window w; /* points into `data` and `labels` */
	struct label labels[WINFILE_LABELS_MAX];
	void *data; /* owned */
};

/* Takes over `data`, also on failure. 0 or -EBADMSG. `f` must not be moved. */
int winfile__unpack(struct winfile *f, void *data, size_t size);
/*
 * Reads a window's labels and times, without the profile, out of the first bytes of a file of
 * `whole` bytes. The checksum cannot be known from them. f->w points into `data`, which stays the
 * caller's. 0 or -EBADMSG.
 */
#define WINFILE_PEEK_SIZE (WINFILE_LABELS_MAX_SIZE + 4096)
int winfile__peek(struct winfile *f, const void *data, size_t size, uint64_t whole);
void winfile__free(struct winfile *f);

#endif /* PYPERF_AGENT_WINFILE_H */
