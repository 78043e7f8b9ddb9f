/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Prints what the tables in an ELF file call its functions: "OFFSET NAME", a line for each
 * function.
 *
 *	tables FILE
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elf/ehframe.h"
#include "symbolize/sym_tables.h"

static int print_tables(const struct elf_file *ef)
{
	struct sym_tables t = { 0 };
	struct fde_range *functions = NULL;
	uint64_t offset;
	size_t cnt = 0;
	int err = ehframe__ranges(ef, &functions, &cnt);

	if (!err)
		err = sym_tables__read(ef, functions, cnt, &t);
	for (size_t i = 0; i < t.cnt; i++)
		if (elf_file__addr_to_off(ef, t.v[i].addr, &offset))
			printf("%" PRIu64 " %s\n", offset, t.names + t.v[i].name);
	sym_tables__free(&t);
	free(functions);
	return err;
}

int main(int argc, char **argv)
{
	struct elf_file *ef = argc == 2 ? elf_file__open(open(argv[1], O_RDONLY), argv[1]) : NULL;
	int err;

	if (!ef) {
		fprintf(stderr, "usage: tables FILE\n");
		return 2;
	}
	err = print_tables(ef);
	if (err)
		fprintf(stderr, "%s: %s\n", argv[1], strerror(-err));
	elf_file__close(ef);
	return err ? 1 : 0;
}
