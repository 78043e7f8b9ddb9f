/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_GZIP_H
#define PYPERF_GZIP_H
/* Compresses and decompresses gzip data in memory. The caller owns all buffers. */
#include <stddef.h>

#include "base/str.h"

/* Replaces the contents of `body` by their gzip form. 0 or -ENOMEM. */
int gzip__pack(struct strbuf *body);
/*
 * Unpacks one gzip member and appends at most `max` bytes of it. 0; -EBADMSG: damaged, or not gzip;
 * -EFBIG: there are more than `max` bytes; -ENOMEM.
 */
int gzip__unpack(struct strbuf *out, const void *data, size_t size, size_t max);

#endif /* PYPERF_GZIP_H */
