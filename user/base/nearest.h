/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_NEAREST_H
#define PYPERF_NEAREST_H
/* Finds the name that a misspelt word probably meant. */
#include <stddef.h>

/*
 * Returns the index of the nearest of `cnt` names: one that shares more than half of its letters
 * with the word, or that begins with it. `cnt`: no name is near.
 */
size_t nearest_name(const char *word, const char *const *names, size_t cnt);

#endif /* PYPERF_NEAREST_H */
