/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_SETTING_H
#define PYPERF_SETTING_H
/*
 * What a message calls a setting that commands have as an option and the agent as a key of its
 * configuration: an administrator of the agent cannot do anything with "lower -F".
 *
 *	log_err("... (lower %s)", setting_name("-F", "'frequency ='"));
 */

/* From now on messages name keys. Call before there are threads. */
void setting__use_keys(void);
/* One of both. */
const char *setting_name(const char *option, const char *key);
/* What stands before the name of an event: "-e growth", "events = growth". */
#define SETTING_EVENT setting_name("-e", "events =")

#endif /* PYPERF_SETTING_H */
