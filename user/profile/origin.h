/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_ORIGIN_H
#define PYPERF_ORIGIN_H
/*
 * Tells where code comes from, by the paths and names of a profile. Opens no file.
 *
 *	/srv/shop/cart.py					own code
 *	/srv/venv/lib/python3.11/site-packages/flask/app.py	package "flask", "flask/app.py"
 *	/usr/lib/python3.11/json/decoder.py			standard library, "json/decoder.py"
 *	<frozen runpy>						standard library
 *	/srv/venv/bin/gunicorn					a package's start script
 */
#include <stdbool.h>
#include <stddef.h>

enum origin {
	ORIGIN_OWN,
	ORIGIN_PACKAGE,
	ORIGIN_STDLIB,
};

enum origin origin_of(const char *path);
/* A package's start script. */
bool origin_is_script(const char *path);
/* What follows "site-packages/" or "dist-packages/" in a path, or NULL. */
const char *origin_in_site(const char *path);
/*
 * Is it a file of the standard library, ".../lib/python3.11/json/decoder.py"? True for packages
 * installed below it, too.
 */
bool origin_is_stdlib(const char *path);
/* The path relative to its import directory; `path` itself for own code. A part of `path`. */
const char *origin_relative(const char *path);
/*
 * The path without its first `root` bytes, some directories; but with the archive that holds the
 * file, or the directory of a __main__.py: "app.pyz/__main__.py".
 */
const char *origin_below(const char *path, size_t root);
/*
 * The first component of that path, without ".py": "flask", "json", "runpy". A part of `path`; its
 * length in *len.
 */
const char *origin_package(const char *path, size_t *len);

/*
 * mypyc compiles the modules of a package together into a file that it names after a hash,
 * "85cae5375ceb5d1ca6c6__mypyc.cpython-312-x86_64-linux-gnu.so": where "mypyc" stands in the
 * file's name; 0: it is no such file.
 */
size_t origin_mypyc(const char *name);

/* The executable or the library of an interpreter: "python3.11", "libpython3.9.so.1.0". */
bool origin_is_interpreter(const char *path);
/* A function of the C libraries where a process or a thread begins. */
bool origin_is_start(const char *func);
/* A function of CPython's that runs a program from its beginning to its end. */
bool origin_is_main(const char *func);
/* A function of CPython's that ends an interpreter. */
bool origin_is_end(const char *func);
/* CPython's own code of the import statement: "<frozen importlib._bootstrap>". */
bool origin_is_import(const char *path);
/* A function of CPython's garbage collector. */
bool origin_is_collector(const char *func);
/* ... of its regular expressions, of its sorting of lists. */
bool origin_is_regex(const char *func);
bool origin_is_sorting(const char *func);

#endif /* PYPERF_ORIGIN_H */
