/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_MOVED_H
#define PYPERF_MOVED_H
/*
 * Matches code that has moved: a release in a directory of its own, another virtual environment, a
 * newer Python. Files of two profiles that are the same code get the same path, so that code that
 * compares functions by file need not know.
 *
 *	1  the same path
 *	2  the same path in an import statement: "flask/app.py" in site-packages,
 *	   "json/decoder.py" in the standard library; of a library the name of its file
 *	3  the most directories in common at the end of the path: /srv/r1/shop/cart.py and
 *	   /srv/r2/shop/cart.py; with the file's name alone only where it is unique in both profiles
 *	   and a function has the same name in both
 *
 * Only unambiguous files are matched.
 */
#include <stddef.h>

#include "base/str.h"
#include "profile/profile.h"

#define MOVED_SHOWN 3

/*
 * Gives files of `before` the paths of `after`. Appends "/srv/r1 -> /srv/r2", the most files first,
 * at most MOVED_SHOWN such pairs. 0 or -ENOMEM.
 */
int moved__match(struct profile *before, const struct profile *after, struct strbuf *said);

/* Removes the first of the directories that a path is in, from all paths. 0 or -ENOMEM. */
int moved__trim(struct profile *p, const char *const *dirs, size_t cnt);

#endif /* PYPERF_MOVED_H */
