/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TRACEPOINTS_H
#define PYPERF_TRACEPOINTS_H
/*
 * The names of the kernel's raw tracepoints: its types have one, btf_trace_NAME, for each
 * (include/trace/bpf_probe.h). Those of modules are not among them. tracefs, which lists them too,
 * need not be mounted.
 *
 *	struct tracepoint_names names;
 *
 *	if (!tracepoint_names__read(&names, BTF_PATH))
 *		... names.names[0] to names.names[names.cnt - 1], in no order ...
 *	tracepoint_names__free(&names);
 */
#include <stddef.h>

struct tracepoint_names {
	const char **names; /* owned; the texts are, too */
	size_t cnt;
	char *text;
};

/* 0 or negative errno; then, too, it is to be freed. */
int tracepoint_names__read(struct tracepoint_names *n, const char *btf_path);
void tracepoint_names__free(struct tracepoint_names *n);

#endif /* PYPERF_TRACEPOINTS_H */
