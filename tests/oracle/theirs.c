/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "theirs.h"

#include <elfutils/libdwfl.h>
#include <errno.h>
#include <stdlib.h>

struct theirs {
	Dwfl *dwfl;
	pid_t pid;
	bool attached;
	struct their_stack *out; /* of the walk at hand */
};

/* No debug files: what is compared is what a stripped system has. */
static char no_path[] = "";
static char *no_path_ptr = no_path;

static const Dwfl_Callbacks callbacks = {
	.find_elf = dwfl_linux_proc_find_elf,
	.find_debuginfo = dwfl_standard_find_debuginfo,
	.debuginfo_path = &no_path_ptr,
};

int theirs__refresh(struct theirs *t)
{
	dwfl_report_begin(t->dwfl);
	if (dwfl_linux_proc_report(t->dwfl, t->pid) || dwfl_report_end(t->dwfl, NULL, NULL))
		return -EIO;
	if (!t->attached && dwfl_linux_proc_attach(t->dwfl, t->pid, true))
		return -EIO;
	t->attached = true;
	return 0;
}

static int on_frame(Dwfl_Frame *frame, void *arg)
{
	struct theirs *t = arg;
	struct their_stack *out = t->out;
	bool activation;
	Dwarf_Addr pc;

	if (!dwfl_frame_pc(frame, &pc, &activation) || out->cnt == THEIR_FRAMES)
		return DWARF_CB_ABORT;
	if (!pc)
		return DWARF_CB_ABORT;
	out->addr[out->cnt++] = activation ? pc : pc - 1;
	return DWARF_CB_OK;
}

void theirs__walk(struct theirs *t, pid_t tid, struct their_stack *out)
{
	int result;

	out->cnt = 0;
	t->out = out;
	result = dwfl_getthread_frames(t->dwfl, tid, on_frame, t);
	/* DWARF_CB_ABORT: a return address of 0. */
	out->whole = !result || (result == DWARF_CB_ABORT && out->cnt < THEIR_FRAMES);
	out->why = out->whole ? NULL : dwfl_errmsg(-1);
	if (!out->whole && !out->why)
		out->why = "too many frames";
}

const char *theirs__symbol(struct theirs *t, uint64_t addr)
{
	Dwfl_Module *mod = dwfl_addrmodule(t->dwfl, addr);
	const char *name = mod ? dwfl_module_addrname(mod, addr) : NULL;

	return name ? name : "?";
}

struct theirs *theirs__new(pid_t pid)
{
	struct theirs *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->pid = pid;
	t->dwfl = dwfl_begin(&callbacks);
	if (t->dwfl)
		return t;
	free(t);
	return NULL;
}

void theirs__free(struct theirs *t)
{
	if (!t)
		return;
	dwfl_end(t->dwfl);
	free(t);
}
