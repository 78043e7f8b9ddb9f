/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/lost.h"

void lost__add(struct strbuf *b, enum lost_form form, const char *what, const char *version,
	       uint32_t cnt)
{
	if (form == LOST_JSON) {
		strbuf__addf(b, "{\"event\":\"lost\",\"events\":%u", cnt);
		if (version)
			strbuf__addf(b, ",\"python\":\"%s\"", version);
		strbuf__addz(b, "}\n");
		return;
	}
	if (form == LOST_REMARK)
		strbuf__addz(b, "#");
	else
		strbuf__addf(b, "%11s", "?");
	strbuf__addf(b, " %u %s", cnt, what);
	if (version)
		strbuf__addf(b, " of CPython %s", version);
	strbuf__addz(b, " were lost here\n");
}
