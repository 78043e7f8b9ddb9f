/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_EXPORT_PAGE_H
#define PYPERF_EXPORT_PAGE_H
/*
 * HTML pages of one file, and the escaping that HTML, SVG and JSON in HTML need.
 *
 * A page is a text made by scripts/embed-page from user/web/: style and script inside, a policy
 * that lets nothing else run or load, and marks <!--@WORD--> where the program fills in. What it
 * fills in is safe text (export_text.h) that went through one of the two functions here.
 */
#include <stddef.h>
#include <stdio.h>

#include "base/str.h"
#include "profile/profile.h"

/* Appends text for an element or a quoted attribute: & < > " ' as entities. */
void page_add_html(struct strbuf *b, const char *s, size_t len);
/*
 * Appends a JSON string, quotes included. No '<', '>' or '&' is in it, so it can neither end the
 * <script> it stands in nor begin a comment, and no U+2028 or U+2029. Invalid UTF-8 becomes
 * U+FFFD.
 */
void page_add_json(struct strbuf *b, const char *s, size_t len);

/* Fills in one mark: writes what belongs at <!--@WORD-->. 0 or negative errno. */
typedef int (*page_fill_fn)(void *ctx, const char *word, size_t len, FILE *f);

/* 0, the error of a fill, or that of the stream. */
int page_write(const char *page, page_fill_fn fill, void *ctx, FILE *f);

/* The heaviest process, "gunicorn" or "gunicorn and 2 more", as HTML. */
void page_add_title(struct strbuf *b, const struct profile *p);
/*
 * What every page has, as HTML: "title"; "headline", the report's, or why nothing was sampled;
 * "facts", the report's last block and the processes that were refused. Nothing for other words.
 */
void page_add_word(struct strbuf *b, const struct profile *p, const char *word, size_t len);

#endif /* PYPERF_EXPORT_PAGE_H */
