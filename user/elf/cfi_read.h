/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_CFI_READ_H
#define PYPERF_CFI_READ_H
/*
 * Reads the bytes of a section of call frame information (CFI): .eh_frame, or .debug_frame.
 *
 * A reader never leaves its range: it notes that it should have, and gives 0 from then on. So a
 * caller may read several values and look at `bad` once.
 *
 * Sources: DWARF 5 section 6.4; Linux Standard Base, Core, 10.6 (.eh_frame).
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "elf/elf.h"

#define CFI_MAX_SECTION (512U << 20) /* positions in it are 31 bits wide */

/* ---- Bytes -------------------------------------------------------------------------------- */

struct cfi_reader {
	const uint8_t *p, *end;
	bool bad; /* read past the end: the values since are 0 */
};

/* Inlined with a constant size, or memcpy() is a call. */
static inline __attribute__((always_inline)) uint64_t read_bytes(struct cfi_reader *r, size_t size)
{
	uint64_t v = 0;

	if ((size_t)(r->end - r->p) < size) {
		r->bad = true;
		r->p = r->end;
		return 0;
	}
	memcpy(&v, r->p, size); /* both machines are little-endian */
	r->p += size;
	return v;
}

static inline uint8_t read_u8(struct cfi_reader *r)
{
	if (r->p == r->end) {
		r->bad = true;
		return 0;
	}
	return *r->p++;
}

static inline void skip(struct cfi_reader *r, uint64_t size)
{
	if ((uint64_t)(r->end - r->p) < size) {
		r->bad = true;
		r->p = r->end;
	} else {
		r->p += size;
	}
}

/* What follows a first byte that says that it is not the last. */
uint64_t cfi_read_leb_rest(struct cfi_reader *r, uint64_t v, bool is_signed);

static inline uint64_t read_uleb(struct cfi_reader *r)
{
	uint8_t byte = read_u8(r);

	return byte & 0x80 ? cfi_read_leb_rest(r, byte & 0x7f, false) : byte;
}

static inline int64_t read_sleb(struct cfi_reader *r)
{
	uint8_t byte = read_u8(r);

	if (byte & 0x80)
		return (int64_t)cfi_read_leb_rest(r, byte & 0x7f, true);
	return (int64_t)(byte & 0x40 ? byte | ~0x7fULL : byte);
}

/* A size and as many bytes. */
struct cfi_reader cfi_read_block(struct cfi_reader *r);

/* ---- The section and its pointers --------------------------------------------------------- */

struct cie;

struct cfi_section {
	const struct elf_file *ef;
	const uint8_t *data;
	uint64_t addr, size;
	bool debug;	  /* .debug_frame */
	struct cie *cies; /* ascending by pos */
	size_t cie_cnt, cie_cap, cie_last;
};

/*
 * Loads a copy of the section, inflated: not through elf_file__section(), whose copy would stay
 * with the file. 0, also when there is none: size 0.
 */
int cfi_section__load(const struct elf_file *ef, bool debug, struct cfi_section *sec);
void cfi_section__free(struct cfi_section *sec);

/* The value part of an encoded pointer. */
uint64_t cfi_read_format(struct cfi_reader *r, uint8_t format);
/* A pointer of the section: the place of the pointer and DT_PLTGOT are its possible bases. */
uint64_t cfi_read_pointer(struct cfi_reader *r, const struct cfi_section *sec, uint8_t enc);

#define NO_CIE UINT32_MAX

/* One record: its body is [r.p, r.end), behind the CIE id or pointer. */
struct cfi_record {
	uint32_t pos, next;
	bool cie;
	uint32_t cie_pos; /* of an FDE; NO_CIE: nowhere */
	struct cfi_reader r;
};

/* False: no record here that makes sense, nor behind it. A record of size 0 is a terminator. */
bool cfi_read_record(const struct cfi_section *sec, uint32_t pos, struct cfi_record *rec);

#endif /* PYPERF_CFI_READ_H */
