/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_KERNELBTF_H
#define PYPERF_KERNELBTF_H
/*
 * The kernel's types, as far as the BPF object names them. The kernel describes 100,000 types and
 * more, in which libbpf looks for each type of the object from the first to the last. Here all are
 * found in one pass and copied with what they contain: some hundreds. What a pointer points to is
 * void in the copy.
 *
 *	fd = kernelbtf__open(BTF_PATH)
 *	"/proc/self/fd/<fd>" is what btf_custom_path of bpf_object_open_opts wants; until the object
 *	is loaded
 */

/*
 * The descriptor of a file in memory, to be closed, or negative errno: then libbpf does it alone.
 */
int kernelbtf__open(const char *path);

#endif /* PYPERF_KERNELBTF_H */
