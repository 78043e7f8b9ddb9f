/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "export/outputs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "base/terminal.h"

static bool is_stdout(const struct output *o)
{
	return !strcmp(o->path, "-");
}

#define HELP_INDENT 25
#define HELP_WIDTH  80

/* The suffixes that can be written, from column `col` on. */
static void add_suffixes(struct strbuf *b, bool diff, size_t col, size_t width)
{
	size_t start = col;

	for (const struct export_format *x = export__formats(); x->suffix; x++) {
		if (diff && !x->write_diff)
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
	printf("  -o, --output FILE      write FILE in the format of its suffix; may be\n"
	       "                         repeated; '-' is the report on stdout; one of\n"
	       "                         %s\n"
	       "  -f, --folded           folded stacks on stdout instead of the report\n",
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
	/* stdout has no suffix: it takes the report, which is what is shown without -o, too. */
	const char *suffix = strcmp(path, "-") ? path : ".txt";
	const struct export_format *format = export__find(suffix);
	struct output *list;

	if (!format || (o->diff && !format->write_diff))
		return bad_suffix(o, path);
	for (size_t i = 0; i < o->cnt; i++) {
		if (!strcmp(o->list[i].path, path)) {
			log_err("-o %s: given twice", path);
			return -EINVAL;
		}
	}
	list = reallocarray(o->list, o->cnt + 1, sizeof(*list));
	if (!list)
		return log_no_memory();
	o->list = list;
	o->list[o->cnt++] = (struct output){ .path = path, .format = format };
	return 0;
}

int outputs__check(const struct outputs *o)
{
	for (size_t i = 0; o->folded && i < o->cnt; i++) {
		if (is_stdout(&o->list[i])) {
			log_err("-f and -o - both want stdout");
			return -EINVAL;
		}
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

/* One profile, or with `base` what differs from that. */
static int write_stdout(const struct outputs *o, const struct profile *base,
			const struct profile *p, const struct export_opts *opts)
{
	const struct export_format *format = export__find(o->folded ? ".folded" : ".txt");
	struct export_opts eo = *opts;
	int err;

	eo.width = terminal__width(&eo.color);
	err = export__write(format, base, p, &eo, stdout);
	if (!err && fflush(stdout))
		err = -errno;
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
	stdout_used |= o->quiet && o->cnt && !o->folded;
	e = stdout_used ? 0 : write_stdout(o, base, p, eo);
	return err ? err : e;
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

int outputs__write(struct outputs *o, const struct profile *p, const struct export_opts *eo)
{
	struct export_opts with = *eo;

	if (o->value && profile__find_value(p, o->value) < 0)
		return no_such_value(p, o->value);
	with.value = o->value;
	return write_all(o, NULL, p, &with);
}

int outputs__write_diff(struct outputs *o, const struct profile *before,
			const struct profile *after, const struct export_opts *eo)
{
	return write_all(o, before, after, eo);
}

void outputs__close(struct outputs *o)
{
	for (size_t i = 0; i < o->cnt; i++) {
		export__close(o->list[i].file);
		o->list[i].file = NULL;
	}
}

void outputs__free(struct outputs *o)
{
	outputs__close(o);
	free(o->list);
	*o = (struct outputs){ 0 };
}
