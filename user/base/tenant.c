/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/tenant.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/payer.h"
#include "base/procfield.h"
#include "bpf/pyperf.h"

static uint32_t user_of(uint32_t tgid)
{
	char path[32], uids[64];
	struct proc_ids ids;

	snprintf(path, sizeof(path), "/proc/%u/status", tgid);
	if (procfield__read(path, "Uid", uids, sizeof(uids)) || !procfield__ids(uids, &ids))
		return TENANT_USER_UNKNOWN;
	return ids.real;
}

static uint64_t mount_namespace(const char *proc)
{
	char path[48], text[64] = "";
	unsigned long long id = 0;

	snprintf(path, sizeof(path), "%s/ns/mnt", proc);
	if (readlink(path, text, sizeof(text) - 1) < 0 || sscanf(text, "mnt:[%llu]", &id) != 1)
		return 0;
	return id;
}

static uint32_t payer_of(const char *proc, uint32_t uid)
{
	int fd = open(proc, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0) {
		uid = payer__of(fd, uid);
		close(fd);
	}
	return uid;
}

uint64_t tenant__of_process(uint32_t tgid)
{
	uint32_t uid = user_of(tgid);
	char proc[32];
	uint64_t space;

	snprintf(proc, sizeof(proc), "/proc/%u", tgid);
	uid = payer_of(proc, uid);
	space = mount_namespace(proc);
	if (!uid && space == mount_namespace("/proc/self"))
		return tgid;
	return (space ? space : TENANT_NO_NAMESPACE) << 32 | uid;
}

/* As share_slot() of bpf/shares.bpf.h has it. */
uint32_t tenant__slot(uint32_t tgid)
{
	uint64_t tenant = tenant__of_process(tgid);
	uint32_t user = tenant__user(tenant);

	if (tenant__is_roots(tenant))
		return SHARE_SLOT(mount_namespace("/proc/self"));
	return SHARE_SLOT(user ? user : tenant >> 32);
}

uint64_t tenant__of_user(uint32_t uid)
{
	return uid ? TENANT_NO_NAMESPACE << 32 | uid : 0;
}

bool tenant__is_roots(uint64_t tenant)
{
	return !(tenant >> 32);
}

uint32_t tenant__user(uint64_t tenant)
{
	return tenant__is_roots(tenant) ? 0 : (uint32_t)tenant;
}

uint64_t tenant__payer(uint64_t tenant)
{
	if (tenant__is_roots(tenant) || !(uint32_t)tenant)
		return tenant;
	return TENANT_NO_NAMESPACE << 32 | (uint32_t)tenant;
}
