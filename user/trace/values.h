/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_VALUES_H
#define PYPERF_VALUES_H
/*
 * `trace --args` and `--ret`: struct trace_value -> text, with the names of parameters.
 *
 *	(self=<Cart>, order='A-17', n=3, token=***, ...)
 *
 * Numbers, None and short strings are shown, of all else the type. A value whose name looks like
 * that of a secret is never shown, nor is one whose name is not known. Values and names are foreign
 * text; what is written is safe for a terminal.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "base/str.h"
#include "bpf/trace.h"
#include "trace/condition.h"
#include "trace/target.h"

#define VALUES_ARGS_DEFAULT 3

/* What the kernel needs to know of the interpreter. -ENOTSUP: see `*why_not`, a constant. */
int values__configure(struct trace_values_cfg *cfg, const struct target *t, uint32_t args,
		      bool returns, const char **why_not);
/* The opcode, if it returns one of the constants of its code object; else 0. */
uint8_t values__constant_opcode(const struct target *t, uint8_t opcode);

/* The parameters of code objects. */
struct values;

struct values *values__new(const struct py_layout *l); /* NULL: no memory */
void values__free(struct values *v);
int values__take_params(struct values *v, const struct trace_params *p); /* 0 or -ENOMEM */

bool values__knows(const struct values *v, uint64_t code);
/* Forgets code objects that have no name any more. */
void values__tidy(struct values *v, bool (*is_named)(void *ctx, uint64_t code), void *ctx);

/* "(n=3)", of a call of the code object `code`; `cnt` values were sent. */
void values__add_args(struct values *v, struct strbuf *b, uint64_t code,
		      const struct trace_value *at, uint32_t cnt);
void values__args_json(struct values *v, struct json *j, uint64_t code,
		       const struct trace_value *at, uint32_t cnt);
/* The condition holds for the parameter of its name, and there is one. */
bool values__hold(const struct values *v, uint64_t code, const struct trace_value *at, uint32_t cnt,
		  const struct condition *c);
/* The name of a parameter or a function: what has it is not shown. */
bool values__looks_secret(const char *s, size_t len);

/* The value that the function of this qualified name has returned; false: there is none. */
bool values__add_return(struct values *v, struct strbuf *b, const char *name, size_t len,
			const struct trace_value *value);

#endif /* PYPERF_VALUES_H */
