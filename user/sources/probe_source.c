/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Probes: stacks at an instruction of user space, each time that it is executed. Their programs are
 * an object of their own (bpf/probe.bpf.c), one for all probes of a session, with the sampler's
 * maps but for those that it writes alone.
 */
#include "sources/sources.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/thread.h"
#include "bpf/arch/arch.h"
#include "elf/elf.h"
#include "probe.skel.h"
#include "pyperf.skel.h"

#define UPROBE_TYPE   "/sys/bus/event_source/devices/uprobe/type"
#define NAME_PREFIX   "uprobe:"
/* Sizes of the sampler's tables below this are a test's. */
#define LEAST_ENTRIES 1024

/* One variable for both objects: programs of both see the same window, epoch and draft. */
#define SAME_PLACE(member)                                                                         \
	_Static_assert(offsetof(struct probe_bpf__bss, member) ==                                  \
			       offsetof(struct pyperf_bpf__bss, member),                           \
		       #member " lies elsewhere in the other object")
SAME_PLACE(told);
SAME_PLACE(chunks_added);
SAME_PLACE(active_window);
SAME_PLACE(draft);
SAME_PLACE(events_lost);
SAME_PLACE(clock_ns);
SAME_PLACE(code_epoch);
SAME_PLACE(counts_added);
_Static_assert(sizeof(struct probe_bpf__bss) == sizeof(struct pyperf_bpf__bss),
	       "the objects have other variables");

/* What programs write while they have the scratch, and what says which of them have it. */
static const char *const own_maps[] = {
	"places",   "known_codes", "counts0",	"counts1", "chunks0", "chunks1",
	"counters", "samplers",	   "scratches", "outs",	   "deep",    "blobs",
};

struct probe_object {
	struct probe_bpf *skel;
	pthread_t thread; /* which loads it */
	bool loading;
	int load_err;
	int btf_fd; /* types of the kernel, until it is loaded; negative: none */
	char btf_path[32];
	int cpu_cap;
	int user_cnt;
	struct probe_object **slot; /* where the session has it */
};

struct probe {
	struct probe_object *object;
	bool reads; /* the one that hands out what is the object's */
	struct bpf_link **links;
	size_t link_cnt;
	pid_t *pids; /* whose address spaces it is put into; none: all */
	size_t pid_cnt;
};

/* ---- arguments ------------------------------------------------------------------------------- */

/* PATH:SYMBOL[+OFFSET] or PATH:0xOFFSET */
struct place {
	char path[SOURCE_ARGS_MAX];
	char symbol[SOURCE_ARGS_MAX]; /* "": `offset` is one of the file */
	uint64_t offset;
	bool exact; /* an offset was given */
};

static bool parse_offset(const char *text, uint64_t *offset)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*offset = strtoull(text, &end, 0);
	return !*end && !errno;
}

static bool parse_place(const char *args, struct place *p)
{
	const char *colon = strrchr(args, ':');
	char *plus;

	if (!colon || colon == args || !colon[1])
		return false;
	*p = (struct place){ .exact = true };
	memcpy(p->path, args, (size_t)(colon - args));
	if (colon[1] >= '0' && colon[1] <= '9') /* no symbol begins so */
		return parse_offset(colon + 1, &p->offset);
	snprintf(p->symbol, sizeof(p->symbol), "%s", colon + 1);
	plus = strrchr(p->symbol, '+');
	p->exact = plus && plus != p->symbol;
	if (!p->exact)
		return true;
	*plus = '\0';
	return parse_offset(plus + 1, &p->offset);
}

static int parse(struct source_spec *spec)
{
	struct place p;
	const char *slash = strrchr(spec->args, '/');

	if (spec->args[0] != '/' || !parse_place(spec->args, &p)) {
		log_err("-e uprobe:%s: must be uprobe:PATH:SYMBOL, uprobe:PATH:SYMBOL+OFFSET or "
			"uprobe:PATH:0xOFFSET, with PATH from the root",
			spec->args);
		return -EINVAL;
	}
	/* The file and the place; where that is too long, its end says more. */
	snprintf(spec->name, sizeof(spec->name), NAME_PREFIX "%.*s",
		 (int)(sizeof(spec->name) - sizeof(NAME_PREFIX)), slash + 1);
	if (strlen(slash + 1) > sizeof(spec->name) - sizeof(NAME_PREFIX))
		snprintf(spec->name, sizeof(spec->name), NAME_PREFIX "%.*s",
			 (int)(sizeof(spec->name) - sizeof(NAME_PREFIX)),
			 strrchr(spec->args, ':') + 1);
	return 0;
}

static const char *check(const struct source *s)
{
	(void)s;
	return access(UPROBE_TYPE, R_OK) ? "not in this kernel" : NULL;
}

/* ---- where it is in the file ----------------------------------------------------------------- */

/*
 * Behind the instruction that marks a function's entry: it has no effect, and the kernel executes
 * it out of line, which is some fifty times as dear as what it can emulate, as it does the push
 * behind it.
 */
static uint64_t skip_landing(const struct elf_file *ef, uint64_t addr)
{
	char code[sizeof(ARCH_LANDING) - 1];

	if (elf_file__read(ef, addr, code, sizeof(code)) ||
	    memcmp(code, ARCH_LANDING, sizeof(code)) != 0)
		return addr;
	return addr + sizeof(code);
}

static int find_symbol(const struct elf_file *ef, const struct place *p, const char *path,
		       uint64_t *offset)
{
	struct elf_symbol symbol;
	uint64_t addr;

	if (!elf_file__symbol(ef, p->symbol, &symbol)) {
		log_err("-e uprobe: %s has no symbol %s", path, p->symbol);
		return -ENOENT;
	}
	addr = p->exact ? symbol.addr + p->offset : skip_landing(ef, symbol.addr);
	if (elf_file__addr_to_off(ef, addr, offset))
		return 0;
	log_err("-e uprobe: %s of %s is not code", p->symbol, path);
	return -EINVAL;
}

static int find_offset(const struct place *p, const char *path, uint64_t *offset)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), err;
	struct elf_file *ef = fd < 0 ? NULL : elf_file__open(fd, path);

	if (!ef) {
		err = -errno;
		log_err("-e uprobe: %s: %s", path, strerror(errno));
		return err;
	}
	*offset = p->offset;
	err = p->symbol[0] ? find_symbol(ef, p, path, offset) : 0;
	elf_file__close(ef);
	return err;
}

/* ---- the object ------------------------------------------------------------------------------ */

static bool is_own(const char *name)
{
	for (size_t i = 0; i < sizeof(own_maps) / sizeof(own_maps[0]); i++)
		if (!strcmp(name, own_maps[i]))
			return true;
	return false;
}

/*
 * How many hits there will be nobody knows. In NMI the sampler has no use for chunks; and in tests
 * it has less than the least of its own.
 */
static uint32_t window_entries(const struct bpf_map *ours, const struct bpf_map *theirs)
{
	uint32_t least = bpf_map__max_entries(theirs);

	return least > 1 && least < LEAST_ENTRIES ? least : bpf_map__max_entries(ours);
}

static int set_size(struct bpf_map *map, const struct bpf_map *theirs)
{
	bool counted = strstr(bpf_map__name(map), "counts") || strstr(bpf_map__name(map), "chunks");
	int err = bpf_map__set_max_entries(map, counted ? window_entries(map, theirs)
							: bpf_map__max_entries(theirs));

	if (!err && bpf_map__value_size(map) != bpf_map__value_size(theirs))
		err = bpf_map__set_value_size(map, bpf_map__value_size(theirs));
	return err;
}

static int share_map(struct bpf_map *map, const struct bpf_object *sampler)
{
	const struct bpf_map *theirs = bpf_object__find_map_by_name(
		sampler, bpf_map__is_internal(map) ? ".bss" : bpf_map__name(map));

	if (!theirs)
		return -ENOENT;
	if (is_own(bpf_map__name(map)))
		return set_size(map, theirs);
	return bpf_map__reuse_fd(map, bpf_map__fd(theirs));
}

static int share_maps(struct probe_bpf *skel, const struct bpf_object *sampler)
{
	struct bpf_map *map;
	int err = 0;

	bpf_object__for_each_map(map, skel->obj)
	{
		if (!err && !(bpf_map__map_flags(map) & BPF_F_RDONLY_PROG)) /* its configuration */
			err = share_map(map, sampler);
	}
	return err;
}

/* As the sampler, but for what is of perf events; the instruction is one of user space. */
static int configure(struct probe_object *o, const struct bpf_object *sampler)
{
	struct pyperf_cfg *cfg = (struct pyperf_cfg *)&o->skel->rodata->cfg;
	const struct bpf_map *map = bpf_object__find_map_by_name(sampler, ".rodata");
	const void *theirs;
	size_t size;

	theirs = map ? bpf_map__initial_value((struct bpf_map *)map, &size) : NULL;
	if (!theirs || size != sizeof(*o->skel->rodata))
		return -EINVAL;
	memcpy(cfg, theirs, sizeof(*cfg));
	cfg->flags &= ~(uint32_t)(CFG_NMI | CFG_KERNEL | CFG_RECALL | CFG_TIMED);
	cfg->object = 1;
	return 0;
}

static void *load(void *arg)
{
	struct probe_object *o = arg;

	o->load_err = probe_bpf__load(o->skel);
	return NULL;
}

static int wait_loaded(struct probe_object *o)
{
	if (o->loading)
		pthread_join(o->thread, NULL);
	o->loading = false;
	if (o->btf_fd >= 0)
		close(o->btf_fd);
	o->btf_fd = -1;
	return o->load_err;
}

static void release_object(struct probe_object *o)
{
	if (!o || --o->user_cnt > 0)
		return;
	wait_loaded(o);
	*o->slot = NULL;
	probe_bpf__destroy(o->skel);
	free(o);
}

static int open_skeleton(struct probe_object *o, const struct world *w)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .btf_custom_path = NULL);
	int err;

	/* The sampler may be loaded, and close its own, before this one is. */
	o->btf_fd = w->btf_path ? open(w->btf_path, O_RDONLY | O_CLOEXEC) : -1;
	snprintf(o->btf_path, sizeof(o->btf_path), "/proc/self/fd/%d", o->btf_fd);
	if (o->btf_fd >= 0)
		opts.btf_custom_path = o->btf_path;
	o->skel = probe_bpf__open_opts(&opts);
	if (!o->skel)
		return -errno;
	err = share_maps(o->skel, w->object);
	if (!err)
		err = configure(o, w->object);
	if (!err)
		err = thread__start(&o->thread, load, o);
	o->loading = !err;
	return err;
}

static struct probe_object *get_object(const struct world *w)
{
	struct probe_object *o = *w->probes;
	int err;

	if (o) {
		o->user_cnt++;
		return o;
	}
	o = calloc(1, sizeof(*o));
	if (!o)
		return NULL;
	o->cpu_cap = w->cpu_cap;
	o->user_cnt = 1;
	o->slot = w->probes;
	o->btf_fd = -1;
	err = open_skeleton(o, w);
	if (!err)
		return *w->probes = o;
	release_object(o);
	errno = -err;
	return NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

static int copy_pids(struct probe *p, const struct world *w)
{
	if (w->children || !w->pid_cnt)
		return 0; /* the kernel takes the probe of one address space from its children */
	p->pids = calloc(w->pid_cnt, sizeof(*p->pids));
	if (!p->pids)
		return -ENOMEM;
	memcpy(p->pids, w->pids, w->pid_cnt * sizeof(*p->pids));
	p->pid_cnt = w->pid_cnt;
	return 0;
}

static int probe_open(struct source_use *u, const struct world *w)
{
	struct probe *p = calloc(1, sizeof(*p));
	bool first = !*w->probes;
	int err;

	u->state = p;
	if (!p || copy_pids(p, w))
		return log_no_memory();
	p->object = get_object(w);
	if (!p->object) {
		err = -errno;
		log_err("the BPF object of probes: %s", strerror(errno));
		return err;
	}
	p->reads = first;
	return 0;
}

/* By number of the value type. */
static struct bpf_program *program_of(const struct probe_object *o, uint32_t type)
{
	struct bpf_program *const progs[SAMPLED_MAX] = {
		o->skel->progs.on_first_probe,
		o->skel->progs.on_second_probe,
		o->skel->progs.on_third_probe,
		o->skel->progs.on_fourth_probe,
	};

	return progs[type % SAMPLED_MAX];
}

/* `pid`: -1: every process. The file is what the process finds by that path. */
static int attach(struct source_use *u, const struct place *place, pid_t pid)
{
	LIBBPF_OPTS(bpf_uprobe_opts, opts, .retprobe = false);
	struct probe *p = u->state;
	char path[SOURCE_ARGS_MAX + 32] = "";
	uint64_t offset;
	int err;

	if (pid > 0)
		snprintf(path, sizeof(path), "/proc/%d/root", pid);
	strncat(path, place->path, sizeof(path) - strlen(path) - 1);
	err = find_offset(place, path, &offset);
	if (err)
		return err;
	p->links[p->link_cnt] = bpf_program__attach_uprobe_opts(program_of(p->object, u->type), pid,
								path, offset, &opts);
	if (!p->links[p->link_cnt]) {
		err = -errno;
		log_err("-e uprobe:%s: at 0x%" PRIx64 " of %s: %s", u->spec.args, offset, path,
			strerror(errno));
		return err;
	}
	p->link_cnt++;
	return 0;
}

static int attach_all(struct source_use *u)
{
	struct probe *p = u->state;
	struct place place;
	int err = 0;

	if (!parse_place(u->spec.args, &place))
		return -EINVAL;
	p->links = calloc(p->pid_cnt + 1, sizeof(struct bpf_link *));
	if (!p->links)
		return log_no_memory();
	if (!p->pid_cnt)
		return attach(u, &place, -1);
	for (size_t i = 0; i < p->pid_cnt && !err; i++)
		err = attach(u, &place, p->pids[i]);
	return err;
}

static int probe_start(struct source_use *u)
{
	struct probe *p = u->state;
	struct probe_object *o = p->object;
	int err = wait_loaded(o), fd;
	uint32_t zero = 0;

	if (err) {
		log_err("loading the BPF programs of probes: %s (-vv shows the kernel's log)",
			strerror(-err));
		return err;
	}
	fd = bpf_program__fd(o->skel->progs.on_probe);
	err = bpf_map_update_elem(bpf_map__fd(o->skel->maps.samplers), &zero, &fd, BPF_ANY);
	return err ? err : attach_all(u);
}

static int probe_blobs(const struct source_use *u)
{
	const struct probe *p = u->state;

	if (!p->reads)
		return -ENOENT;
	wait_loaded(p->object);
	return bpf_map__fd(p->object->skel->maps.blobs);
}

static int probe_window(struct source_use *u, struct source_tables *out)
{
	const struct probe *p = u->state;
	const struct probe_bpf *skel = p->object->skel;
	bool second = !(skel->bss->active_window & 1);

	*out = (struct source_tables){ -1, -1 };
	if (!p->reads)
		return 0;
	out->counts_fd = bpf_map__fd(second ? skel->maps.counts1 : skel->maps.counts0);
	out->chunks_fd = bpf_map__fd(second ? skel->maps.chunks1 : skel->maps.chunks0);
	return 0;
}

static void probe_counters(const struct source_use *u, uint64_t counters[CTR_CNT])
{
	const struct probe *p = u->state;
	const struct probe_object *o = p->object;
	struct counters *per_cpu = calloc((size_t)o->cpu_cap, sizeof(*per_cpu));
	uint32_t zero = 0;

	if (per_cpu && p->reads &&
	    !bpf_map_lookup_elem(bpf_map__fd(o->skel->maps.counters), &zero, per_cpu))
		for (int cpu = 0; cpu < o->cpu_cap; cpu++)
			for (uint32_t i = 0; i < CTR_CNT; i++)
				counters[i] += per_cpu[cpu].n[i];
	free(per_cpu);
}

static void probe_stop(struct source_use *u)
{
	struct probe *p = u->state;

	if (!p)
		return;
	while (p->link_cnt)
		bpf_link__destroy(p->links[--p->link_cnt]);
}

static void probe_close(struct source_use *u)
{
	struct probe *p = u->state;

	if (!p)
		return;
	probe_stop(u);
	release_object(p->object);
	free(p->links);
	free(p->pids);
	free(p);
	u->state = NULL;
}

const struct source probe_sources[] = {
	{
		.type = { .event = VALUE_FOREIGN, .name = "uprobe", .unit = "count" },
		.usage = "uprobe:PATH:PLACE",
		.parse = parse,
		.open = probe_open,
		.start = probe_start,
		.blobs = probe_blobs,
		.window = probe_window,
		.counters = probe_counters,
		.stop = probe_stop,
		.close = probe_close,
		.check = check,
	},
	{ .check = NULL },
};
