/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "export/export_page.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/gzip.h"
#include "export/export_summary.h"
#include "profile/export_stacks.h"
#include "profile/export_text.h"

#define MARK_BEGIN "<!--@"
#define MARK_END   "-->"

/* ---- Escaping ---- */

static const char *entity(char c)
{
	switch (c) {
	case '&':
		return "&amp;";
	case '<':
		return "&lt;";
	case '>':
		return "&gt;";
	case '"':
		return "&quot;";
	case '\'':
		return "&#39;";
	}
	return NULL;
}

void page_add_html(struct strbuf *b, const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		const char *e = entity(s[i]);

		if (e)
			strbuf__addz(b, e);
		else
			strbuf__addc(b, s[i]);
	}
}

void page_add_json(struct strbuf *b, const char *s, size_t len)
{
	strbuf__addc(b, '"');
	for (size_t i = 0; i < len;) {
		uint32_t c;

		i += utf8_next(s + i, len - i, &c);
		if (c == '"' || c == '\\')
			strbuf__addc(b, '\\');
		if (c < 0x20 || c == '<' || c == '>' || c == '&' || c == 0x2028 || c == 0x2029)
			strbuf__addf(b, "\\u%04" PRIx32, c);
		else
			utf8_add(b, c);
	}
	strbuf__addc(b, '"');
}

/* ---- Pages ---- */

int page_write(const char *page, page_fill_fn fill, void *ctx, FILE *f)
{
	const char *mark, *end;
	int err = 0;

	errno = 0;
	while (!err && (mark = strstr(page, MARK_BEGIN)) && (end = strstr(mark, MARK_END))) {
		const char *word = mark + strlen(MARK_BEGIN);

		fwrite(page, 1, (size_t)(mark - page), f);
		err = fill(ctx, word, (size_t)(end - word), f);
		page = end + strlen(MARK_END);
	}
	if (!err)
		fputs(page, f);
	if (!err && ferror(f))
		err = errno ? -errno : -EIO;
	return err;
}

/* Larger data are packed: more than all else in a page. */
#define PLAIN_MAX (128 << 10)

/* RFC 4648, section 4 */
static void write_base64(const unsigned char *s, size_t len, FILE *f)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < len; i += 3) {
		size_t left = len - i;
		uint32_t n = (uint32_t)s[i] << 16;

		n |= left > 1 ? (uint32_t)s[i + 1] << 8 : 0;
		n |= left > 2 ? s[i + 2] : 0;
		putc_unlocked(digits[n >> 18], f);
		putc_unlocked(digits[n >> 12 & 63], f);
		putc_unlocked(left > 1 ? digits[n >> 6 & 63] : '=', f);
		putc_unlocked(left > 2 ? digits[n & 63] : '=', f);
	}
}

int page_write_data(struct strbuf *json, const char *id, FILE *f)
{
	bool plain = json->len <= PLAIN_MAX;
	int err = json->err;

	if (!err && json->len > UINT_MAX) /* which gzip__pack() takes */
		err = -EFBIG;
	if (!err && !plain)
		err = gzip__pack(json);
	if (err)
		return err;
	fprintf(f, "<script type=\"application/%s\" id=\"%s\">", plain ? "json" : "gzip", id);
	if (plain)
		fwrite(json->s, 1, json->len, f);
	else
		write_base64((const unsigned char *)json->s, json->len, f);
	fputs("</script>", f);
	strbuf__free(json);
	return 0;
}

/* Moves one sentence to `b`, as HTML between the tags of an element. */
static void add_sentence(struct strbuf *b, struct strbuf *sentence, const char *tag)
{
	if (sentence->err)
		b->err = sentence->err;
	if (sentence->len) {
		strbuf__addf(b, "<%s>", tag);
		page_add_html(b, sentence->s, sentence->len);
		strbuf__addf(b, "</%s>\n", tag);
	}
	strbuf__clear(sentence);
}

static void add_name(struct strbuf *b, const struct profile *p, str_id id, const char *unset)
{
	struct strbuf name = { 0 };

	text_add_name(&name, p, id, unset);
	if (name.err)
		b->err = name.err;
	else
		page_add_html(b, name.s ? name.s : "", name.len);
	strbuf__free(&name);
}

/* The process with the most samples, and how many have any. */
static const struct profile_proc *heaviest(const struct profile *p, size_t *sampled, int *err)
{
	uint64_t *sums = calloc(p->proc_cnt + 1, sizeof(*sums));
	const struct profile_proc *best = NULL;
	uint64_t most = 0;

	*sampled = 0;
	*err = sums ? 0 : -ENOMEM;
	if (!sums)
		return NULL;
	for (size_t i = 0; i < p->stack_cnt; i++)
		if (p->stacks[i].proc < p->proc_cnt)
			sums[p->stacks[i].proc] += p->stacks[i].count;
	for (size_t i = 0; i < p->proc_cnt; i++) {
		const struct profile_proc *proc = &p->procs[i];

		*sampled += sums[i] != 0;
		if (sums[i] > most || (sums[i] && sums[i] == most && proc->tgid < best->tgid)) {
			most = sums[i];
			best = proc;
		}
	}
	free(sums);
	return best;
}

void page_add_title(struct strbuf *b, const struct profile *p)
{
	const struct profile_proc *proc;
	size_t sampled;
	int err;

	proc = heaviest(p, &sampled, &err);
	if (err)
		b->err = err;
	if (!proc) {
		strbuf__addz(b, "pyperf-bpf");
		return;
	}
	add_name(b, p, profile_proc__name(proc), "unknown");
	if (sampled > 1)
		strbuf__addf(b, " and %zu more", sampled - 1);
}

static void add_headline(struct strbuf *b, const struct profile *p)
{
	struct strbuf s = { 0 };

	if (profile__total(p))
		summary_add_headline(&s, p);
	else
		summary_add_nothing(&s, p);
	if (s.err)
		b->err = s.err;
	else
		page_add_html(b, s.s ? s.s : "", s.len);
	strbuf__free(&s);
}

static void add_refused(struct strbuf *b, const struct profile *p)
{
	bool any = false;

	for (size_t i = 0; i < p->proc_cnt; i++) {
		const struct profile_proc *proc = &p->procs[i];

		if (!profile__str_len(p, proc->native_only))
			continue;
		if (!any)
			strbuf__addz(b, "<h2>Sampled without Python frames</h2>\n<ul>\n");
		any = true;
		strbuf__addz(b, "<li>");
		add_name(b, p, profile_proc__name(proc), "<unknown>");
		strbuf__addf(b, " (%" PRIu32 "): native only: ", proc->tgid);
		add_name(b, p, proc->native_only, "");
		strbuf__addz(b, "</li>\n");
	}
	if (any)
		strbuf__addz(b, "</ul>\n");
}

static void add_facts(struct strbuf *b, const struct profile *p)
{
	struct strbuf s = { 0 };

	if (profile__total(p) && !summary_is_accounted(p)) {
		strbuf__addz(b, "<p>" SUMMARY_UNACCOUNTED "</p>\n");
		return;
	}
	text_add_samples(&s, p);
	add_sentence(b, &s, "p");
	text_add_complete(&s, p);
	add_sentence(b, &s, "p");
	strbuf__addz(b, "<ul>\n");
	for (size_t at = 0; summary_next_counter(&s, p, &at);)
		add_sentence(b, &s, "li");
	strbuf__addz(b, "</ul>\n");
	summary_add_cost(&s, &p->stats);
	add_sentence(b, &s, "p");
	add_refused(b, p);
	strbuf__free(&s);
}

/* "samples", "page faults", "wait time" */
static void add_counted(struct strbuf *b, const struct profile *p)
{
	const struct value_type *v = &p->stats.values[0];
	const char *s = value_type__shared(v);

	page_add_html(b, s, strlen(s));
}

void page_add_word(struct strbuf *b, const struct profile *p, const char *word, size_t len)
{
	static const struct {
		const char *word;
		void (*add)(struct strbuf *b, const struct profile *p);
	} words[] = {
		{ "title", page_add_title },
		{ "headline", add_headline },
		{ "facts", add_facts },
		{ "counted", add_counted },
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (len == strlen(words[i].word) && !memcmp(word, words[i].word, len))
			words[i].add(b, p);
}
