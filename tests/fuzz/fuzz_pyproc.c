/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Any ELF file through py_binary__analyse(); the seeds are tests/unit/fake_python.S. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "elf/elf.h"
#include "python/pyproc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_file *ef = elf_file__open_memory(data, size, "/usr/bin/python3.10");
	struct py_binary bin;
	int err;

	if (!ef)
		return 0;
	err = py_binary__analyse(ef, &bin);
	if (bin.eval_cnt > MAX_EVAL_RANGES || (err == -ENOTSUP) != (bin.why_not != NULL))
		abort();
	if (!err && (!bin.eval_cnt || !bin.interp.layout.code_read || !bin.interp.interp_head))
		abort();
	elf_file__close(ef);
	return 0;
}
