/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cmd/output_options.h"

bool output_options__takes(int opt)
{
	return opt == 'o' || opt == 'f' || (opt >= OUTPUT_FORMAT && opt <= OUTPUT_BUSY);
}

int output_options__set(struct outputs *o, int opt, const char *arg)
{
	switch (opt) {
	case 'o':
		return outputs__add(o, arg);
	case OUTPUT_FORMAT:
		return outputs__set_format(o, arg);
	case OUTPUT_MARKDOWN:
		return outputs__set_format(o, "markdown");
	case OUTPUT_IDLE:
	case OUTPUT_BUSY:
		return outputs__set_idle(o, opt == OUTPUT_BUSY, arg);
	case 'f':
		o->folded = true;
		break;
	case OUTPUT_GLUE:
		o->glue = true;
		break;
	case OUTPUT_VALUE:
		o->value = arg;
		break;
	}
	return 0;
}
