/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "store/store.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "store/store_db.h"

#define DAY_S 86400ULL
#define MIB   (1ULL << 20)

void store_config__init(struct store_config *c)
{
	*c = (struct store_config){
		.path = STORE_PATH,
		.max_age_s = 7 * DAY_S,
		.max_bytes = 2048 * MIB,
		.keep_free = 256 * MIB,
	};
}

/* Only a name like this is ever set aside as damaged: nobody's password file. */
static bool is_path(const char *s)
{
	size_t len = strlen(s);

	return *s == '/' && len < PATH_MAX - STORE_SUFFIX_MAX && len > 4 &&
	       !strcmp(s + len - 3, ".db") && s[len - 4] != '/';
}

static int set_path(struct store_config *c, const char *value)
{
	if (!is_path(value))
		return -EINVAL;
	strcpy(c->path, value);
	return 0;
}

int store_config__set(struct store_config *c, const char *key, const char *value, const char **why)
{
	int err;

	if (!strcmp(key, "path")) {
		*why = "an absolute path that ends in .db";
		err = set_path(c, value);
	} else if (!strcmp(key, "max-age")) {
		*why = "a time from 1m to 3650d, like 36h or 7d";
		err = parse_period(value, 60, 3650 * DAY_S, &c->max_age_s);
	} else if (!strcmp(key, "max-size")) {
		*why = "a size from 16MiB to 1024GiB, like 500MB or 2GiB";
		err = parse_bytes(value, STORE_MIN_BYTES, MIB << 20, &c->max_bytes);
	} else if (!strcmp(key, "keep-free")) {
		*why = "a size from 0 to 1024GiB, like 500MB or 2GiB";
		err = parse_bytes(value, 0, MIB << 20, &c->keep_free);
	} else {
		return -ENOENT;
	}
	return err ? -EINVAL : 0;
}
