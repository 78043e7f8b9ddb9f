/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_APPLICATION_H
#define PYPERF_AGENT_APPLICATION_H
/*
 * What a Python process runs, from its arguments as in /proc/PID/cmdline: NUL-terminated words, or
 * a title that the process gave itself. They are the process's own claim; who shows the names
 * sanitises them.
 *
 *	python -O dir/x.py			x
 *	python -m pkg.__main__			pkg
 *	gunicorn -w 4 svc.wsgi:app		svc
 *	celery -A proj worker			proj
 *	gunicorn: worker [svc:app]		svc
 */
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

/*
 * The name of the application. False: the arguments have none, or one that half of all programs
 * have, such as main, app or manage: then something else tells more.
 */
bool application__name(const char *args, size_t len, struct strbuf *out);
/*
 * The program that is run, whatever it is called: "gunicorn", "main". False: not to be seen from
 * the arguments.
 */
bool application__script(const char *args, size_t len, struct strbuf *out);

#endif /* PYPERF_AGENT_APPLICATION_H */
