/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "outputs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "log.h"

static bool is_stdout(const struct output *o)
{
	return !strcmp(o->path, "-");
}

#define HELP_INDENT 25
#define HELP_WIDTH  80

void outputs__help(void)
{
	const char *s = export__suffixes();
	int col = HELP_INDENT;

	printf("  -o, --output FILE      write FILE in the format of its suffix; can be given\n"
	       "%*sagain; '-' is the report on stdout; one of\n%*s",
	       HELP_INDENT, "", HELP_INDENT, "");
	for (size_t len; *s; s += len, s += strspn(s, " ")) {
		len = strcspn(s, " ");
		if (col > HELP_INDENT && col + 1 + (int)len > HELP_WIDTH) {
			printf("\n%*s", HELP_INDENT, "");
			col = HELP_INDENT;
		}
		col += printf("%s%.*s", col > HELP_INDENT ? " " : "", (int)len, s);
	}
	printf("\n  -f, --folded           folded stacks on stdout instead of the report\n");
}

int outputs__add(struct outputs *o, const char *path)
{
	/* stdout has no suffix: it takes the report, which is what is shown without -o, too. */
	const char *suffix = strcmp(path, "-") ? path : ".txt";
	const struct export_format *format = export__find(suffix);
	struct output *list;

	if (!format) {
		log_err("-o %s: the suffix names no format; known are %s", path,
			export__suffixes());
		return -EINVAL;
	}
	for (size_t i = 0; i < o->cnt; i++) {
		if (!strcmp(o->list[i].path, path)) {
			log_err("-o %s: given twice", path);
			return -EINVAL;
		}
	}
	list = reallocarray(o->list, o->cnt + 1, sizeof(*list));
	if (!list) {
		log_err("out of memory");
		return -ENOMEM;
	}
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

unsigned outputs__screen(bool *color)
{
	struct winsize ws;

	*color = false;
	if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) || !ws.ws_col)
		return 0;
	*color = !getenv("NO_COLOR");
	return ws.ws_col;
}

static int write_stdout(const struct outputs *o, const struct profile *p,
			const struct export_opts *opts)
{
	struct export_opts eo = *opts;
	int err;

	eo.width = outputs__screen(&eo.color);
	err = o->folded ? export__folded(p, &eo, stdout) : export__report(p, &eo, stdout);
	if (!err && fflush(stdout))
		err = -errno;
	if (err)
		log_err("standard output: %s", strerror(-err));
	return err;
}

int outputs__write(struct outputs *o, const struct profile *p, const struct export_opts *eo)
{
	bool stdout_used = false;
	int err = 0, e;

	for (size_t i = 0; i < o->cnt; i++) {
		e = export__commit(o->list[i].file, p, eo);
		err = err ? err : e;
		stdout_used |= is_stdout(&o->list[i]);
	}
	e = stdout_used ? 0 : write_stdout(o, p, eo);
	return err ? err : e;
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
