/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "follow/readcode.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/reader.h"

#define NAME_MAX_BYTES	(64U << 10)
#define LINES_MAX_BYTES (16U << 20)

static int read_u64(struct readers *rs, uint32_t tgid, uint64_t addr, uint64_t *value)
{
	return reader__read(rs, tgid, value, sizeof(*value), addr);
}

/* The object that a field of the code object points to must be the one announced. */
static int check_field(struct readers *rs, const struct ev_code *ev, uint16_t offset,
		       enum blob_kind kind)
{
	uint64_t now;
	int err = read_u64(rs, ev->tgid, ev->addr + offset, &now);

	if (err)
		return err;
	return now == ev->blob[kind].uaddr ? 0 : -ESTALE;
}

static int check_code(struct readers *rs, const struct ev_code *ev, const struct py_layout *lay)
{
	uint16_t name = lay->code_qualname != PY_OFF_NONE ? lay->code_qualname : lay->code_name;
	int32_t line;
	int err = check_field(rs, ev, name, BLOB_NAME);

	if (!err)
		err = check_field(rs, ev, lay->code_filename, BLOB_FILENAME);
	if (!err)
		err = check_field(rs, ev, lay->code_linetable, BLOB_LINETABLE);
	if (!err)
		err = reader__read(rs, ev->tgid, &line, sizeof(line),
				   ev->addr + lay->code_firstlineno);
	if (!err && line != ev->firstlineno)
		err = -ESTALE;
	return err;
}

/* Size, width and place of the data of a str (cpython Include/cpython/unicodeobject.h). */
static int string_shape(struct readers *rs, const struct ev_code *ev, const struct py_layout *lay,
			uint64_t addr, struct blob_info *info, uint64_t *data)
{
	uint64_t length;
	uint32_t state = 0, kind, ascii, compact;
	int err = read_u64(rs, ev->tgid, addr + lay->str_length, &length);

	if (!err)
		err = reader__read(rs, ev->tgid, &state, sizeof(state), addr + lay->str_state);
	if (err)
		return err;
	kind = lay->str == PY_STR_STATE_T14 ? (state >> 8) & 7 : (state >> 2) & 7;
	ascii = lay->str == PY_STR_STATE_T14 ? (state >> 12) & 1 : (state >> 6) & 1;
	compact = lay->str == PY_STR_STATE_T14 ? (state >> 11) & 1 : (state >> 5) & 1;
	if ((kind != 1 && kind != 2 && kind != 4) || !compact || length > NAME_MAX_BYTES)
		return -EFAULT;
	info->width = (uint8_t)kind;
	info->flags = ascii ? BLOB_ASCII : 0;
	info->size = (uint32_t)length * kind;
	*data = addr + (ascii ? lay->str_ascii : lay->str_compact);
	return 0;
}

static int bytes_shape(struct readers *rs, const struct ev_code *ev, const struct py_layout *lay,
		       uint64_t addr, struct blob_info *info, uint64_t *data)
{
	uint64_t size;
	int err = read_u64(rs, ev->tgid, addr + lay->bytes_size, &size);

	if (err)
		return err;
	if (size > LINES_MAX_BYTES)
		return -EFAULT;
	info->width = 1;
	info->size = (uint32_t)size;
	*data = addr + lay->bytes_data;
	return 0;
}

static int supply_blob(struct readers *rs, struct sym_python *sym, const struct ev_code *ev,
		       const struct py_layout *lay, enum blob_kind kind)
{
	struct blob_info info = { .uaddr = ev->blob[kind].uaddr };
	bool bytes = kind == BLOB_LINETABLE || lay->str == PY_STR_BYTES;
	uint64_t data;
	void *buf;
	int err = bytes ? bytes_shape(rs, ev, lay, info.uaddr, &info, &data)
			: string_shape(rs, ev, lay, info.uaddr, &info, &data);

	if (err)
		return err;
	if (bytes && kind != BLOB_LINETABLE)
		info.flags |= BLOB_PY2;
	buf = malloc(info.size + 1);
	if (!buf)
		return -ENOMEM;
	err = reader__read(rs, ev->tgid, buf, info.size, data);
	if (!err)
		err = sym_python__supply(sym, ev->id, kind, buf, &info);
	free(buf);
	return err;
}

int readcode__supply(struct readers *rs, struct sym_python *sym, const struct ev_code *ev,
		     const struct py_layout *layout, int wanted)
{
	int missing = sym_python__missing(sym, ev->id), err;

	missing = missing > 0 ? missing & wanted : missing;
	if (missing <= 0)
		return missing;
	err = check_code(rs, ev, layout);
	for (int kind = 0; kind < BLOB_CNT && !err; kind++)
		if (missing & (1 << kind))
			err = supply_blob(rs, sym, ev, layout, (enum blob_kind)kind);
	return err;
}

int readcode__take(struct sym_python *sym, struct process_table *procs, const struct ev_code *ev,
		   size_t size)
{
	const struct py_binary *bin = process_table__interp(procs, ev->interp);
	int err;

	if (!bin)
		return -ESRCH;
	err = sym_python__on_code(sym, ev, size, &bin->interp.layout,
				  process_table__slot_of(procs, ev->tgid));
	if (!err)
		err = readcode__supply(process_table__readers(procs), sym, ev, &bin->interp.layout,
				       ~0);
	if (err)
		log_debug("process %u: code object at 0x%" PRIx64 ": %s", ev->tgid,
			  (uint64_t)ev->addr, strerror(-err));
	return err;
}

int readcode__again(struct sym_python *sym, const struct process_table *procs,
		    const struct ev_code *ev)
{
	const struct py_binary *bin = process_table__interp(procs, ev->interp);

	return bin ? readcode__supply(process_table__readers(procs), sym, ev, &bin->interp.layout,
				      ~0)
		   : -ESRCH;
}
