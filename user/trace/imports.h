/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_IMPORTS_H
#define PYPERF_IMPORTS_H
/*
 * `trace --imports`: shows how long modules take to import, as trees and by module.
 *
 *	    SECONDS   THREAD      TOTAL        OWN  MODULE
 *	   0.031200     4711   12.40 ms    0.91 ms  json, imported by load (/srv/app.py:12)
 *	   0.031900     4711   11.49 ms    1.22 ms    json.decoder
 *
 * From CPython 3.3 on importlib/_bootstrap.py imports. It begins with _find_and_load(), whose first
 * argument is the name of the module. If the module is not loaded it calls
 * _find_and_load_unlocked(), and then releases the lock of the module: it calls
 * _ModuleLockManager.__exit__(), from 3.15 on _ModuleLock.release(). So the beginnings of functions
 * are enough, at half the cost. 3.15 imports the package of the module before that, in
 * _resolve_parents(); if that fails, nothing follows.
 *
 * An import is identified by the frame of its _find_and_load(); the open import of the same thread
 * has caused it. A tree is written when its root ends.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "base/str.h"
#include "trace/filter.h"
#include "trace/tracer.h"

#define IMPORTS_FILTERS 5

struct imports;

struct imports *imports__new(bool json); /* NULL: no memory */
void imports__free(struct imports *m);

/* The arguments for tracer__open(); imports__start() then gets the tracer. Borrowed. */
const struct trace_filter *imports__filters(const struct imports *m);
const struct tracer_events *imports__events(const struct imports *m);
void imports__start(struct imports *m, struct tracer *tr, uint64_t now_ns);

/*
 * So many events were lost (tracer__lost()), though none behind them has said so yet. It is not
 * known then which imports have ended.
 */
void imports__lose(struct imports *m, uint32_t lost);
/* Writes the imports that have not ended. */
void imports__finish(struct imports *m, uint64_t now_ns);

uint64_t imports__cnt(const struct imports *m);
/* Appends "34 modules imported in 160.2 ms". */
void imports__add_sum(const struct imports *m, struct strbuf *b);
/* Writes the table of `top` modules, most own time first; 0: of all. 0 or negative errno. */
int imports__write(struct imports *m, uint32_t top);
/* The same, as members of the open JSON object. */
int imports__write_json(struct imports *m, struct json *j, uint32_t top);
/* Warns about imports that are not shown. */
void imports__report(const struct imports *m);

#endif /* PYPERF_IMPORTS_H */
