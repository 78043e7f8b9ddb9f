/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/str.h"

#include <errno.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define REPLACEMENT 0xfffd
#define ELLIPSIS    0x2026

/* ---- Growing buffer ---- */

void strbuf__free(struct strbuf *b)
{
	if (!b)
		return;
	free(b->s);
	*b = (struct strbuf){ 0 };
}

void strbuf__clear(struct strbuf *b)
{
	b->len = 0;
	b->err = 0;
	if (b->s)
		b->s[0] = '\0';
}

/* Room for `more` bytes and the NUL. */
static bool reserve(struct strbuf *b, size_t more)
{
	if (b->err)
		return false;
	if (more >= SIZE_MAX - b->len)
		b->err = -ENOMEM;
	else
		b->err = array_grow(&b->s, &b->cap, b->len, more + 1, 1, SIZE_MAX / 2);
	return !b->err;
}

void strbuf__cut(struct strbuf *b, size_t len)
{
	if (b->len <= len)
		return;
	b->len = len;
	b->s[len] = '\0';
}

void strbuf__add(struct strbuf *b, const void *s, size_t len)
{
	if (!len || !reserve(b, len))
		return;
	memcpy(b->s + b->len, s, len);
	b->len += len;
	b->s[b->len] = '\0';
}

void strbuf__addz(struct strbuf *b, const char *s)
{
	strbuf__add(b, s, strlen(s));
}

void strbuf__addc(struct strbuf *b, char c)
{
	strbuf__add(b, &c, 1);
}

void strbuf__addf(struct strbuf *b, const char *fmt, ...)
{
	va_list ap;
	int len;

	va_start(ap, fmt);
	len = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (len < 0)
		b->err = -ENOMEM; /* the other reasons are errors of the caller */
	if (len <= 0 || !reserve(b, (size_t)len))
		return;
	va_start(ap, fmt);
	vsnprintf(b->s + b->len, (size_t)len + 1, fmt, ap);
	va_end(ap);
	b->len += (size_t)len;
}

/* ---- Interning ---- */

#define ARENA_BLOCK 65536

/* Strings lie in blocks that never move, so a pointer stays valid until strtab__free(). */
struct arena_block {
	struct arena_block *next;
	char data[];
};

struct strtab_entry {
	const char *s;
	size_t len;
};

struct strtab {
	struct strtab_entry *entries; /* by id; 0 is "" and is not in the index */
	size_t cnt, cap;
	struct arena_block *blocks;
	char *room; /* free part of the newest shared block */
	size_t room_sz;
	struct hash_index index;
	struct hash_key key;
};

struct strtab *strtab__new(void)
{
	struct strtab *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	if (ARRAY_GROW(t->entries, t->cap, 0, UINT32_MAX)) {
		strtab__free(t);
		errno = ENOMEM;
		return NULL;
	}
	t->entries[0] = (struct strtab_entry){ .s = "", .len = 0 };
	t->cnt = 1;
	t->key = hash_key();
	return t;
}

void strtab__free(struct strtab *t)
{
	struct arena_block *block, *next;

	if (!t)
		return;
	for (block = t->blocks; block; block = next) {
		next = block->next;
		free(block);
	}
	hash_index__free(&t->index);
	free(t->entries);
	free(t);
}

static char *arena_alloc(struct strtab *t, size_t size)
{
	/* A long string would leave most of a block unused: it gets a block of its own. */
	bool own = size > ARENA_BLOCK / 4;
	struct arena_block *block;
	char *s;

	if (!own && size <= t->room_sz) {
		s = t->room;
		t->room += size;
		t->room_sz -= size;
		return s;
	}
	block = malloc(sizeof(*block) + (own ? size : ARENA_BLOCK));
	if (!block)
		return NULL;
	block->next = t->blocks;
	t->blocks = block;
	if (!own) {
		t->room = block->data + size;
		t->room_sz = ARENA_BLOCK - size;
	}
	return block->data;
}

static uint32_t find_entry(const struct strtab *t, const char *s, size_t len, uint64_t hash)
{
	uint32_t id;

	for (size_t at = 0; (id = hash_index__next(&t->index, hash, &at)) != HASH_NONE;)
		if (t->entries[id].len == len && !memcmp(t->entries[id].s, s, len))
			return id;
	return 0;
}

uint32_t strtab__find(const struct strtab *t, const char *s, size_t len)
{
	return len ? find_entry(t, s, len, hash_bytes(&t->key, s, len)) : 0;
}

uint32_t strtab__add(struct strtab *t, const char *s, size_t len)
{
	uint64_t hash;
	uint32_t id;
	char *copy;

	if (!len || len > SIZE_MAX / 4)
		return 0;
	hash = hash_bytes(&t->key, s, len);
	id = find_entry(t, s, len, hash);
	if (id)
		return id;
	if (ARRAY_GROW(t->entries, t->cap, t->cnt, UINT32_MAX) || hash_index__reserve(&t->index))
		return 0;
	copy = arena_alloc(t, len + 1);
	if (!copy)
		return 0;
	memcpy(copy, s, len);
	copy[len] = '\0';
	id = (uint32_t)t->cnt++;
	t->entries[id] = (struct strtab_entry){ .s = copy, .len = len };
	hash_index__add(&t->index, hash, id); /* room is reserved */
	return id;
}

const char *strtab__get(const struct strtab *t, uint32_t id, size_t *len)
{
	const struct strtab_entry *e = &t->entries[id < t->cnt ? id : 0];

	if (len)
		*len = e->len;
	return e->s;
}

size_t strtab__count(const struct strtab *t)
{
	return t->cnt;
}

/* ---- Characters ---- */

/*
 * Length of the sequence that `first` begins, 0 when it begins none, and the range of its second
 * byte, which is what excludes overlong forms, surrogates and numbers above U+10FFFF (The Unicode
 * Standard, table 3-7).
 */
static size_t utf8_lead(uint8_t first, uint8_t *low, uint8_t *high)
{
	*low = 0x80;
	*high = 0xbf;
	if (first >= 0xc2 && first <= 0xdf)
		return 2;
	if (first >= 0xe0 && first <= 0xef) {
		if (first == 0xe0)
			*low = 0xa0;
		if (first == 0xed)
			*high = 0x9f;
		return 3;
	}
	if (first >= 0xf0 && first <= 0xf4) {
		if (first == 0xf0)
			*low = 0x90;
		if (first == 0xf4)
			*high = 0x8f;
		return 4;
	}
	return 0;
}

size_t utf8_next(const char *s, size_t len, uint32_t *c)
{
	const uint8_t *p = (const uint8_t *)s;
	uint8_t low, high;
	size_t need, i;

	*c = p[0];
	if (p[0] < 0x80)
		return 1;
	need = utf8_lead(p[0], &low, &high);
	*c = REPLACEMENT;
	if (!need)
		return 1;
	for (i = 1; i < need; i++, low = 0x80, high = 0xbf)
		if (i >= len || p[i] < low || p[i] > high)
			return i;
	*c = p[0] & (0x7f >> need);
	for (i = 1; i < need; i++)
		*c = *c << 6 | (p[i] & 0x3f);
	return need;
}

void utf8_add(struct strbuf *b, uint32_t c)
{
	char s[4];
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

	if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) {
		c = REPLACEMENT;
		n = 3;
	}
	for (size_t i = n - 1; i > 0; i--, c >>= 6)
		s[i] = (char)(0x80 | (c & 0x3f));
	s[0] = (char)(n == 1 ? c : c | (0xf00U >> n & 0xff));
	strbuf__add(b, s, n);
}

bool str_ends_with(const char *s, size_t len, const char *end)
{
	size_t n = strlen(end);

	return len >= n && !memcmp(s + len - n, end, n);
}

bool str_starts_with(const char *s, const char *start)
{
	return !strncmp(s, start, strlen(start));
}

/* Could it act on a terminal, break a line, or reorder the text around it? */
static bool is_unsafe(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c <= 0x9f) || c == 0x2028 || c == 0x2029 || /* */
	       c == 0x061c || c == 0x200e || c == 0x200f || (c >= 0x202a && c <= 0x202e) ||
	       (c >= 0x2066 && c <= 0x2069);
}

void str_sanitise(struct strbuf *b, const char *s, size_t len, size_t max)
{
	uint32_t c;

	for (size_t i = 0, n = 0; i < len; n++) {
		if (max && n == max) {
			utf8_add(b, ELLIPSIS);
			return;
		}
		i += utf8_next(s + i, len - i, &c);
		utf8_add(b, is_unsafe(c) ? REPLACEMENT : c);
	}
}

static size_t lines_in(const char *s, const char *end)
{
	size_t cnt = 0;

	while (s < end && (s = memchr(s, '\n', (size_t)(end - s)))) {
		cnt++;
		s++;
	}
	return cnt;
}

void str_keep_end(char *s, size_t max)
{
	size_t len = strlen(s), first = strcspn(s, "\n") + 1;
	char note[64], *end;
	int note_len;

	if (first >= len || len - first <= max)
		return;
	end = s + len - max;
	if (end[-1] != '\n' && strchr(end, '\n')) /* else it is in the last line: part of that */
		end = strchr(end, '\n') + 1;
	note_len = snprintf(note, sizeof(note), "[%zu lines left out]\n", lines_in(s + first, end));
	if (s + first + note_len > end)
		return;
	memcpy(s + first, note, (size_t)note_len);
	memmove(s + first + note_len, end, strlen(end) + 1);
}

/* ---- Numbers ---- */

#define DIGITS "0123456789"

int parse_int(const char *s, long long min, long long max, long long *out)
{
	bool negative = min < 0 && *s == '-', overflow = false;
	long long value = 0;

	s += negative;
	if (!*s)
		return -EINVAL;
	for (; *s; s++) {
		if (*s < '0' || *s > '9')
			return -EINVAL;
		/* Downwards below zero, because LLONG_MIN has no positive counterpart. */
		overflow |= __builtin_mul_overflow(value, 10LL, &value) ||
			    __builtin_add_overflow(value, negative ? '0' - *s : *s - '0', &value);
	}
	if (overflow || value < min || value > max)
		return -ERANGE;
	*out = value;
	return 0;
}

int parse_double(const char *s, double min, double max, double *out)
{
	const char *p = s + (min < 0 && *s == '-');
	size_t before = strspn(p, DIGITS), after = 0;
	locale_t c_locale;
	double value;

	p += before;
	if (*p == '.') {
		after = strspn(++p, DIGITS);
		p += after;
	}
	if (*p || !(before + after))
		return -EINVAL;
	c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	if (!c_locale)
		return -errno;
	value = strtod_l(s, NULL, c_locale);
	freelocale(c_locale);
	if (!(value >= min && value <= max))
		return -ERANGE;
	*out = value;
	return 0;
}

/*
 * Takes the number at the beginning of *s and moves *s behind it. False: there is none, or it is
 * too large.
 */
static bool take_number(const char **s, uint64_t *value)
{
	const char *p = *s;

	for (*value = 0; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(*value, 10ULL, value) ||
		    __builtin_add_overflow(*value, (uint64_t)(*p - '0'), value))
			return false;
	if (p == *s)
		return false;
	*s = p;
	return true;
}

int parse_bytes(const char *s, uint64_t min, uint64_t max, uint64_t *out)
{
	static const char prefixes[] = "KMGT";
	const char *prefix;
	uint64_t value, step;

	if (!take_number(&s, &value))
		return -EINVAL;
	prefix = *s ? strchr(prefixes, *s) : NULL;
	if (prefix) {
		s++;
		step = !strcmp(s, "B") ? 1000 : 1024;
		if (*s && strcmp(s, "B") && strcmp(s, "iB"))
			return -EINVAL;
		for (; prefix >= prefixes; prefix--)
			if (__builtin_mul_overflow(value, step, &value))
				return -ERANGE;
	} else if (*s && strcmp(s, "B")) {
		return -EINVAL;
	}
	if (value < min || value > max)
		return -ERANGE;
	*out = value;
	return 0;
}

int parse_period(const char *s, uint64_t min, uint64_t max, uint64_t *out)
{
	static const char units[] = "wdhms";
	static const uint64_t seconds[] = { 604800, 86400, 3600, 60, 1 };
	size_t next = 0; /* units that may still come */
	uint64_t value, sum = 0;

	do {
		const char *unit;

		if (!take_number(&s, &value) || !*s)
			return -EINVAL;
		unit = strchr(units + next, *s++);
		if (!unit)
			return -EINVAL;
		next = (size_t)(unit - units) + 1;
		if (__builtin_mul_overflow(value, seconds[next - 1], &value) ||
		    __builtin_add_overflow(sum, value, &sum))
			return -ERANGE;
	} while (*s);
	if (sum < min || sum > max)
		return -ERANGE;
	*out = sum;
	return 0;
}

/* ---- Globs ---- */

/*
 * Does the bracket expression at `p` (just behind the `[`) hold `c`? `*end` is set behind its `]`,
 * or to NULL when there is none.
 */
static bool bracket_match(const char *p, unsigned char c, const char **end)
{
	bool negate = *p == '!', found = false;

	p += negate;
	*end = NULL;
	/* A `]` in first place is a member. */
	for (const char *first = p; *p && (*p != ']' || p == first); p++) {
		unsigned char low = (unsigned char)*p, high = low;

		if (p[1] == '-' && p[2] && p[2] != ']') {
			high = (unsigned char)p[2];
			p += 2;
		}
		found |= c >= low && c <= high;
	}
	if (*p != ']')
		return false;
	*end = p + 1;
	return found != negate;
}

/* Matches one element of the pattern other than `*`. Returns the rest of the pattern, or NULL. */
static const char *glob_one(const char *pattern, unsigned char c)
{
	const char *end;
	bool found;

	if (*pattern == '[') {
		found = bracket_match(pattern + 1, c, &end);
		if (end)
			return found ? end : NULL;
	}
	return *pattern == '?' || (unsigned char)*pattern == c ? pattern + 1 : NULL;
}

bool glob_match(const char *pattern, const char *s)
{
	/*
	 * Going back to the last `*` is enough, because it can take what an earlier one would give
	 * up.
	 */
	const char *star = NULL, *retry = NULL, *next;

	while (*s) {
		if (*pattern == '*') {
			star = ++pattern;
			retry = s;
			continue;
		}
		next = *pattern ? glob_one(pattern, (unsigned char)*s) : NULL;
		if (next) {
			pattern = next;
			s++;
		} else if (star) {
			pattern = star;
			s = ++retry;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}
