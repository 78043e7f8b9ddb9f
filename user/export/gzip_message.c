/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A protobuf message, packed into deflate. See gzip_message.h. */
#include "export/gzip_message.h"

#include <errno.h>
#include <stdlib.h>
#include <zlib.h>

#define GZIP_WINDOW (15 + 16) /* zlib: the largest window, gzip's header with no time and no name */

struct gzip {
	ProtobufCBuffer base; /* first: protobuf-c gives it back as this struct */
	z_stream z;
	FILE *f;
	int err;
	unsigned char out[16384];
};

static void gzip_run(struct gzip *g, const void *data, size_t len, int flush)
{
	int ret = Z_OK;

	if (g->err)
		return;
	g->z.next_in = (unsigned char *)data;
	g->z.avail_in = (uInt)len;
	do {
		size_t n;

		g->z.next_out = g->out;
		g->z.avail_out = sizeof(g->out);
		ret = deflate(&g->z, flush);
		n = sizeof(g->out) - g->z.avail_out;
		if (ret == Z_STREAM_ERROR)
			g->err = -EINVAL;
		else if (fwrite(g->out, 1, n, g->f) != n)
			g->err = errno ? -errno : -EIO;
	} while (!g->err && !g->z.avail_out);
}

static void gzip_append(ProtobufCBuffer *base, size_t len, const uint8_t *data)
{
	gzip_run((struct gzip *)base, data, len, Z_NO_FLUSH);
}

int gzip_message__write(const ProtobufCMessage *msg, FILE *f)
{
	struct gzip *g = calloc(1, sizeof(*g));
	int err;

	if (!g)
		return -ENOMEM;
	g->base.append = gzip_append;
	g->f = f;
	if (deflateInit2(&g->z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 8,
			 Z_DEFAULT_STRATEGY) != Z_OK) {
		free(g);
		return -ENOMEM;
	}
	errno = 0;
	protobuf_c_message_pack_to_buffer(msg, &g->base);
	gzip_run(g, NULL, 0, Z_FINISH);
	deflateEnd(&g->z);
	err = g->err;
	free(g);
	return err;
}
