/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "agent/confine.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/rights.h"

static bool is_needed(int cap)
{
	for (const struct right *r = rights__needed; r->name; r++)
		if (r->cap == cap)
			return true;
	return false;
}

static int keep_needed(void)
{
	struct __user_cap_header_struct hdr = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { 0 };

	if (syscall(SYS_capget, &hdr, data))
		return -errno;
	for (int cap = 0; cap < 64; cap++) {
		struct __user_cap_data_struct *d = &data[cap / 32];
		__u32 bit = 1U << (cap % 32);

		if (is_needed(cap))
			continue;
		d->permitted &= ~bit;
		d->effective &= ~bit;
		d->inheritable &= ~bit;
	}
	return syscall(SYS_capset, &hdr, data) ? -errno : 0;
}

/* Drops the bounding set. Needs CAP_SETPCAP; without it no_new_privs must do. */
static void empty_bounding_set(void)
{
	for (int cap = 0; cap < 64; cap++)
		if (!is_needed(cap) && prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1 &&
		    prctl(PR_CAPBSET_DROP, cap, 0, 0, 0))
			return;
}

int confine(void)
{
	int err = 0;

	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	empty_bounding_set();
	err = keep_needed();
	if (!err && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		err = -errno;
	if (err)
		log_err("giving up privileges: %s", strerror(-err));
	return err;
}
