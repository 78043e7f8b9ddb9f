// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "agent/http/http_page.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "export/export_page.h"
#include "page_agent.h"

/*
 * The page brings a policy of its own (scripts/embed-page), which allows less. It is never in a
 * frame.
 */
#define PAGE_POLICY "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; object-src 'none'"

/* <!--@host--> */
static int fill(void *ctx, const char *word, size_t len, FILE *f)
{
	char host[HOST_NAME_MAX + 1] = "";
	struct strbuf b = { 0 };
	int err;

	(void)ctx;
	if (len != strlen("host") || memcmp(word, "host", len))
		return 0;
	gethostname(host, sizeof(host) - 1);
	page_add_html(&b, host, strlen(host));
	err = b.err;
	if (!err && b.len)
		fwrite(b.s, 1, b.len, f);
	strbuf__free(&b);
	return err;
}

void http_page__answer(const struct http_backend *b, const struct http_args *args,
		       struct http_answer *a)
{
	FILE *f = open_memstream(&a->body, &a->size);
	int err = f ? page_write(page_agent, fill, NULL, f) : -ENOMEM;

	(void)b;
	(void)args;
	if (f && fclose(f))
		err = -ENOMEM;
	if (err)
		return http_answer__text(a, 500, "out of memory");
	a->status = 200;
	a->type = HTTP_HTML;
	a->policy = PAGE_POLICY;
}
