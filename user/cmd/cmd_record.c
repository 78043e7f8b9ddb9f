/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* pyperf-bpf record: samples, then reports. The default command. */
#include "cmd/command.h"

#include "base/log.h"
#include "cmd/options.h"
#include "cmd/record.h"

static int run(int argc, char **argv)
{
	struct options opts;
	enum cmdline_result result = options__parse(&opts, argc, argv);
	int status = cmdline__status(result);

	if (result == CMDLINE_RUN) {
		log_set_level((enum log_level)(LOG_LEVEL_INFO + opts.verbosity));
		status = record(&opts);
	}
	options__free(&opts);
	return status;
}

const struct command cmd_record = {
	.name = "record",
	.summary = "sample processes, then report (the default)",
	.usage = options__usage,
	.run = run,
};
