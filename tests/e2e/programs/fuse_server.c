/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Serves a copy of a program by FUSE and executes it from there, as an AppImage does. Each request
 * is answered by a thread that is made for it, as libfuse does while all of its threads are busy.
 *
 * usage: fuse_server DIRECTORY PROGRAM [ARG...] (as root, in a mount namespace of its own)
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define FILE_NODE 2

static int dev, file;
static struct stat st;

struct request {
	struct fuse_in_header head;
	char body[1 << 17];
};

static void reply(const struct request *r, int err, const void *data, size_t size)
{
	struct fuse_out_header head = { .len = (uint32_t)(sizeof(head) + size),
					.error = -err,
					.unique = r->head.unique };
	struct iovec v[] = { { &head, sizeof(head) }, { (void *)data, size } };

	if (writev(dev, v, 2) < 0 && errno != ENOENT)
		perror("writev");
}

/* No attribute is valid for any time, so the kernel asks for them whenever somebody does. */
static struct fuse_attr attr(uint64_t node)
{
	struct fuse_attr a = { .ino = node, .mode = S_IFDIR | 0755, .nlink = 1, .blksize = 4096 };

	if (node != FILE_NODE)
		return a;
	a.mode = S_IFREG | 0755;
	a.size = (uint64_t)st.st_size;
	return a;
}

static void read_file(const struct request *r)
{
	const struct fuse_read_in *in = (const void *)r->body;
	char *data = malloc(in->size);
	ssize_t n = pread(file, data, in->size, (off_t)in->offset);

	reply(r, n < 0 ? EIO : 0, data, n < 0 ? 0 : (size_t)n);
	free(data);
}

static void *answer(void *request)
{
	struct request *r = request;
	struct fuse_entry_out entry = { .nodeid = FILE_NODE, .attr = attr(FILE_NODE) };
	struct fuse_attr_out attrs = { .attr = attr(r->head.nodeid) };
	struct fuse_init_out init = { .major = 7, .minor = 31, .max_write = 4096, .time_gran = 1 };
	struct fuse_statfs_out fs = { .st = { .bsize = 4096, .namelen = 255 } };
	struct fuse_open_out opened = { 0 };

	switch (r->head.opcode) {
	case FUSE_INIT:
		reply(r, 0, &init, sizeof(init));
		break;
	case FUSE_LOOKUP:
		if (strcmp(r->body, "program"))
			reply(r, ENOENT, NULL, 0);
		else
			reply(r, 0, &entry, sizeof(entry));
		break;
	case FUSE_GETATTR:
		reply(r, 0, &attrs, sizeof(attrs));
		break;
	case FUSE_OPEN:
		reply(r, 0, &opened, sizeof(opened));
		break;
	case FUSE_STATFS:
		reply(r, 0, &fs, sizeof(fs));
		break;
	case FUSE_READ:
		read_file(r);
		break;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
		break;
	default:
		reply(r, ENOSYS, NULL, 0);
	}
	free(r);
	return NULL;
}

static void serve(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		struct request *r = calloc(1, sizeof(*r));
		pthread_t thread;

		if (!r || read(dev, r, sizeof(*r)) < 0 || pthread_create(&thread, NULL, answer, r))
			exit(1);
		pthread_detach(thread);
	}
}

int main(int argc, char **argv)
{
	char options[128], path[4096];

	dev = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	file = argc > 2 ? open(argv[2], O_RDONLY | O_CLOEXEC) : -1;
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", dev);
	if (dev < 0 || file < 0 || fstat(file, &st) ||
	    mount("test", argv[1], "fuse.test", MS_NOSUID | MS_NODEV, options)) {
		printf("no FUSE: %s\n", strerror(errno));
		return 77;
	}
	if (!fork())
		serve();
	snprintf(path, sizeof(path), "%s/program", argv[1]);
	execv(path, argv + 2);
	perror(path);
	return 1;
}
