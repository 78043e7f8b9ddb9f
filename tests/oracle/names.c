/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Prints what an ELF file's functions are called with a table of names by build id and without
 * debug files: "ADDRESS NAME", a line for each function with a name.
 *
 *	names TABLE FILE
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "elf/ehframe.h"
#include "symbolize/sym_builds.h"
#include "symbolize/symbolize.h"

static const struct sym_debugfile_places nowhere = { .root = "/nonexistent",
						     .offered = { .fd = -1 } };

static void print_names(const struct elf_file *ef, struct sym_native *s)
{
	struct fde_range *functions = NULL;
	struct strbuf name = { 0 };
	uint64_t offset;
	size_t cnt = 0;

	if (ehframe__ranges(ef, &functions, &cnt))
		return;
	for (size_t i = 0; i < cnt; i++) {
		strbuf__clear(&name);
		if (elf_file__addr_to_off(ef, functions[i].start, &offset) &&
		    sym_native__find(s, offset, &name, NULL) && !name.err)
			printf("%" PRIu64 " %s\n", functions[i].start, name.s);
	}
	strbuf__free(&name);
	free(functions);
}

int main(int argc, char **argv)
{
	int fd = argc == 3 ? open(argv[1], O_RDONLY) : -1;
	struct sym_builds *builds = fd >= 0 ? sym_builds__open(fd) : NULL;
	struct elf_file *ef = builds ? elf_file__open(open(argv[2], O_RDONLY), argv[2]) : NULL;
	struct sym_native *s = ef ? sym_native__new(ef) : NULL;

	if (!s) {
		fprintf(stderr, "usage: names TABLE FILE\n");
		return 2;
	}
	sym_native__set_places(s, &nowhere);
	sym_native__set_builds(s, builds);
	print_names(ef, s);
	sym_native__free(s);
	elf_file__close(ef);
	sym_builds__free(builds);
	close(fd);
	return 0;
}
