/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_DESCRIPTORS_H
#define PYPERF_DESCRIPTORS_H
/*
 * How many descriptors this process may have open.
 *
 * The soft limit is 1,024 as a rule, for the sake of programs that use select(). A link, an event
 * or a file that stays open takes one each, so who opens many asks for as many as there may be.
 */
#include <stddef.h>

/* Raises the soft limit to the hard one. Returns the limit, 0 if it is not known. */
size_t descriptors__allow(void);

#endif /* PYPERF_DESCRIPTORS_H */
