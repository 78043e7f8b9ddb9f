/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_PUSH_PUT_H
#define PYPERF_AGENT_PUSH_PUT_H
/*
 * Addresses made of a template: {service} {host} {label:NAME} {id} {start} {date} {hour} {seconds}.
 * Values are escaped, so none of them adds a component to the path.
 */
#include "base/str.h"
#include "store/window.h"

/* 0, or -EINVAL: another place than these, or a brace that is left over. */
int push_template(struct strbuf *to, const char *template, const struct window *w);

#endif /* PYPERF_AGENT_PUSH_PUT_H */
