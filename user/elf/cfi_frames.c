/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* CIEs and FDEs. See cfi_frames.h. */
#include "elf/cfi_frames.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"

/* ---- CIEs ---------------------------------------------------------------------------------- */

/* The letters behind 'z'. False: the encoding of the FDEs' pointers cannot be known. */
static bool read_augmentation(const struct cfi_section *sec, struct cfi_reader *r, const char *aug,
			      struct cie *cie)
{
	struct cfi_reader data = cfi_read_block(r);

	for (; *aug; aug++) {
		switch (*aug) {
		case 'R':
			cie->fde_enc = read_u8(&data);
			break;
		case 'L':
			read_u8(&data);
			break;
		case 'P': /* its value is of no use; an indirect one may point anywhere */
			cfi_read_pointer(&data, sec, read_u8(&data) & ~DW_EH_PE_indirect);
			break;
		case 'S':
			cie->signal = true;
			break;
		case 'B': /* aarch64: return addresses are signed with key B */
		case 'G': /* aarch64: the frame's memory is tagged */
			break;
		default: /* its data has a length that is not known */
			return !strchr(aug, 'R') && !data.bad;
		}
	}
	return !data.bad;
}

static bool read_cie_fields(const struct cfi_machine *m, const struct cfi_section *sec,
			    struct cfi_reader *r, struct cie *cie)
{
	const char *aug;
	uint8_t version = read_u8(r);
	uint64_t ra;

	aug = (const char *)r->p;
	if (!memchr(aug, '\0', (size_t)(r->end - r->p)))
		return false;
	skip(r, strlen(aug) + 1);
	if (version != 1 && version != 3 && version != 4)
		return false;
	if (version == 4 && (read_u8(r) != 8 || read_u8(r) != 0))
		return false; /* other addresses, or segments */
	cie->code_align = read_uleb(r);
	cie->data_align = read_sleb(r);
	ra = version == 1 ? read_u8(r) : read_uleb(r);
	if (r->bad || ra != m->reg[SLOT_RA] || cie->code_align > UINT32_MAX)
		return false;
	cie->augmented = aug[0] == 'z';
	if (cie->augmented)
		return read_augmentation(sec, r, aug + 1, cie);
	return !aug[0];
}

void cie__init(const struct cfi_machine *m, const struct cfi_section *sec, struct cfi_reader r,
	       struct cie *cie)
{
	struct cfi_run run = { .m = m, .sec = sec, .cie = cie };

	cie->fde_enc = DW_EH_PE_absptr;
	cie->initial = (struct cfi_state){ .cfa.kind = CFA_UNSET };
	run.st = cie->initial;
	cie->bad = !read_cie_fields(m, sec, &r, cie) || r.bad || !cfi_run__instructions(&run, r, 0);
	cie->initial = run.st;
}

static void add_cie(struct cfi_frames *f, struct cfi_section *sec, const struct cfi_record *rec)
{
	struct cie *cie;

	if (ARRAY_GROW(sec->cies, sec->cie_cap, sec->cie_cnt, SIZE_MAX)) {
		f->err = -ENOMEM;
		return;
	}
	cie = &sec->cies[sec->cie_cnt++];
	memset(cie, 0, sizeof(*cie));
	cie->pos = rec->pos;
	cie__init(f->m, sec, rec->r, cie);
}

const struct cie *cfi_section__cie(struct cfi_section *sec, uint32_t pos)
{
	size_t low = 0, high = sec->cie_cnt;

	if (sec->cie_last < sec->cie_cnt && sec->cies[sec->cie_last].pos == pos)
		return &sec->cies[sec->cie_last];
	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (sec->cies[mid].pos < pos)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == sec->cie_cnt || sec->cies[low].pos != pos)
		return NULL;
	sec->cie_last = low;
	return &sec->cies[low];
}

bool cie__read_fde_range(const struct cfi_section *sec, const struct cie *cie, struct cfi_reader *r,
			 uint64_t *addr, uint64_t *size)
{
	*addr = cfi_read_pointer(r, sec, cie->fde_enc);
	if (cie->fde_enc == DW_EH_PE_aligned)
		*size = read_bytes(r, 8);
	else
		*size = cfi_read_format(r, cie->fde_enc & 0x0f);
	if (cie->augmented)
		cfi_read_block(r);
	return !r->bad;
}

/* ---- FDEs ---------------------------------------------------------------------------------- */

static const struct elf_segment *text_segment(struct cfi_frames *f, uint64_t addr)
{
	for (size_t i = 0; i < f->segment_cnt; i++) {
		const struct elf_segment *s = &f->segments[(f->segment + i) % f->segment_cnt];

		if (s->exec && addr >= s->addr && addr - s->addr < s->file_size) {
			f->segment = (size_t)(s - f->segments);
			return s;
		}
	}
	return NULL;
}

static void add_fde(struct cfi_frames *f, struct cfi_section *sec, struct cfi_record *rec)
{
	const struct cie *cie = cfi_section__cie(sec, rec->cie_pos);
	const struct elf_segment *s;
	uint64_t addr, size;
	struct fde *fde;

	if (!cie || cie->bad || !cie__read_fde_range(sec, cie, &rec->r, &addr, &size)) {
		f->bad_cnt++;
		return;
	}
	/* Linkers leave address 0 in the FDEs of functions that they have dropped. */
	s = addr && size ? text_segment(f, addr) : NULL;
	if (!s)
		return;
	if (size > s->file_size - (addr - s->addr))
		size = s->file_size - (addr - s->addr);
	if (size > UINT32_MAX) {
		f->bad_cnt++;
		return;
	}
	if (ARRAY_GROW(f->fdes, f->fde_cap, f->fde_cnt, SIZE_MAX)) {
		f->err = -ENOMEM;
		return;
	}
	fde = &f->fdes[f->fde_cnt++];
	fde->start = s->off + (addr - s->addr);
	fde->size = (uint32_t)size;
	fde->pos = rec->pos | (sec->debug ? FDE_DEBUG : 0);
}

/* Terminators in the middle come from objects linked behind crtend.o: read on. */
void cfi_frames__read(struct cfi_frames *f, struct cfi_section *sec)
{
	struct cfi_record rec = { 0 };

	for (uint32_t pos = 0; !f->err && sec->size - pos >= 4; pos = rec.next) {
		if (!cfi_read_record(sec, pos, &rec)) {
			f->bad_cnt++;
			break;
		}
		if (rec.r.p == rec.r.end)
			continue;
		if (rec.cie)
			add_cie(f, sec, &rec);
		else
			add_fde(f, sec, &rec);
	}
}

int fde__cmp(const void *x, const void *y)
{
	const struct fde *a = x, *b = y;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	if (a->size != b->size)
		return a->size > b->size ? -1 : 1;
	return a->pos < b->pos ? -1 : a->pos > b->pos;
}

/* Sorts the FDEs from `first` on. */
static void sort_fdes(struct cfi_frames *f, size_t first)
{
	for (size_t i = first + 1; i < f->fde_cnt; i++) {
		if (fde__cmp(&f->fdes[i - 1], &f->fdes[i]) > 0) {
			qsort(f->fdes + first, f->fde_cnt - first, sizeof(*f->fdes), fde__cmp);
			return;
		}
	}
}

/* Drops those behind the first `cnt`, which cover what these have left open, where they do not. */
static void fill_gaps(struct cfi_frames *f, size_t cnt)
{
	size_t at = 0, kept = cnt;
	uint64_t covered = 0;

	for (size_t i = cnt; i < f->fde_cnt; i++) {
		const struct fde *fde = &f->fdes[i];

		/* Up to here, by the FDEs that start at or below this one's end. */
		for (; at < cnt && f->fdes[at].start < fde__end(fde); at++) {
			if (fde__end(&f->fdes[at]) > covered)
				covered = fde__end(&f->fdes[at]);
		}
		if (covered <= fde->start)
			f->fdes[kept++] = *fde;
	}
	f->fde_cnt = kept;
}

void cfi_frames__read_all(struct cfi_frames *f)
{
	size_t cnt;

	cfi_frames__read(f, &f->eh);
	sort_fdes(f, 0);
	cnt = f->fde_cnt;
	if (!f->debug.size)
		return;
	cfi_frames__read(f, &f->debug);
	sort_fdes(f, cnt);
	fill_gaps(f, cnt);
	sort_fdes(f, 0);
}

/* ---- All of a file ------------------------------------------------------------------------- */

void cfi_frames__init(struct cfi_frames *f, const struct elf_file *ef)
{
	*f = (struct cfi_frames){ .m = cfi_machine__of(ef) };
	f->segments = elf_file__segments(ef, &f->segment_cnt);
}

/* .eh_frame alone is what nearly every file has. Without it .debug_frame must do. */
int cfi_frames__load(struct cfi_frames *f, const struct elf_file *ef)
{
	int err = cfi_section__load(ef, false, &f->eh);
	int debug_err = cfi_section__load(ef, true, &f->debug);

	if (err || f->eh.size)
		return err;
	return debug_err ? debug_err : f->debug.size ? 0 : -ENOENT;
}

void cfi_frames__free(struct cfi_frames *f)
{
	cfi_section__free(&f->eh);
	cfi_section__free(&f->debug);
	free(f->fdes);
}
