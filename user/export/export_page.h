/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_EXPORT_PAGE_H
#define PYPERF_EXPORT_PAGE_H
/*
 * HTML pages in one file, and the escaping that HTML, SVG and JSON in HTML need.
 *
 * A page is a text that scripts/embed-page makes of user/web/: it contains its style and script, a
 * policy that lets nothing else run or load, and marks <!--@WORD--> that the program replaces. The
 * replacements are safe text (export_text.h) that went through one of the two functions here.
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

/* Replaces one mark: writes the text for <!--@WORD-->. 0 or negative errno. */
typedef int (*page_fill_fn)(void *ctx, const char *word, size_t len, FILE *f);

/* Writes the page. 0, the error of a fill, or that of the stream. */
int page_write(const char *page, page_fill_fn fill, void *ctx, FILE *f);

/*
 * Writes the element #ID that a page's script reads its data from: a <script> of a type that is not
 * executed. Small data are JSON, which a person can read. Large ones are gzip in base64, whose type
 * is application/gzip. Empties `json`. 0 or negative errno.
 */
int page_write_data(struct strbuf *json, const char *id, FILE *f);

/* The heaviest process, "gunicorn" or "gunicorn and 2 more", as HTML. */
void page_add_title(struct strbuf *b, const struct profile *p);
/*
 * The marks of every page, as HTML: "title"; "headline", the report's, or why nothing was sampled;
 * "facts", the report's last block and the processes that were refused; "counted", the unit of the
 * numbers. Appends nothing for other words.
 */
void page_add_word(struct strbuf *b, const struct profile *p, const char *word, size_t len);

#endif /* PYPERF_EXPORT_PAGE_H */
