/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_NEAREST_H
#define PYPERF_NEAREST_H
/* The name that was probably meant by a word with a slip in it. */
#include <stddef.h>

/*
 * The index of the nearest of `cnt` names, more than half of whose letters are right, or of one
 * that begins with the word; `cnt`: none is near.
 */
size_t nearest_name(const char *word, const char *const *names, size_t cnt);

#endif /* PYPERF_NEAREST_H */
