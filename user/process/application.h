/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_APPLICATION_H
#define PYPERF_APPLICATION_H
/*
 * Names the application that a Python process runs, from its arguments as in /proc/PID/cmdline:
 * NUL-terminated words, or a title that the process has set. The process can claim anything there,
 * so callers sanitise the names before they show them.
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
 * The name of the application. False: the arguments have no name, or one that says little, such as
 * main, app or manage.
 */
bool application__name(const char *args, size_t len, struct strbuf *out);
/*
 * The program that is run, even if its name says little: "gunicorn", "main". False: the arguments
 * do not show it.
 */
bool application__script(const char *args, size_t len, struct strbuf *out);
/*
 * A title for people: "gunicorn shop.wsgi:app", "celery worker proj", "app.py", "pytest". False:
 * the arguments have no name. `out` must be empty.
 */
bool application__title(const char *args, size_t len, struct strbuf *out);

#endif /* PYPERF_APPLICATION_H */
