/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "profile/origin.h"

#include <ctype.h>
#include <string.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* ---- Paths ---- */

/* Behind the last "/NAME/" in a path, or NULL. */
static const char *behind_dir(const char *path, const char *name)
{
	const char *found = NULL, *at = path;
	size_t len = strlen(name);

	while ((at = strstr(at, name))) {
		if (at > path && at[-1] == '/' && at[len] == '/')
			found = at + len + 1;
		at += len;
	}
	return found;
}

const char *origin_in_site(const char *path)
{
	const char *site = behind_dir(path, "site-packages");

	return site ? site : behind_dir(path, "dist-packages");
}

/* Behind the first "/python3.11/" or "/python311.zip/" in a path, or NULL. */
static const char *behind_stdlib(const char *path)
{
	const char *at = path;

	while ((at = strstr(at, "/python"))) {
		at += strlen("/python");
		at += strspn(at, "0123456789.");
		if (!isdigit((unsigned char)at[-1]) && strncmp(at, "zip/", 4))
			continue;
		if (!strncmp(at, "zip/", 4))
			return at + 4;
		if (*at == '/')
			return at + 1;
	}
	return NULL;
}

bool origin_is_stdlib(const char *path)
{
	return behind_stdlib(path) != NULL;
}

/* "/srv/venv/bin/gunicorn": a script that pip makes of an entry point has no suffix. */
bool origin_is_script(const char *path)
{
	const char *name = behind_dir(path, "bin");

	return name && *name && !strchr(name, '/') && !strchr(name, '.');
}

/*
 * "<frozen runpy>", "<__array_function__ internals>"; but code from a command line is one's own,
 * and so is what cloudpickle carries to another process: it drops the path of a function's file.
 */
static bool is_generated(const char *path)
{
	return *path == '<' && strcmp(path, "<string>") != 0 && strcmp(path, "<stdin>") != 0 &&
	       strcmp(path, "<dynamic-code>") != 0 && strncmp(path, "<ipython", 8) != 0;
}

enum origin origin_of(const char *path)
{
	if (origin_in_site(path) || origin_is_script(path))
		return ORIGIN_PACKAGE;
	return origin_is_stdlib(path) || is_generated(path) ? ORIGIN_STDLIB : ORIGIN_OWN;
}

bool origin_is_import(const char *path)
{
	return !strncmp(path, "<frozen importlib._bootstrap", 28);
}

const char *origin_relative(const char *path)
{
	const char *site = origin_in_site(path);
	const char *at = site ? site : behind_stdlib(path);

	if (!at && origin_is_script(path))
		at = behind_dir(path, "bin") - strlen("bin/");
	return at && *at ? at : path;
}

/* Does the directory's name, of `len` bytes, say that it is a file with others in it? */
static bool is_archive(const char *name, size_t len)
{
	static const char *const suffixes[] = { ".zip", ".pyz", ".pyzw", ".egg",
						".whl", ".pex", ".par",	 ".xar" };

	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		size_t n = strlen(suffixes[i]);

		if (len > n && !strncmp(name + len - n, suffixes[i], n))
			return true;
	}
	return false;
}

const char *origin_below(const char *path, size_t root)
{
	const char *last = path, *slash;

	for (const char *at = path; at < path + root && (slash = strchr(at, '/')); at = slash + 1) {
		if (is_archive(at, (size_t)(slash - at)))
			return at;
		last = at;
	}
	return !strcmp(path + root, "__main__.py") ? last : path + root;
}

size_t origin_mypyc(const char *name)
{
	static const char end[] = "__mypyc.";
	const char *at = strstr(name, end);

	return at ? (size_t)(at - name) + strlen("__") : 0;
}

const char *origin_package(const char *path, size_t *len)
{
	const char *start = origin_relative(path);
	size_t mypyc = strchr(start, '/') ? 0 : origin_mypyc(start);

	if (!strncmp(start, "<frozen ", 8)) {
		start += 8;
		*len = strcspn(start, ".>");
		return start;
	}
	if (mypyc) {
		*len = strlen("mypyc");
		return start + mypyc;
	}
	if (!strncmp(start, "bin/", 4))
		start += 4;
	else if (start == path && strrchr(path, '/')) /* own code: the file */
		start = strrchr(path, '/') + 1;
	*len = strcspn(start, "/");
	if (*len > 3 && !start[*len] && !strncmp(start + *len - 3, ".py", 3))
		*len -= 3;
	return start;
}

/* ---- Native code ---- */

bool origin_is_interpreter(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	if (!strncmp(name, "lib", 3))
		name += 3;
	if (strncmp(name, "python", 6) != 0)
		return false;
	name += 6;
	return !*name || isdigit((unsigned char)*name);
}

static bool is_one_of(const char *func, const char *const *names, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++) {
		size_t len = strlen(names[i]);

		/*
		 * "__libc_start_main@@GLIBC_2.34", "__libc_start_main_impl",
		 * "gc_collect_main.lto_priv.0"
		 */
		if (!strncmp(func, names[i], len) &&
		    (!func[len] || func[len] == '@' || func[len] == '.' ||
		     !strcmp(func + len, "_impl")))
			return true;
	}
	return false;
}

bool origin_is_start(const char *func)
{
	static const char *const names[] = {
		"_start",
		"__libc_start_main",
		"__libc_start_call_main",
		"start_thread",
		"clone3",
		"__clone3",
		"clone",
		"__clone",
		"thread_start",
		"libc_start_main_stage2",
	};

	return is_one_of(func, names, ARRAY_SIZE(names));
}

bool origin_is_main(const char *func)
{
	static const char *const names[] = {
		"main",		"Py_BytesMain", "Py_RunMain",	     "Py_Main",
		"_Py_UnixMain", "pymain_main",	"pymain_run_python",
	};

	return is_one_of(func, names, ARRAY_SIZE(names));
}

bool origin_is_end(const char *func)
{
	static const char *const names[] = { "Py_FinalizeEx", "Py_Finalize", "_Py_Finalize",
					     "Py_EndInterpreter" };

	return is_one_of(func, names, ARRAY_SIZE(names));
}

/* Modules/gcmodule.c until 3.12, Python/gc.c and Python/gc_free_threading.c from 3.13 on. */
bool origin_is_collector(const char *func)
{
	static const char *const names[] = {
		"gc_collect_main",
		"gc_collect_generations",
		"gc_collect_with_callback",
		"gc_collect_region",
		"gc_collect_young",
		"gc_collect_increment",
		"gc_collect_full",
		"gc_collect_internal",
		"_PyGC_Collect",
		"_PyGC_RunGC",
		"_Py_RunGC",
		"PyGC_Collect",
		"gc.collect",
	};

	return is_one_of(func, names, ARRAY_SIZE(names));
}

/* Modules/_sre, and as the tables of methods have it. */
bool origin_is_regex(const char *func)
{
	return !strncmp(func, "sre_", 4) || !strncmp(func, "_sre", 4) ||
	       !strncmp(func, "re.Pattern.", 11);
}

/* Objects/listobject.c; sorted() calls it. */
bool origin_is_sorting(const char *func)
{
	static const char *const names[] = { "list.sort", "list_sort", "listsort", "PyList_Sort" };

	return is_one_of(func, names, ARRAY_SIZE(names));
}
