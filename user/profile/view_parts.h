/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_VIEW_PARTS_H
#define PYPERF_VIEW_PARTS_H
/*
 * What view.c asks of view_library.c: which library code belongs to, and what people call it. All
 * names are borrowed from the profile.
 */
#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"
#include "profile/view.h"

/* ".cpython-311-x86_64-linux-gnu.so": where an extension module's name ends; NULL: it is none. */
const char *view_extension_tag(const char *name);
/*
 * "libcrypto" of "/usr/lib/libcrypto.so.3", "_hashlib" of
 * "_hashlib.cpython-311-x86_64-linux-gnu.so". The extension of a package is called what it is
 * imported as, with '/' for '.': "lxml/etree", for "etree" or "lib" alone tells nobody whose it is.
 * A library "lib.so" keeps its suffix: "lib" is no name.
 */
void view_library_name(const struct profile *p, uint32_t module, const char **name, size_t *len);
/* Numbers the libraries of a view: modules of one name are one library. 0 or -ENOMEM. */
int view_rank_libraries(struct view *v);
/* NULL: it is in none. */
const struct profile_module *view_module_of(const struct view *v, const struct sym *s);
/* The number of its library, or one of enum view_library (below VIEW_FIRST_LIBRARY). */
uint32_t view_library_of(const struct view *v, const struct sym *s);

#endif /* PYPERF_VIEW_PARTS_H */
