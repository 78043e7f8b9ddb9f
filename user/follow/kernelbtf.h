/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_KERNELBTF_H
#define PYPERF_KERNELBTF_H
/*
 * Copies the types of the kernel that the BPF object names. The kernel describes more than 100,000
 * types, and libbpf searches all of them for each type of the object. This module finds all in one
 * pass and copies them with the types that they contain: some hundreds. Pointers in the copy point
 * to void.
 *
 *	fd = kernelbtf__open(BTF_PATH)
 *
 *	Until the object is loaded, "/proc/self/fd/<fd>" is its btf_custom_path
 *	(bpf_object_open_opts).
 */

/*
 * Returns the descriptor of a file in memory, which the caller closes, or negative errno: libbpf
 * then searches the kernel's types itself.
 */
int kernelbtf__open(const char *path);

#endif /* PYPERF_KERNELBTF_H */
