/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_VERSION_H
#define PYPERF_VERSION_H
/* The version of the program, for --version and the profiles it writes. Semantic versioning. */
#define PYPERF_VERSION "0.1.0"

#endif /* PYPERF_VERSION_H */
