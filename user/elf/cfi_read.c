/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Bytes, encoded pointers and records of .eh_frame and .debug_frame. See cfi_read.h. */
#include "elf/cfi_read.h"

#include <dwarf.h>
#include <stdlib.h>

uint64_t cfi_read_leb_rest(struct cfi_reader *r, uint64_t v, bool is_signed)
{
	unsigned int shift = 7;
	uint8_t byte;

	do {
		byte = read_u8(r);
		if (shift < 64)
			v |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	if (is_signed && (byte & 0x40) && shift < 64)
		v |= ~0ULL << shift;
	return v;
}

struct cfi_reader cfi_read_block(struct cfi_reader *r)
{
	uint64_t size = read_uleb(r);
	struct cfi_reader block = { .p = r->p };

	skip(r, size);
	block.end = r->bad ? block.p : r->p;
	return block;
}

uint64_t cfi_read_format(struct cfi_reader *r, uint8_t format)
{
	switch (format) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		return read_bytes(r, 8);
	case DW_EH_PE_udata2:
		return read_bytes(r, 2);
	case DW_EH_PE_udata4:
		return read_bytes(r, 4);
	case DW_EH_PE_sdata2:
		return (uint64_t)(int16_t)read_bytes(r, 2);
	case DW_EH_PE_sdata4:
		return (uint64_t)(int32_t)read_bytes(r, 4);
	case DW_EH_PE_uleb128:
		return read_uleb(r);
	case DW_EH_PE_sleb128:
		return (uint64_t)read_sleb(r);
	}
	r->bad = true;
	return 0;
}

uint64_t cfi_read_pointer(struct cfi_reader *r, const struct cfi_section *sec, uint8_t enc)
{
	uint64_t place = sec->addr + (uint64_t)(r->p - sec->data), v;

	if (enc == DW_EH_PE_aligned) {
		skip(r, -place & 7);
		return read_bytes(r, 8);
	}
	v = cfi_read_format(r, enc & 0x0f);
	switch (enc & 0x70) {
	case DW_EH_PE_absptr:
		break;
	case DW_EH_PE_pcrel:
		v += place;
		break;
	case DW_EH_PE_datarel:
		v += elf_file__pltgot(sec->ef);
		break;
	default: /* textrel, funcrel: nothing emits them for these machines */
		r->bad = true;
	}
	if (enc & DW_EH_PE_indirect && elf_file__read(sec->ef, v, &v, sizeof(v)))
		r->bad = true;
	return r->bad ? 0 : v;
}

bool cfi_read_record(const struct cfi_section *sec, uint32_t pos, struct cfi_record *rec)
{
	struct cfi_reader r = { .p = sec->data + pos, .end = sec->data + sec->size };
	uint64_t length = read_bytes(&r, 4), id, id_pos, distance;
	size_t id_size = 4;

	rec->pos = pos;
	if (length == UINT32_MAX) {
		length = read_bytes(&r, 8);
		id_size = 8;
	}
	if (r.bad || length > (uint64_t)(r.end - r.p))
		return false;
	r.end = r.p + length;
	rec->next = (uint32_t)(r.end - sec->data);
	rec->r = r;
	if (!length)
		return true;
	id_pos = (uint64_t)(r.p - sec->data);
	id = id_size == 4 ? read_bytes(&r, 4) : read_bytes(&r, 8);
	if (sec->debug) {
		rec->cie = id == (id_size == 4 ? UINT32_MAX : UINT64_MAX);
		rec->cie_pos = id < id_pos ? (uint32_t)id : NO_CIE;
	} else {
		distance = id;
		rec->cie = id == 0;
		rec->cie_pos = distance <= id_pos ? (uint32_t)(id_pos - distance) : NO_CIE;
	}
	if (r.bad) /* too short for an id: skipped as an FDE without a CIE */
		rec->cie_pos = NO_CIE;
	rec->r = r;
	return true;
}

int cfi_section__load(const struct elf_file *ef, bool debug, struct cfi_section *sec)
{
	struct elf_section s;
	uint8_t *data;
	int err;

	*sec = (struct cfi_section){ .ef = ef, .debug = debug };
	if (debug ? !elf_file__section_info(ef, ".debug_frame", &s) || s.nobits
		  : !elf_file__eh_frame_info(ef, &s))
		return 0;
	err = elf_file__copy_section(ef, &s, CFI_MAX_SECTION, &data, &sec->size);
	if (err) {
		sec->size = 0;
		return err;
	}
	sec->data = data;
	sec->addr = s.addr;
	return 0;
}

void cfi_section__free(struct cfi_section *sec)
{
	free((void *)sec->data);
	free(sec->cies);
}
