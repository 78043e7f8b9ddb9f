/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/gzip.h"

#include <errno.h>
#include <stdlib.h>
#include <zlib.h>

#define GZIP_WINDOW (15 + 16) /* zlib: the largest window, and gzip's header */
#define STEP	    16384

int gzip__pack(struct strbuf *body)
{
	z_stream z = { .next_in = (Bytef *)body->s, .avail_in = (uInt)body->len };
	struct strbuf out = { 0 };
	int ret;

	if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 8,
			 Z_DEFAULT_STRATEGY) != Z_OK)
		return -ENOMEM;
	out.cap = deflateBound(&z, body->len);
	out.s = malloc(out.cap + 1);
	if (!out.s) {
		deflateEnd(&z);
		return -ENOMEM;
	}
	z.next_out = (Bytef *)out.s;
	z.avail_out = (uInt)out.cap;
	ret = deflate(&z, Z_FINISH);
	out.len = out.cap - z.avail_out;
	deflateEnd(&z);
	strbuf__free(body);
	*body = out;
	return ret == Z_STREAM_END ? 0 : -ENOMEM;
}

int gzip__unpack(struct strbuf *out, const void *data, size_t size, size_t max)
{
	z_stream z = { .next_in = (Bytef *)data, .avail_in = (uInt)size };
	unsigned char step[STEP];
	int ret = Z_OK, err = 0;

	if (inflateInit2(&z, GZIP_WINDOW) != Z_OK)
		return -ENOMEM;
	while (!err && ret != Z_STREAM_END) {
		size_t room = max < STEP ? max : STEP, n;

		z.next_out = step;
		z.avail_out = (uInt)room;
		ret = inflate(&z, Z_NO_FLUSH);
		n = room - z.avail_out;
		strbuf__add(out, step, n);
		max -= n;
		err = out->err;
		if (ret == Z_MEM_ERROR)
			err = -ENOMEM;
		else if (!err && ret != Z_OK && ret != Z_STREAM_END) /* or the input ends early */
			err = room ? -EBADMSG : -EFBIG;
	}
	inflateEnd(&z);
	return err;
}
