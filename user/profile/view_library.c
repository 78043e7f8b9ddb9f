/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "profile/view_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profile/export_text.h"
#include "profile/glue.h"
#include "profile/waits.h"

#define LIBRARY_NAME_MAX 64
#define HASH_LEN	 9 /* "-32a4b2a6" */

const char *view_extension_tag(const char *name)
{
	const char *tag = strstr(name, ".cpython-");

	return tag ? tag : strstr(name, ".abi3.so");
}

void view_library_name(const struct profile *p, uint32_t module, const char **name, size_t *len)
{
	const char *path = profile__str(p, p->modules[module].path);
	const char *slash = strrchr(path, '/'), *dot, *site = origin_in_site(path);

	*name = slash && slash[1] ? slash + 1 : path;
	if (origin_mypyc(*name)) {
		*name += origin_mypyc(*name);
		*len = strlen("mypyc");
		return;
	}
	*len = strlen(*name);
	dot = view_extension_tag(*name);
	if (dot && dot > *name && site) {
		*name = site;
		*len = (size_t)(dot - site);
		return;
	}
	dot = dot ? dot : strstr(*name, ".so");
	if (dot && dot > *name && strncmp(*name, "lib.so", 6) != 0)
		*len = (size_t)(dot - *name);
	/* wheels: "libscipy_openblas64_-32a4b2a6.so" */
	if (*len > HASH_LEN && (*name)[*len - HASH_LEN] == '-' &&
	    strspn(*name + *len - HASH_LEN + 1, "0123456789abcdef") >= HASH_LEN - 1)
		*len -= HASH_LEN;
}

static int library_cmp(const void *a, const void *b, void *profile)
{
	const struct profile *p = profile;
	size_t la, lb;
	const char *na, *nb;
	int d;

	view_library_name(p, *(const uint32_t *)a, &na, &la);
	view_library_name(p, *(const uint32_t *)b, &nb, &lb);
	d = memcmp(na, nb, la < lb ? la : lb);
	return d ? d : (la > lb) - (la < lb);
}

int view_rank_libraries(struct view *v)
{
	size_t cnt = v->p->module_cnt;
	uint32_t *order = calloc(cnt + 1, sizeof(*order));

	v->library_of = calloc(cnt + 1, sizeof(*v->library_of));
	v->library_module = calloc(cnt + 1, sizeof(*v->library_module));
	v->libraries = calloc(cnt + VIEW_FIRST_LIBRARY + 1, sizeof(*v->libraries));
	if (!order || !v->library_of || !v->library_module || !v->libraries) {
		free(order);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < cnt; i++)
		order[i] = i;
	qsort_r(order, cnt, sizeof(*order), library_cmp, (void *)v->p);
	v->library_cnt = VIEW_FIRST_LIBRARY;
	for (size_t i = 0; i < cnt; i++) {
		if (!i || library_cmp(&order[i - 1], &order[i], (void *)v->p))
			v->library_module[v->library_cnt++ - VIEW_FIRST_LIBRARY] = order[i];
		v->library_of[order[i]] = v->library_cnt - 1;
	}
	free(order);
	return 0;
}

const struct profile_module *view_module_of(const struct view *v, const struct sym *s)
{
	return s->module >= 0 && (size_t)s->module < v->p->module_cnt ? &v->p->modules[s->module]
								      : NULL;
}

uint32_t view_library_of(const struct view *v, const struct sym *s)
{
	switch (s->kind) {
	case SYM_PYTHON:
		return VIEW_INTERPRETER;
	case SYM_KERNEL:
		return VIEW_KERNEL;
	case SYM_NATIVE:
		if (glue_is_interpreter(v->p, s))
			return VIEW_INTERPRETER;
		return view_module_of(v, s) ? v->library_of[s->module] : VIEW_GENERATED;
	case SYM_MARKER:
		if (wait_is_ended(profile__str(v->p, s->func)))
			return VIEW_ENDING;
		return wait_reason(profile__str(v->p, s->func), NULL) ? VIEW_WAITING : VIEW_UNKNOWN;
	default:
		return VIEW_UNKNOWN;
	}
}

void view_add_library(struct strbuf *b, const struct view *v, uint32_t library)
{
	static const char *const names[VIEW_FIRST_LIBRARY] = {
		[VIEW_INTERPRETER] = "interpreter",
		[VIEW_COLLECTOR] = "garbage collection",
		[VIEW_REGEX] = "regular expressions",
		[VIEW_SORTING] = "sorting",
		[VIEW_KERNEL] = "kernel",
		[VIEW_WAITING] = "waiting",
		[VIEW_ENDING] = "ending waits",
		[VIEW_GENERATED] = "generated code",
		[VIEW_UNKNOWN] = "unknown",
	};
	const char *name;
	size_t len, before = b->len;

	if (library & VIEW_WAIT) {
		const struct sym *s = export_sym(v->p, v->functions[library & ~VIEW_WAIT].sym);

		name = wait_reason(profile__str(v->p, s->func), &len);
		if (wait_is_for_cpu(name, len)) { /* "CPU 34%" would be time on one */
			name = "run queue";
			len = strlen(name);
		}
		str_sanitise(b, name, len, LIBRARY_NAME_MAX);
		return;
	}
	if (library < VIEW_FIRST_LIBRARY) {
		strbuf__addz(b, names[library]);
		return;
	}
	view_library_name(v->p, v->library_module[library - VIEW_FIRST_LIBRARY], &name, &len);
	str_sanitise(b, name, len, LIBRARY_NAME_MAX);
	for (size_t i = before; i < b->len; i++)
		b->s[i] = b->s[i] == '/' ? '.' : b->s[i];
}
