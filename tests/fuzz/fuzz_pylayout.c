/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * _Py_DebugOffsets of any content: whatever is accepted has to keep the walkers inside the buffers
 * that they read structures into.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "python/pylayout.h"
#include "python/pyproc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void within(uint16_t off, uint32_t width, uint32_t limit)
{
	if (off != PY_OFF_NONE && off + width > limit)
		abort();
}

static void check_layout(const struct py_layout *l)
{
	if (l->tstate_read > 256 || l->frame_read > 256 || l->code_read > 256)
		abort();
	within(l->tstate_next, 8, l->tstate_read);
	within(l->tstate_thread_id, 8, l->tstate_read);
	within(l->tstate_frame, 8, l->tstate_read);
	within(l->frame_back, 8, l->frame_read);
	within(l->frame_code, 8, l->frame_read);
	within(l->frame_lasti, 8, l->frame_read);
	within(l->frame_owner, 1, l->frame_read);
	within(l->frame_tlbc_index, 4, l->frame_read);
	within(l->ob_type, 8, l->code_read);
	within(l->code_first, 8, l->code_last);
	within(l->code_last, 0, l->code_read);
	within(l->code_firstlineno, 4, l->code_last);
	within(l->code_filename, 8, l->code_last);
	within(l->code_name, 8, l->code_last);
	within(l->code_qualname, 8, l->code_last);
	within(l->code_linetable, 8, l->code_last);
	within(l->code_version, 4, l->code_last);
	within(l->code_firsttraceable, 4, l->code_read);
	within(l->code_tlbc, 8, l->code_read);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct py_binary bin = { .runtime = 0x1000, .runtime_size = 300000 };
	struct py_layout l;
	uint32_t version;
	bool free_threaded;

	if (!py_debug_offsets__identify(data, size, &version, &free_threaded) &&
	    !py_layout__get(&l, version, free_threaded, data, size, NULL)) {
		check_layout(&l);
		if (py_layout__interp_head(version, data, size) >= PY_OFF_NONE)
			abort();
	}
	if (!py_binary__from_process(&bin, data, size))
		check_layout(&bin.interp.layout);
	return 0;
}
