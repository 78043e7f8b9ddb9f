/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_PUSH_PUT_H
#define PYPERF_AGENT_PUSH_PUT_H
/*
 * Makes addresses from a template: {service} {host} {label:NAME} {id} {start} {date} {hour}
 * {seconds}. Values are escaped, so none of them adds a component to the path.
 */
#include "base/str.h"
#include "store/window.h"

/* 0, or -EINVAL: an unknown name in braces, or a single brace. */
int push_template(struct strbuf *to, const char *template, const struct window *w);

#endif /* PYPERF_AGENT_PUSH_PUT_H */
