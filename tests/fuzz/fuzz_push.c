/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Any bytes as a file of the spool, and as what a backend answers. */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "agent/push/push_kind.h"
#include "agent/push/push_retry.h"
#include "agent/push/winfile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_seed(size_t i, uint8_t *buf, size_t cap);

/*
 * What is taken must be what is written again. With `sum`, the checksum is made right: else nothing
 * gets past it.
 */
static void spool_file(const uint8_t *data, size_t size, bool sum)
{
	struct strbuf again = { 0 };
	struct winfile f;
	uint8_t *copy = malloc(size ? size : 1);

	if (!copy)
		abort();
	if (size)
		memcpy(copy, data, size);
	if (sum && size > 12) {
		uint32_t crc = (uint32_t)crc32_z(0, copy + 12, size - 12);

		memcpy(copy + 8, &crc, sizeof(crc));
	}
	if (winfile__unpack(&f, copy, size))
		return;
	if (winfile__pack(&f.w, &again) || again.err || again.len != size ||
	    memcmp(again.s, f.data, size))
		abort();
	winfile__free(&f);
	strbuf__free(&again);
}

static void answer(const uint8_t *data, size_t size)
{
	struct strbuf why = { 0 };
	char *text = strndup((const char *)data, size);

	if (!text)
		abort();
	push_otlp.check(data, size, &why);
	if (push_retry_after(text, 1700000000) > RETRY_AFTER_MAX_MS)
		abort();
	strbuf__free(&why);
	free(text);
}

size_t fuzz_seed(size_t i, uint8_t *buf, size_t cap)
{
	static const struct label labels[] = { { "host", "h" }, { "service_name", "s" } };
	static const char partial[] = "\x0a\x09\x08\x01\x12\x05why: ";
	const struct window w = {
		.id = "000102030405060708090a0b0c0d0e0f",
		.labels = labels,
		.label_cnt = 2,
		.pprof = "abc",
		.pprof_size = 3,
	};
	struct strbuf out = { 0 };
	size_t size = 0;

	if (i == 0 && !winfile__pack(&w, &out))
		strbuf__add(&out, "", 0);
	else if (i == 1)
		strbuf__add(&out, partial, sizeof(partial) - 1);
	else if (i == 2)
		strbuf__addz(&out, "Sun, 06 Nov 1994 08:49:37 GMT");
	if (out.len <= cap && out.len) {
		memcpy(buf, out.s, out.len);
		size = out.len;
	}
	strbuf__free(&out);
	return size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	spool_file(data, size, false);
	spool_file(data, size, true);
	answer(data, size);
	return 0;
}
