/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "files.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "bpf/pyperf.h"
#include "ehframe.h"
#include "idmap.h"
#include "log.h"

/* For how long file_table__is_plain() trusts a verdict: an inode may be rewritten in place. */
#define PLAIN_TRUST_NS	1000000000ULL
#define PUBLISH_THREADS 32
#define PUBLISH_BATCH	64

enum verdict {
	VERDICT_NONE = 0,  /* not looked at, or it could not be read: ask again in the next round */
	VERDICT_OTHER = 1, /* not an ELF file of this machine */
	VERDICT_PLAIN = 2, /* ELF, no interpreter */
	VERDICT_PYTHON = 3, /* `file` is set */
};

struct inode {
	uint64_t dev, ino;
	struct inode *next; /* the same hash */
	enum verdict verdict;
	int err;		  /* of VERDICT_NONE */
	uint64_t round;		  /* in which it was last compared with its file */
	int64_t size, mtime_ns;	  /* then */
	struct mapped_file *file; /* NULL: not open */
	bool owner;		  /* the descriptor of `file` is of this inode */
	uint64_t checked_ns;
	uint64_t generation, generation_seen; /* by perf: at the last check, and last of all */
	bool has_generation;
};

struct pending {
	uint32_t index;
	int fd;
	int err;
};

struct file_table {
	struct file_maps maps;
	struct symbolizer *sym;
	struct idmap inodes;
	struct idmap by_build_id;
	struct mapped_file **files; /* by id - 1 */
	size_t file_cnt, file_cap;
	struct pending *pending; /* tables not yet published */
	size_t pending_cnt, pending_cap;
	uint32_t *free_tables; /* indexes */
	size_t free_table_cnt;
	uint32_t next_table;
	struct mapped_file **interps;
	uint32_t interp_cnt;
	uint64_t round, use_clock, room_made;
	struct mapped_file *vdso;
	uint64_t vdso_size;
	bool vdso_tried;
	bool no_map_files; /* not permitted: do not ask again */
	bool warned_budget;
	struct file_stats stats;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

/* ---- life ----------------------------------------------------------------------------------- */

/* Files stay open, so the soft limit of descriptors, 1024 as a rule, is not for us. */
static void raise_nofile(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

struct file_table *file_table__new(const struct file_maps *maps, struct symbolizer *sym)
{
	struct file_table *ft = calloc(1, sizeof(*ft));

	if (!ft)
		return NULL;
	ft->maps = *maps;
	ft->sym = sym;
	ft->next_table = 1;
	ft->round = 1;
	if (!ft->maps.table_budget)
		ft->maps.table_budget = TABLE_BUDGET_DEFAULT;
	ft->free_tables = malloc((maps->table_cap + 1) * sizeof(*ft->free_tables));
	ft->interps = calloc(maps->interp_cap + 1, sizeof(*ft->interps));
	if (!ft->free_tables || !ft->interps) {
		free(ft->free_tables);
		free(ft->interps);
		free(ft);
		errno = ENOMEM;
		return NULL;
	}
	raise_nofile();
	return ft;
}

static void free_file(struct mapped_file *file)
{
	elf_file__close(file->elf);
	free(file->py);
	free(file);
}

void file_table__free(struct file_table *ft)
{
	struct inode *inode, *next;

	if (!ft)
		return;
	for (size_t at = 0; (inode = idmap__next(&ft->inodes, &at));) {
		for (; inode; inode = next) {
			next = inode->next;
			free(inode);
		}
	}
	for (size_t i = 0; i < ft->file_cnt; i++)
		free_file(ft->files[i]);
	for (size_t i = 0; i < ft->pending_cnt; i++)
		close(ft->pending[i].fd);
	idmap__free(&ft->inodes);
	idmap__free(&ft->by_build_id);
	free(ft->files);
	free(ft->pending);
	free(ft->free_tables);
	free(ft->interps);
	free(ft);
}

void file_table__begin(struct file_table *ft)
{
	ft->round++;
}

const struct file_stats *file_table__stats(const struct file_table *ft)
{
	return &ft->stats;
}

struct mapped_file *file_table__find(const struct file_table *ft, uint32_t id)
{
	return id && id <= ft->file_cnt ? ft->files[id - 1] : NULL;
}

/* ---- opening -------------------------------------------------------------------------------- */

/*
 * /proc/PID/map_files/START-END is the mapped file itself, whatever became of its name: deleted, a
 * memfd, in another mount namespace, below an overlay. Needs CAP_CHECKPOINT_RESTORE (5.9+) or
 * CAP_SYS_ADMIN. O_PATH: whether it is safe to open for reading shows first.
 */
static int open_map_file(struct file_table *ft, int proc_fd, const struct map_line *line)
{
	char path[64];
	int fd;

	if (ft->no_map_files)
		return -EPERM;
	snprintf(path, sizeof(path), "map_files/%llx-%llx", (unsigned long long)line->start,
		 (unsigned long long)line->end);
	fd = openat(proc_fd, path, O_PATH | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	if (errno == EPERM)
		ft->no_map_files = true;
	return -errno;
}

/* By name, as the process sees it; the inode number tells whether it is still the same file. */
static int open_by_name(int proc_fd, const struct map_line *line)
{
	char path[PATH_MAX] = "root";
	struct stat st;
	int n, fd;

	n = map_line__path(line, path + 4, sizeof(path) - 4);
	if (n < 0)
		return n;
	fd = openat(proc_fd, path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || st.st_ino != line->inode) {
		close(fd);
		return -ESTALE;
	}
	return fd;
}

/* An O_PATH descriptor of the mapped file, which is a regular file, and what stat() says of it. */
static int open_path(struct file_table *ft, int proc_fd, const struct map_line *line,
		     struct stat *st)
{
	int fd = open_map_file(ft, proc_fd, line);

	if (fd < 0)
		fd = open_by_name(proc_fd, line);
	if (fd < 0)
		return fd;
	/* Opening a device or a fifo for reading could do something. */
	if (fstat(fd, st) || !S_ISREG(st->st_mode)) {
		close(fd);
		return -ENOEXEC;
	}
	return fd;
}

static int reopen_for_reading(int path_fd)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", path_fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int64_t mtime_ns(const struct stat *st)
{
	return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

/* The ELF file behind a mapping; NULL and errno. */
static struct elf_file *open_elf(struct file_table *ft, int path_fd, const struct map_line *line)
{
	int fd = reopen_for_reading(path_fd), n;
	struct elf_file *elf;
	char *name;

	if (fd < 0) {
		errno = -fd;
		return NULL;
	}
	ft->stats.opened++;
	name = malloc(line->name_len + 1);
	if (!name) {
		close(fd);
		errno = ENOMEM;
		return NULL;
	}
	n = map_line__path(line, name, line->name_len + 1);
	if (n < 0) {
		memcpy(name, line->name, line->name_len);
		name[line->name_len] = '\0';
	}
	elf = elf_file__open(fd, name);
	n = errno;
	free(name);
	errno = n;
	return elf;
}

/* ---- files ---------------------------------------------------------------------------------- */

static uint64_t identity_hash(const struct elf_file *elf)
{
	const struct elf_id *id = elf_file__id(elf);
	uint64_t h = elf_file__size(elf) ^ 0xcbf29ce484222325ULL;

	for (unsigned int i = 0; i < id->size; i++)
		h = (h ^ id->bytes[i]) * 0x100000001b3ULL;
	return h;
}

/* The file with the same build id and size, or NULL. */
static struct mapped_file *find_same(const struct file_table *ft, const struct elf_file *elf)
{
	const struct elf_id *id = elf_file__id(elf);
	struct mapped_file *file;

	if (!id->size)
		return NULL;
	for (file = idmap__get(&ft->by_build_id, identity_hash(elf)); file;
	     file = file->next_same) {
		const struct elf_id *have = elf_file__id(file->elf);

		if (have->size == id->size && !memcmp(have->bytes, id->bytes, id->size) &&
		    elf_file__size(file->elf) == elf_file__size(elf))
			return file;
	}
	return NULL;
}

/* Takes over `py`; a new file takes over `elf` as well. NULL on lack of memory or of ids. */
static struct mapped_file *add_file(struct file_table *ft, struct elf_file *elf, int python,
				    struct py_binary *py)
{
	struct mapped_file *file = calloc(1, sizeof(*file)), **more;
	size_t cap = ft->file_cap ? ft->file_cap * 2 : 256;
	uint64_t hash = identity_hash(elf);

	if (!file || ft->file_cnt >= FRAME_NATIVE_FILE)
		goto fail;
	if (ft->file_cnt == ft->file_cap) {
		more = realloc(ft->files, cap * sizeof(*more));
		if (!more)
			goto fail;
		ft->files = more;
		ft->file_cap = cap;
	}
	*file = (struct mapped_file){ .id = (uint32_t)ft->file_cnt + 1,
				      .elf = elf,
				      .python = python,
				      .py = py,
				      .interp = -1 };
	if (elf_file__id(elf)->size) {
		file->next_same = idmap__get(&ft->by_build_id, hash);
		if (idmap__set(&ft->by_build_id, hash, file))
			file->next_same = NULL; /* not shared, then */
	}
	ft->files[ft->file_cnt++] = file;
	ft->stats.files++;
	if (symbolizer__add_file(ft->sym, file->id, elf))
		log_warn("%s: no symbols: out of memory", elf_file__path(elf));
	return file;
fail:
	free(file);
	free(py);
	return NULL;
}

static struct inode *find_inode(struct file_table *ft, uint64_t dev, uint64_t ino)
{
	struct inode *inode = idmap__get(&ft->inodes, ino ^ dev << 40);

	while (inode && (inode->dev != dev || inode->ino != ino))
		inode = inode->next;
	return inode;
}

static uint64_t make_dev(uint32_t major, uint32_t minor)
{
	return (uint64_t)major << 32 | minor;
}

static struct inode *get_inode(struct file_table *ft, const struct map_line *line)
{
	uint64_t dev = make_dev(line->major, line->minor), key = line->inode ^ dev << 40;
	struct inode *inode = find_inode(ft, dev, line->inode);

	if (inode)
		return inode;
	inode = calloc(1, sizeof(*inode));
	if (!inode)
		return NULL;
	inode->dev = dev;
	inode->ino = line->inode;
	inode->next = idmap__get(&ft->inodes, key);
	if (idmap__set(&ft->inodes, key, inode)) {
		free(inode);
		return NULL;
	}
	return inode;
}

/* Sets the verdict of an inode from its file. `keep`: hold on to it even if it is no interpreter.
 */
static void judge(struct file_table *ft, struct inode *inode, int path_fd,
		  const struct map_line *line, bool keep)
{
	struct elf_file *elf = open_elf(ft, path_fd, line);
	struct py_binary *py = NULL;
	int python;

	inode->verdict = VERDICT_NONE;
	inode->err = -ENOMEM;
	if (!elf) {
		inode->err = -errno;
		if (errno == ENOEXEC || errno == EBADMSG)
			inode->verdict = VERDICT_OTHER;
		return;
	}
	inode->file = find_same(ft, elf);
	if (inode->file) {
		inode->verdict = inode->file->py ? VERDICT_PYTHON : VERDICT_PLAIN;
		goto out;
	}
	py = calloc(1, sizeof(*py));
	if (!py)
		goto out;
	python = py_binary__analyse(elf, py);
	if (python != 0 && python != -ENOTSUP && python != -EAGAIN) {
		free(py);
		py = NULL;
		if (python == -ENOMEM)
			goto out;
		inode->verdict = VERDICT_PLAIN;
		if (!keep)
			goto out;
	}
	inode->file = add_file(ft, elf, python, py);
	if (!inode->file) {
		inode->verdict = VERDICT_NONE;
		goto out;
	}
	inode->verdict = py ? VERDICT_PYTHON : VERDICT_PLAIN;
	inode->owner = true;
	return; /* the file has `elf` now */
out:
	elf_file__close(elf);
}

static bool unchanged(const struct inode *inode, const struct stat *st)
{
	return inode->size == st->st_size && inode->mtime_ns == mtime_ns(st);
}

static void note_checked(struct file_table *ft, struct inode *inode)
{
	inode->round = ft->round;
	inode->checked_ns = now_ns();
	inode->generation = inode->generation_seen;
}

/*
 * The inode of a mapping with a verdict on its present contents; with its file open, if `keep`.
 * NULL: no memory.
 */
static struct inode *look_up(struct file_table *ft, int proc_fd, const struct map_line *line,
			     bool keep)
{
	struct inode *inode = get_inode(ft, line);
	struct stat st;
	int fd;

	if (!inode)
		return NULL;
	if (inode->round == ft->round && (!keep || inode->file || inode->verdict != VERDICT_PLAIN))
		return inode;
	/* Our own descriptor keeps the inode from being reused: no path to walk. */
	if (inode->owner && !fstat(elf_file__fd(inode->file->elf), &st) && unchanged(inode, &st)) {
		note_checked(ft, inode);
		return inode;
	}
	fd = open_path(ft, proc_fd, line, &st);
	if (fd < 0) {
		/* What was known of it stays: its name may be gone, but it is still mapped. */
		if (inode->verdict == VERDICT_NONE && fd == -ENOEXEC)
			inode->verdict = VERDICT_OTHER;
		inode->err = fd;
		inode->round = ft->round;
		return inode;
	}
	if (inode->verdict == VERDICT_NONE || !unchanged(inode, &st) ||
	    (keep && !inode->file && inode->verdict == VERDICT_PLAIN)) {
		inode->file = NULL;
		inode->owner = false;
		judge(ft, inode, fd, line, keep);
		inode->size = st.st_size;
		inode->mtime_ns = mtime_ns(&st);
	}
	close(fd);
	note_checked(ft, inode);
	return inode;
}

int file_table__is_python(struct file_table *ft, int proc_fd, const struct map_line *line)
{
	struct inode *inode;

	if (!line->inode)
		return 0;
	inode = look_up(ft, proc_fd, line, false);
	if (!inode)
		return -ENOMEM;
	return inode->verdict == VERDICT_NONE ? inode->err : inode->verdict == VERDICT_PYTHON;
}

bool file_table__is_plain(struct file_table *ft, uint32_t major, uint32_t minor, uint64_t ino,
			  uint64_t generation, uint64_t now)
{
	struct inode *inode;

	if (!ino)
		return true;
	inode = find_inode(ft, make_dev(major, minor), ino);
	if (!inode)
		return false;
	if (!inode->has_generation || inode->generation_seen != generation) {
		inode->generation_seen = generation;
		inode->has_generation = true;
		return false;
	}
	return inode->generation == generation && now < inode->checked_ns + PLAIN_TRUST_NS &&
	       (inode->verdict == VERDICT_PLAIN || inode->verdict == VERDICT_OTHER);
}

/* ---- the vdso ------------------------------------------------------------------------------- */

/* Size of our own vdso by /proc/self/maps; 0: none. */
static uint64_t own_vdso_size(uint64_t start)
{
	FILE *f = fopen("/proc/self/maps", "re");
	struct map_line line;
	uint64_t size = 0;
	char *text = NULL;
	size_t cap = 0;
	ssize_t n;

	while (f && !size && (n = getline(&text, &cap, f)) > 0) {
		if (!map_line__parse(&line, text, (size_t)n - 1) && line.start == start)
			size = line.end - line.start;
	}
	free(text);
	if (f)
		fclose(f);
	return size;
}

/* The vdso is in no file. All 64-bit processes have the same; ours is at hand. */
static struct mapped_file *get_vdso(struct file_table *ft)
{
	uint64_t start = getauxval(AT_SYSINFO_EHDR);
	struct elf_file *elf;

	if (ft->vdso_tried)
		return ft->vdso;
	ft->vdso_tried = true;
	ft->vdso_size = start ? own_vdso_size(start) : 0;
	if (!ft->vdso_size)
		return NULL;
	elf = elf_file__open_memory((const void *)(uintptr_t)start, ft->vdso_size, "[vdso]");
	if (!elf)
		return NULL;
	ft->vdso = add_file(ft, elf, -ENOENT, NULL);
	if (!ft->vdso)
		elf_file__close(elf);
	return ft->vdso;
}

static bool is_vdso(const struct map_line *line)
{
	return line->name_len == 6 && !memcmp(line->name, "[vdso]", 6);
}

/* ---- unwind tables -------------------------------------------------------------------------- */

static struct mapped_file *longest_unused(const struct file_table *ft)
{
	struct mapped_file *oldest = NULL;

	for (size_t i = 0; i < ft->file_cnt; i++) {
		struct mapped_file *file = ft->files[i];

		if (file->table_state == TABLE_READY && !file->users &&
		    (!oldest || file->last_used < oldest->last_used))
			oldest = file;
	}
	return oldest;
}

/*
 * No image names the table any more; programs that still run with an older one are waited for by
 * the kernel when an element of a map of maps is deleted (maybe_wait_bpf_programs()). So the index
 * can be given out again.
 */
static void evict(struct file_table *ft, struct mapped_file *file)
{
	bpf_map_delete_elem(ft->maps.tables_fd, &file->table);
	ft->free_tables[ft->free_table_cnt++] = file->table;
	ft->stats.table_bytes -= file->table_bytes;
	ft->stats.tables--;
	ft->stats.tables_evicted++;
	file->table = 0;
	file->table_state = TABLE_UNTRIED;
}

static bool has_room(const struct file_table *ft, uint64_t bytes)
{
	return ft->stats.table_bytes + bytes <= ft->maps.table_budget &&
	       (ft->free_table_cnt || ft->next_table < ft->maps.table_cap);
}

static bool make_room(struct file_table *ft, uint64_t bytes)
{
	struct mapped_file *file;

	while (!has_room(ft, bytes)) {
		/* What is evicted must be in the kernel, not on its way there. */
		if (file_table__publish(ft))
			return false;
		file = longest_unused(ft);
		if (!file)
			return false;
		evict(ft, file);
	}
	return true;
}

/* A map with the contents of a table: its descriptor or negative errno. */
static int create_inner(const struct unwind_table *t)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_INNER_MAP);
	uint32_t chunks = (uint32_t)(t->word_cnt / UW_CHUNK_WORDS), cnt = chunks;
	uint32_t *keys = malloc(chunks * sizeof(*keys));
	int fd = -1, err = -ENOMEM;

	if (!keys)
		goto out;
	for (uint32_t i = 0; i < chunks; i++)
		keys[i] = i;
	fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "unwind", sizeof(uint32_t), UW_CHUNK_BYTES, chunks,
			    &opts);
	if (fd < 0) {
		err = -errno;
		goto out;
	}
	err = bpf_map_update_batch(fd, keys, t->words, &cnt, NULL) ? -errno : 0;
out:
	free(keys);
	if (err && fd >= 0)
		close(fd);
	return err ? err : fd;
}

static int queue_table(struct file_table *ft, struct mapped_file *file, int fd, uint64_t bytes)
{
	size_t cap = ft->pending_cap ? ft->pending_cap * 2 : 64;
	struct pending *more;

	if (ft->pending_cnt == ft->pending_cap) {
		more = realloc(ft->pending, cap * sizeof(*more));
		if (!more)
			return -ENOMEM;
		ft->pending = more;
		ft->pending_cap = cap;
	}
	file->table = ft->free_table_cnt ? ft->free_tables[--ft->free_table_cnt] : ft->next_table++;
	file->table_bytes = bytes;
	file->table_state = TABLE_READY;
	ft->pending[ft->pending_cnt++] = (struct pending){ .index = file->table, .fd = fd };
	ft->stats.tables++;
	ft->stats.tables_built++;
	ft->stats.table_bytes += bytes;
	return 0;
}

static void refuse_table(struct file_table *ft, struct mapped_file *file)
{
	file->table_state = TABLE_REFUSED;
	file->refused_at = ft->room_made;
	ft->stats.tables_refused++;
	if (!ft->warned_budget)
		log_warn("unwind tables: %llu bytes are not enough for what is running: native "
			 "stacks will end early",
			 (unsigned long long)ft->maps.table_budget);
	ft->warned_budget = true;
}

static void build_table(struct file_table *ft, struct mapped_file *file)
{
	uint64_t start = now_ns(), bytes;
	struct unwind_table *t = unwind_table__build(file->elf);
	int fd;

	ft->stats.table_ns += now_ns() - start;
	if (!t || t->word_cnt < UW_CHUNK_WORDS) {
		log_debug("%s: no unwind table: %s", elf_file__path(file->elf), strerror(errno));
		file->table_state = TABLE_NONE;
		unwind_table__free(t);
		return;
	}
	bytes = t->word_cnt * sizeof(*t->words);
	if (!make_room(ft, bytes)) {
		refuse_table(ft, file);
		goto out;
	}
	fd = create_inner(t);
	if (fd < 0) {
		log_warn("%s: unwind table: %s", elf_file__path(file->elf), strerror(-fd));
		file->table_state = TABLE_NONE;
		goto out;
	}
	if (queue_table(ft, file, fd, bytes)) {
		close(fd);
		file->table_state = TABLE_NONE;
	}
out:
	unwind_table__free(t);
}

static void need_table(struct file_table *ft, struct mapped_file *file)
{
	file->last_used = ++ft->use_clock;
	if (file->table_state == TABLE_UNTRIED ||
	    (file->table_state == TABLE_REFUSED && file->refused_at != ft->room_made))
		build_table(ft, file);
}

/*
 * An update of a map of maps returns only after a grace period of RCU, 8 ms as a rule. The element
 * is there before, and waits of several threads share one period; so with 60 tables at start, the
 * threads take 20 ms where one after another takes half a second. A batch waits once from Linux 6.8
 * on, for each element before that, and is refused before 5.19.
 */
struct publisher {
	pthread_t thread;
	struct pending *first;
	size_t cnt;
	int tables_fd;
	bool started;
};

static bool publish_batch(const struct publisher *p)
{
	uint32_t keys[PUBLISH_BATCH], fds[PUBLISH_BATCH], cnt = (uint32_t)p->cnt;

	if (p->cnt > PUBLISH_BATCH)
		return false;
	for (size_t i = 0; i < p->cnt; i++) {
		keys[i] = p->first[i].index;
		fds[i] = (uint32_t)p->first[i].fd;
	}
	return !bpf_map_update_batch(p->tables_fd, keys, fds, &cnt, NULL);
}

static void *publish_some(void *arg)
{
	struct publisher *p = arg;

	if (p->cnt > 1 && publish_batch(p))
		return NULL;
	for (size_t i = 0; i < p->cnt; i++) {
		struct pending *t = &p->first[i];

		t->err = bpf_map_update_elem(p->tables_fd, &t->index, &t->fd, BPF_ANY) ? -errno : 0;
	}
	return NULL;
}

static void publish_all(struct file_table *ft)
{
	size_t threads = ft->pending_cnt < PUBLISH_THREADS ? ft->pending_cnt : PUBLISH_THREADS;
	struct publisher p[PUBLISH_THREADS];
	pthread_attr_t attr;
	size_t at = 0;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 * 1024);
	for (size_t i = 0; i < threads; i++) {
		size_t cnt = (ft->pending_cnt - at) / (threads - i);

		p[i] = (struct publisher){ .first = ft->pending + at,
					   .cnt = cnt,
					   .tables_fd = ft->maps.tables_fd };
		at += cnt;
		/* The last share is ours. */
		p[i].started = i + 1 < threads &&
			       !pthread_create(&p[i].thread, &attr, publish_some, &p[i]);
		if (!p[i].started)
			publish_some(&p[i]);
	}
	for (size_t i = 0; i < threads; i++) {
		if (p[i].started)
			pthread_join(p[i].thread, NULL);
	}
	pthread_attr_destroy(&attr);
}

int file_table__publish(struct file_table *ft)
{
	uint64_t start = now_ns();
	int err = 0;

	if (!ft->pending_cnt)
		return 0;
	publish_all(ft);
	for (size_t i = 0; i < ft->pending_cnt; i++) {
		if (ft->pending[i].err)
			err = ft->pending[i].err;
		close(ft->pending[i].fd); /* the outer map holds it */
	}
	ft->pending_cnt = 0;
	ft->stats.publish_ns += now_ns() - start;
	if (err)
		log_err("unwind tables: %s", strerror(-err));
	return err;
}

/* ---- use ------------------------------------------------------------------------------------ */

struct mapped_file *file_table__get(struct file_table *ft, int proc_fd, const struct map_line *line,
				    bool table)
{
	struct mapped_file *file = NULL;
	struct inode *inode;

	if (line->inode) {
		inode = look_up(ft, proc_fd, line, true);
		if (inode && inode->verdict == VERDICT_NONE)
			ft->stats.unreadable++;
		file = inode ? inode->file : NULL;
	} else if (is_vdso(line)) {
		file = get_vdso(ft);
		if (file && line->end - line->start != ft->vdso_size)
			file = NULL; /* of a 32-bit process */
	}
	if (!file)
		return NULL;
	file->users++;
	if (table)
		need_table(ft, file);
	return file;
}

void file_table__put(struct file_table *ft, struct mapped_file *file)
{
	if (--file->users == 0 && file->table_state == TABLE_READY)
		ft->room_made++;
}

int file_table__add_interp(struct file_table *ft, struct mapped_file *file)
{
	uint32_t index = ft->interp_cnt;

	if (file->interp >= 0)
		return 0;
	if (index >= ft->maps.interp_cap)
		return -ENOSPC;
	/* Once: BPF adds to the entry what it learns. */
	if (bpf_map_update_elem(ft->maps.interps_fd, &index, &file->py->interp, BPF_ANY))
		return -errno;
	file->interp = (int32_t)index;
	ft->interps[ft->interp_cnt++] = file;
	return 0;
}

struct mapped_file *file_table__interp(const struct file_table *ft, uint32_t index)
{
	return index < ft->interp_cnt ? ft->interps[index] : NULL;
}
