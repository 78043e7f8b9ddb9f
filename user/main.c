/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The life of the program: one call per step, no logic. */
#include <fcntl.h>
#include <unistd.h>

#include "log.h"
#include "options.h"
#include "record.h"

/*
 * Started with a standard descriptor closed, the first file that is opened (an output, a BPF map) would
 * get its number, and messages would go there. A place holder that cannot be written to keeps it free.
 */
static void hold_standard_descriptors(void)
{
	while (1) {
		int fd = open("/dev/null", O_RDONLY);

		if (fd > STDERR_FILENO)
			close(fd);
		if (fd < 0 || fd > STDERR_FILENO)
			return;
	}
}

int main(int argc, char **argv)
{
	struct options opts;
	int status;

	hold_standard_descriptors();
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
