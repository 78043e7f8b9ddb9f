/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "export/outputs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/str.h"
#include "base/stream.h"
#include "base/terminal.h"
#include "export/export_summary.h"

static bool is_stdout(const struct output *o)
{
	return !strcmp(o->path, "-");
}

#define OUTPUTS_MAX (1U << 16) /* on a command line */
#define HELP_INDENT 25
#define HELP_WIDTH  80

/* ".pprof" is ".pb.gz" by another name. */
static bool is_alias(const struct export_format *x)
{
	return x > export__formats() && !strcmp(x->word, x[-1].word);
}

/* The suffixes that can be written, from column `col` on. */
static void add_suffixes(struct strbuf *b, bool diff, size_t col, size_t width)
{
	size_t start = col;

	for (const struct export_format *x = export__formats(); x->suffix; x++) {
		if ((diff && !x->write_diff) || is_alias(x))
			continue;
		if (width && col > start && col + 1 + strlen(x->suffix) > width) {
			strbuf__addf(b, "\n%*s", (int)start, "");
			col = start;
		}
		strbuf__addf(b, "%s%s", col > start ? " " : "", x->suffix);
		col += strlen(x->suffix) + (col > start);
	}
}

void outputs__help(bool diff)
{
	struct strbuf b = { 0 };

	add_suffixes(&b, diff, HELP_INDENT, HELP_WIDTH);
	printf("  -o, --output FILE      write FILE in the format of its suffix ('-': stdout):\n"
	       "                         %s\n"
	       "      --format NAME      write that format, whatever the suffix is\n"
	       "  -f, --folded           folded stacks on stdout instead of the report\n"
	       "      --glue             keep the interpreter's own frames in pictures, too\n",
	       b.err ? "" : b.s);
	if (!diff)
		printf("      --value NAME       only this value of a profile that has several\n");
	strbuf__free(&b);
}

static int bad_suffix(const struct outputs *o, const char *path)
{
	struct strbuf b = { 0 };

	add_suffixes(&b, o->diff, 0, 0);
	log_err("-o %s: the suffix names no format%s; known are %s", path,
		o->diff ? " that shows differences" : "", b.err ? "" : b.s);
	strbuf__free(&b);
	return -EINVAL;
}

int outputs__add(struct outputs *o, const char *path)
{
	for (size_t i = 0; i < o->cnt; i++) {
		if (!strcmp(o->list[i].path, path)) {
			log_err("-o %s: given twice", path);
			return -EINVAL;
		}
	}
	if (ARRAY_GROW(o->list, o->cap, o->cnt, OUTPUTS_MAX))
		return log_no_memory();
	o->list[o->cnt++] = (struct output){ .path = path };
	return 0;
}

static bool is_named(const struct export_format *x, const char *name)
{
	/* By its name, or by its suffix as a word: "html", "pb.gz". */
	return !strcasecmp(x->word, name) || !strcmp(x->suffix + 1, name);
}

int outputs__set_format(struct outputs *o, const char *name)
{
	struct strbuf b = { 0 };

	for (const struct export_format *x = export__formats(); x->suffix; x++) {
		if ((o->diff && !x->write_diff) || !is_named(x, name))
			continue;
		o->format = x;
		return 0;
	}
	for (const struct export_format *x = export__formats(); x->suffix; x++)
		if ((!o->diff || x->write_diff) && !is_alias(x))
			strbuf__addf(&b, "%s%s", b.len ? " " : "", x->word);
	log_err("--format %s: there is no such format%s; known are %s", name,
		o->diff ? " that shows differences" : "", b.err ? "" : b.s);
	strbuf__free(&b);
	return -EINVAL;
}

int outputs__set_idle(struct outputs *o, bool busy, const char *regex)
{
	const char *option = busy ? "--busy" : "--idle";
	regex_t **to = busy ? &o->busy : &o->idle, *re;
	char why[128];
	int err;

	if (*to) {
		log_err("%s %s: given twice; join both with '|'", option, regex);
		return -EINVAL;
	}
	re = malloc(sizeof(*re));
	if (!re)
		return log_no_memory();
	err = regcomp(re, regex, REG_EXTENDED | REG_NOSUB);
	if (err) {
		regerror(err, re, why, sizeof(why));
		log_err("%s %s: not a regular expression: %s", option, regex, why);
		free(re);
		return -EINVAL;
	}
	*to = re;
	return 0;
}

/* stdout has no suffix: its format is the report, as without -o. */
static const struct export_format *format_of(const struct outputs *o, const char *path)
{
	if (o->format)
		return o->format;
	return export__find(strcmp(path, "-") ? path : ".txt");
}

int outputs__check(struct outputs *o)
{
	if (o->folded && o->format) {
		log_err("-f and --format both choose the format of stdout");
		return -EINVAL;
	}
	for (size_t i = 0; i < o->cnt; i++) {
		struct output *out = &o->list[i];

		if (o->folded && is_stdout(out)) {
			log_err("-f and -o - both want stdout");
			return -EINVAL;
		}
		out->format = format_of(o, out->path);
		if (!out->format || (o->diff && !out->format->write_diff))
			return bad_suffix(o, out->path);
	}
	return 0;
}

int outputs__open(struct outputs *o)
{
	for (size_t i = 0; i < o->cnt; i++) {
		o->list[i].file = export__open(o->list[i].path, o->list[i].format);
		if (!o->list[i].file)
			return -errno;
	}
	return 0;
}

/* Writes one profile, or with `base` the difference from it. */
static int write_stdout(const struct outputs *o, const struct profile *base,
			const struct profile *p, const struct export_opts *opts)
{
	const struct export_format *format =
		o->folded ? export__find(".folded") : format_of(o, "-");
	struct export_opts eo = *opts;
	int err;

	eo.width = terminal__width(&eo.color);
	err = export__write(format, base, p, &eo, stdout);
	if (!err)
		err = stream__flush(stdout);
	if (err)
		log_err("standard output: %s", strerror(-err));
	return err;
}

/* "wrote cpu.html (87 KiB)", to a person; a program that reads our messages did not ask. */
static void say_written(const char *path)
{
	struct stat st;
	double size;

	if (!isatty(STDERR_FILENO) || stat(path, &st) || !S_ISREG(st.st_mode))
		return;
	size = (double)st.st_size;
	if (size < 1024)
		log_info("wrote %s (%.0f bytes)", path, size);
	else if (size < 1024 * 1024)
		log_info("wrote %s (%.0f KiB)", path, size / 1024);
	else
		log_info("wrote %s (%.1f MiB)", path, size / (1024 * 1024));
}

static int write_all(struct outputs *o, const struct profile *base, const struct profile *p,
		     const struct export_opts *eo)
{
	bool stdout_used = false;
	int err = 0, e;

	for (size_t i = 0; i < o->cnt; i++) {
		struct export_file *file = o->list[i].file;

		e = base ? export__commit_diff(file, base, p, eo) : export__commit(file, p, eo);
		err = err ? err : e;
		stdout_used |= is_stdout(&o->list[i]);
		if (!e && !is_stdout(&o->list[i]))
			say_written(o->list[i].path);
	}
	/* --format says what the files are, and without one what stdout shows. */
	stdout_used |= (o->quiet || o->format) && o->cnt && !o->folded;
	e = stdout_used ? 0 : write_stdout(o, base, p, eo);
	return err ? err : e;
}

bool outputs__reports(const struct outputs *o)
{
	for (size_t i = 0; i < o->cnt; i++)
		if (is_stdout(&o->list[i]))
			return false;
	return !o->folded && !o->format && (!o->quiet || !o->cnt);
}

static int no_such_value(const struct profile *p, const char *name)
{
	struct strbuf b = { 0 };

	for (uint32_t i = 0; i < profile__value_cnt(p); i++)
		strbuf__addf(&b, "%s%s", i ? ", " : "", value_type__name(&p->stats.values[i]));
	log_err("--value %s: the profile has no such value; it has %s", name, b.err ? "" : b.s);
	strbuf__free(&b);
	return -ENOENT;
}

/* The report says it itself; a file without stacks says nothing. */
static void say_nothing(const struct profile *p)
{
	struct strbuf b = { 0 };

	summary_add_nothing(&b, p);
	if (!b.err)
		log_warn("%s", b.s);
	strbuf__free(&b);
}

/* Likewise. */
static void say_formats(const struct profile *before, const struct profile *after)
{
	struct strbuf b = { 0 };

	export__diff_formats(&b, before, after);
	if (b.len && !b.err)
		log_warn("%s", b.s);
	strbuf__free(&b);
}

int outputs__write(struct outputs *o, const struct profile *p, const struct export_opts *eo)
{
	struct export_opts with = *eo;

	if (o->value && profile__find_value(p, o->value) < 0)
		return no_such_value(p, o->value);
	with.value = o->value;
	with.idle = (struct idle_rules){ .idle = o->idle, .busy = o->busy };
	with.glue = o->glue;
	if (!p->stack_cnt && !outputs__reports(o))
		say_nothing(p);
	return write_all(o, NULL, p, &with);
}

int outputs__write_diff(struct outputs *o, const struct profile *before,
			const struct profile *after, const struct export_opts *eo)
{
	struct export_opts with = *eo;

	with.glue = o->glue;
	if (!outputs__reports(o))
		say_formats(before, after);
	return write_all(o, before, after, &with);
}

void outputs__close(struct outputs *o)
{
	for (size_t i = 0; i < o->cnt; i++) {
		export__close(o->list[i].file);
		o->list[i].file = NULL;
	}
}

static void free_regex(regex_t *re)
{
	if (re)
		regfree(re);
	free(re);
}

void outputs__free(struct outputs *o)
{
	outputs__close(o);
	free(o->list);
	free_regex(o->idle);
	free_regex(o->busy);
	*o = (struct outputs){ 0 };
}
