/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_SYM_DEBUGINFOD_H
#define PYPERF_SYM_DEBUGINFOD_H
/*
 * Gets debug files from servers by build id (debuginfod(8)), only if the caller's environment has
 * DEBUGINFOD_URLS. libdebuginfod does the work, with its own cache and settings
 * (debuginfod_find_debuginfo(3)); it is loaded when it is needed, so it need not be installed.
 *
 * A question waits for the network, so ask after sampling. It runs in a process of its own, which
 * keeps its time and libcurl's state away from us: a file may take DEBUGINFOD_FILE_S, all together
 * DEBUGINFOD_RUN_S. Servers that cannot be reached, or do not answer, are not asked again.
 */
#include "elf/elf.h"

#define DEBUGINFOD_FILE_S 30
#define DEBUGINFOD_RUN_S  120

struct sym_debuginfod;
struct strbuf;

/*
 * Appends the servers that the distribution has set in files *.urls of `dir`, separated by blanks.
 */
void sym_debuginfod_system_urls(struct strbuf *b, const char *dir);

/* NULL and errno: ENOENT no DEBUGINFOD_URLS, ENOMEM. */
struct sym_debuginfod *sym_debuginfod__new(void);
void sym_debuginfod__free(struct sym_debuginfod *d);
/*
 * Returns a descriptor of the debug file of `ef`, which the caller owns, or negative errno after a
 * message.
 */
int sym_debuginfod__open(struct sym_debuginfod *d, const struct elf_file *ef);

#endif /* PYPERF_SYM_DEBUGINFOD_H */
