/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The life of the program: one call per step, no logic. */
#include "log.h"
#include "options.h"
#include "record.h"

int main(int argc, char **argv)
{
	struct options opts;
	int status;

	switch (options__parse(&opts, argc, argv)) {
	case OPTIONS_RUN:
		log_set_level((enum log_level)(LOG_LEVEL_INFO + opts.verbosity));
		status = record(&opts);
		break;
	case OPTIONS_DONE:
		status = 0;
		break;
	case OPTIONS_FAILED:
		status = 1;
		break;
	default:
		status = 2;
	}
	options__free(&opts);
	return status;
}
