/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TESTS_DEBUG_OFFSETS_H
#define PYPERF_TESTS_DEBUG_OFFSETS_H
/*
 * _Py_DebugOffsets of several releases, typed in: for tests that have no such interpreter.
 *
 *	uint8_t bytes[PY_DEBUG_OFFSETS_MAX];
 *
 *	make_image(bytes, IMAGE(314t));
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "python/pylayout.h"

struct put {
	uint16_t at;
	uint32_t value;
};

/* Positions from struct _Py_DebugOffsets of the release, values from its live interpreters. */
static const struct put __attribute__((unused)) image_313[] = {
	{ 8, 0x030d00f0 }, { 24, 283320 }, { 40, 632 },	 { 48, 248448 }, { 56, 7272 }, { 64, 7264 },
	{ 72, 7344 },	   { 152, 304 },   { 168, 8 },	 { 184, 72 },	 { 192, 152 }, { 224, 80 },
	{ 232, 8 },	   { 240, 0 },	   { 248, 56 },	 { 264, 70 },	 { 272, 208 }, { 280, 112 },
	{ 288, 120 },	   { 296, 128 },   { 304, 136 }, { 312, 68 },	 { 344, 200 }, { 352, 16 },
	{ 360, 8 },	   { 512, 40 },	   { 520, 16 },	 { 528, 32 },	 { 536, 64 },  { 544, 32 },
	{ 552, 16 },	   { 560, 40 },
};
static const struct put __attribute__((unused)) image_314[] = {
	{ 8, 0x030e0af0 }, { 24, 316616 }, { 40, 808 },	 { 48, 225864 }, { 56, 7280 }, { 64, 7272 },
	{ 72, 7344 },	   { 176, 936 },   { 192, 8 },	 { 208, 72 },	 { 216, 152 }, { 248, 88 },
	{ 256, 8 },	   { 264, 0 },	   { 272, 56 },	 { 288, 74 },	 { 312, 216 }, { 320, 112 },
	{ 328, 120 },	   { 336, 128 },   { 344, 136 }, { 352, 68 },	 { 384, 208 }, { 400, 16 },
	{ 408, 8 },	   { 592, 40 },	   { 600, 16 },	 { 608, 32 },	 { 616, 64 },  { 624, 32 },
	{ 632, 16 },	   { 640, 40 },
};
static const struct put __attribute__((unused)) image_314t[] = {
	{ 8, 0x030e04f0 }, { 16, 1 },	 { 24, 337280 }, { 40, 808 },  { 48, 246720 }, { 56, 7280 },
	{ 64, 7272 },	   { 72, 7344 }, { 176, 15608 }, { 192, 8 },   { 208, 72 },    { 216, 152 },
	{ 248, 88 },	   { 256, 8 },	 { 264, 0 },	 { 272, 56 },  { 288, 78 },    { 304, 72 },
	{ 312, 240 },	   { 320, 128 }, { 328, 136 },	 { 336, 144 }, { 344, 152 },   { 352, 84 },
	{ 384, 232 },	   { 392, 224 }, { 400, 32 },	 { 408, 24 },  { 592, 56 },    { 600, 32 },
	{ 608, 48 },	   { 616, 80 },	 { 624, 48 },	 { 632, 32 },  { 640, 56 },
};
static const struct put __attribute__((unused)) image_315[] = {
	{ 8, 0x030f02f0 }, { 24, 346568 }, { 40, 936 },	 { 48, 226240 }, { 56, 7272 }, { 64, 7264 },
	{ 72, 7336 },	   { 176, 1104 },  { 192, 8 },	 { 208, 72 },	 { 216, 80 },  { 240, 176 },
	{ 312, 88 },	   { 320, 8 },	   { 328, 0 },	 { 336, 56 },	 { 352, 74 },  { 376, 216 },
	{ 384, 112 },	   { 392, 120 },   { 400, 128 }, { 408, 136 },	 { 416, 68 },  { 448, 208 },
	{ 464, 16 },	   { 472, 8 },	   { 688, 40 },	 { 696, 16 },	 { 704, 32 },  { 712, 64 },
	{ 720, 32 },	   { 728, 16 },	   { 736, 40 },	 { 744, 56 },
};

#define IMAGE(v) image_##v, sizeof(image_##v) / sizeof(image_##v[0])

static inline void put_u64(uint8_t *bytes, size_t at, uint64_t value)
{
	memcpy(bytes + at, &value, sizeof(value));
}

static inline void make_image(uint8_t *bytes, const struct put *puts, size_t cnt)
{
	memset(bytes, 0, PY_DEBUG_OFFSETS_MAX);
	memcpy(bytes, "xdebugpy", 8);
	for (size_t i = 0; i < cnt; i++)
		put_u64(bytes, puts[i].at, puts[i].value);
}

#endif /* PYPERF_TESTS_DEBUG_OFFSETS_H */
