/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* fuzz_walk.c on stacks of aarch64, with its verbs. */
#define PYPERF_ARCH PYPERF_ARM64
#include "fuzz_walk.c"
