/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_CFI_FRAMES_H
#define PYPERF_CFI_FRAMES_H
/*
 * The CIEs and FDEs of a file: which text each FDE covers, and the state that its CIE begins with.
 *
 * An FDE may only name a CIE that was met as a record before it, so each CIE is run once. No FDE is
 * run here.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/cfi_read.h"
#include "elf/cfi_run.h"
#include "elf/elf.h"

#define FDE_DEBUG (1U << 31) /* in fde.pos: of .debug_frame; sections are smaller */

struct fde {
	uint64_t start; /* file offset */
	uint32_t size;
	uint32_t pos;
};

static inline uint64_t fde__end(const struct fde *fde)
{
	return fde->start + fde->size;
}

struct cfi_frames {
	const struct cfi_machine *m;
	struct cfi_section eh, debug; /* size 0: there is none, or it is not needed */
	const struct elf_segment *segments;
	size_t segment_cnt, segment; /* the last one that matched */
	struct fde *fdes;
	size_t fde_cnt, fde_cap;
	uint64_t bad_cnt; /* FDEs refused as damaged or unsupported */
	int err;
};

/* Empty, for the machine and the segments of the file, which must outlive it. */
void cfi_frames__init(struct cfi_frames *f, const struct elf_file *ef);
/* Frees copies of sections, and the lists. */
void cfi_frames__free(struct cfi_frames *f);
/* .eh_frame, and .debug_frame if there is one. -ENOENT: neither; or another negative errno. */
int cfi_frames__load(struct cfi_frames *f, const struct elf_file *ef);
/* Adds the CIEs and FDEs of one section, in its order. */
void cfi_frames__read(struct cfi_frames *f, struct cfi_section *sec);
/* All FDEs, by offset: of .eh_frame, and those of .debug_frame whose text it leaves open. */
void cfi_frames__read_all(struct cfi_frames *f);

/* By offset; of those that start there the longest first, of these the first in the section. */
int fde__cmp(const void *x, const void *y);

/* Reads the body of a CIE's record. It is bad if its FDEs cannot be read. */
void cie__init(const struct cfi_machine *m, const struct cfi_section *sec, struct cfi_reader r,
	       struct cie *cie);
/* Reads an FDE's body up to its instructions. False: damaged. */
bool cie__read_fde_range(const struct cfi_section *sec, const struct cie *cie, struct cfi_reader *r,
			 uint64_t *addr, uint64_t *size);
/* The CIE whose record is at `pos`, or NULL. */
const struct cie *cfi_section__cie(struct cfi_section *sec, uint32_t pos);

#endif /* PYPERF_CFI_FRAMES_H */
