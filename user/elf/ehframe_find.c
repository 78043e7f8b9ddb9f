/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The FDE of an address, by .eh_frame_hdr or by all FDEs. See ehframe.h. */
#include "elf/ehframe.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "elf/cfi_frames.h"

/*
 * .eh_frame_hdr (Linux Standard Base, Core, 10.6.2): version 1, three encodings, eh_frame_ptr, the
 * number of FDEs, and then pairs of (address, FDE), ascending, relative to the header. This form is
 * what every linker writes.
 */
#define HDR_TABLE 12
#define HDR_PAIR  8
#define ENC_REL4  (DW_EH_PE_datarel | DW_EH_PE_sdata4)

static void get_pair(const struct elf_section *hdr, uint32_t i, uint64_t *addr, uint64_t *fde)
{
	int32_t pair[2];

	memcpy(pair, hdr->data + HDR_TABLE + (size_t)i * HDR_PAIR, sizeof(pair));
	*addr = hdr->addr + (uint64_t)(int64_t)pair[0];
	*fde = hdr->addr + (uint64_t)(int64_t)pair[1];
}

/* The header and the number of its pairs. False: there is none that can be searched. */
static bool read_hdr(const struct elf_file *ef, struct elf_section *hdr, uint32_t *cnt)
{
	const uint8_t *head;

	/* Read as a whole: a search by pread() made 3 ms of the analysis of an interpreter. */
	if (!elf_file__eh_frame_hdr(ef, hdr) || hdr->size < HDR_TABLE)
		return false;
	head = hdr->data;
	if (head[0] != 1 || head[1] != (DW_EH_PE_pcrel | DW_EH_PE_sdata4) ||
	    head[2] != DW_EH_PE_udata4 || head[3] != ENC_REL4)
		return false;
	memcpy(cnt, head + 8, sizeof(*cnt));
	return *cnt <= (hdr->size - HDR_TABLE) / HDR_PAIR;
}

/* The address of the last FDE that starts at or below `addr`. 1: found, 0: none, -1: no table. */
static int search_hdr(const struct elf_file *ef, uint64_t addr, uint64_t *fde)
{
	struct elf_section hdr;
	uint32_t low = 0, high;
	uint64_t start, found;

	if (!read_hdr(ef, &hdr, &high))
		return -1;
	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		get_pair(&hdr, mid, &start, &found);
		if (start <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	if (!low)
		return 0;
	get_pair(&hdr, low - 1, &start, fde);
	return 1;
}

/* The range of the FDE that the table says is at the address `fde`. */
static bool fde_range(const struct cfi_frames *f, uint64_t fde, uint64_t *addr, uint64_t *size)
{
	struct cfi_record rec, of_cie;
	struct cie cie = { 0 };

	if (fde < f->eh.addr || fde - f->eh.addr >= f->eh.size ||
	    !cfi_read_record(&f->eh, (uint32_t)(fde - f->eh.addr), &rec) || rec.r.p == rec.r.end ||
	    rec.cie || rec.cie_pos == NO_CIE || !cfi_read_record(&f->eh, rec.cie_pos, &of_cie) ||
	    of_cie.r.p == of_cie.r.end || !of_cie.cie)
		return false;
	cie__init(f->m, &f->eh, of_cie.r, &cie);
	return !cie.bad && cie__read_fde_range(&f->eh, &cie, &rec.r, addr, size);
}

static bool open_eh_frame(struct cfi_frames *f, const struct elf_file *ef)
{
	struct elf_section s;

	if (!elf_file__eh_frame(ef, &s) || s.size > CFI_MAX_SECTION)
		return false;
	f->eh = (struct cfi_section){ .ef = ef, .data = s.data, .addr = s.addr, .size = s.size };
	return true;
}

const struct fde_range *fde_range__find(const struct fde_range *ranges, size_t cnt, uint64_t addr)
{
	size_t low = 0, high = cnt;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (ranges[mid].start <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low && addr < ranges[low - 1].end ? &ranges[low - 1] : NULL;
}

/* The end of the FDE at `fde` that the table says starts at `start`. False: it says otherwise. */
static bool end_of_fde(const struct cfi_frames *f, uint64_t fde, uint64_t start, uint64_t *end)
{
	uint64_t addr, size;

	if (!fde_range(f, fde, &addr, &size) || addr != start)
		return false;
	*end = start + size;
	return *end > start;
}

/*
 * Reads the `cnt` entries of `hdr`. Returns how many of them make sense, or 0 if they are not
 * ascending.
 */
static size_t read_ranges(const struct cfi_frames *f, const struct elf_section *hdr, uint32_t cnt,
			  struct fde_range *out)
{
	bool exact = cnt <= EHFRAME_RANGES_MAX;
	uint64_t fde, next = 0, unused;
	size_t n = 0;

	for (uint32_t i = 0; i < cnt; i++) {
		struct fde_range *r = &out[n];

		get_pair(hdr, i, &r->start, &fde);
		if (n && r->start < r[-1].start)
			return 0;
		if (i + 1 < cnt)
			get_pair(hdr, i + 1, &next, &unused);
		r->end = next;
		if ((exact || i + 1 == cnt) && !end_of_fde(f, fde, r->start, &r->end))
			continue;
		n++;
	}
	return n;
}

int ehframe__ranges(const struct elf_file *ef, struct fde_range **ranges, size_t *cnt)
{
	struct cfi_frames f;
	struct elf_section hdr;
	uint32_t n;

	*cnt = 0;
	cfi_frames__init(&f, ef);
	if (!read_hdr(ef, &hdr, &n) || !n || !open_eh_frame(&f, ef))
		return -ENOENT;
	*ranges = malloc((size_t)n * sizeof(**ranges));
	if (!*ranges)
		return -ENOMEM;
	*cnt = read_ranges(&f, &hdr, n, *ranges);
	free(f.eh.cies);
	if (*cnt)
		return 0;
	free(*ranges);
	*ranges = NULL;
	return -ENOENT;
}

/* 1: found, 0: not covered, -1: the table is not there or makes no sense. */
static int fde_by_hdr(const struct cfi_frames *f, uint64_t addr, uint64_t *start, uint64_t *end)
{
	uint64_t fde, size;
	int found = search_hdr(f->eh.ef, addr, &fde);

	if (found != 1)
		return found;
	if (!fde_range(f, fde, start, &size) || *start > addr)
		return -1;
	*end = *start + size;
	return addr - *start < size;
}

/* By all FDEs, for files without a table: the one that the table's rows would be from. */
static bool fde_by_scan(struct cfi_frames *f, struct cfi_section *sec, uint64_t addr,
			uint64_t *start, uint64_t *end)
{
	const struct fde *best = NULL;
	uint64_t off;

	if (!elf_file__addr_to_off(sec->ef, addr, &off))
		return false;
	f->fde_cnt = 0;
	cfi_frames__read(f, sec);
	for (size_t i = 0; i < f->fde_cnt; i++) {
		const struct fde *fde = &f->fdes[i];

		if (off >= fde->start && off - fde->start < fde->size &&
		    (!best || fde__cmp(fde, best) < 0))
			best = fde;
	}
	if (!best)
		return false;
	*start = addr - (off - best->start);
	*end = *start + best->size;
	return true;
}

static bool fde_in_eh_frame(struct cfi_frames *f, const struct elf_file *ef, uint64_t addr,
			    uint64_t *start, uint64_t *end)
{
	int found;

	if (!open_eh_frame(f, ef))
		return false;
	found = fde_by_hdr(f, addr, start, end);
	return found < 0 ? fde_by_scan(f, &f->eh, addr, start, end) : found;
}

bool ehframe__fde_at(const struct elf_file *ef, uint64_t addr, uint64_t *start, uint64_t *end)
{
	struct cfi_frames f;
	bool found;

	cfi_frames__init(&f, ef);
	found = fde_in_eh_frame(&f, ef, addr, start, end);
	if (!found && !cfi_section__load(ef, true, &f.debug) && f.debug.size)
		found = fde_by_scan(&f, &f.debug, addr, start, end);
	free(f.eh.cies);
	cfi_section__free(&f.debug);
	free(f.fdes);
	return found;
}
