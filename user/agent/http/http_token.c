/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "agent/http/http_token.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/log.h"

#define RANDOM_BYTES 16

/* The bytes in hexadecimal and a line break. 0 or negative errno. */
static int write_token(int fd)
{
	char text[2 * RANDOM_BYTES + 2];
	uint8_t bytes[RANDOM_BYTES];
	ssize_t n;

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return -EIO;
	for (size_t i = 0; i < RANDOM_BYTES; i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	text[2 * RANDOM_BYTES] = '\n';
	n = write(fd, text, sizeof(text) - 1);
	explicit_bzero(text, sizeof(text));
	explicit_bzero(bytes, sizeof(bytes));
	return n == sizeof(text) - 1 ? 0 : n < 0 ? -errno : -ENOSPC;
}

int http_token__make(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int err = fd < 0 ? -errno : write_token(fd);

	if (fd >= 0 && close(fd) && !err)
		err = -errno;
	if (err == -EEXIST)
		return 0;
	if (err) {
		log_err("%s: %s", path, strerror(-err));
		if (fd >= 0) /* half of it would be taken for the token at the next start */
			unlink(path);
	}
	return err;
}

int http_token__read(const char *path, char token[HTTP_TOKEN_MAX + 1])
{
	char line[HTTP_TOKEN_MAX + 3] = ""; /* with a line break of either kind */
	FILE *f = fopen(path, "re");
	size_t len;
	int err = 0;

	token[0] = 0;
	if (!f) {
		err = -errno;
		log_err("%s: %s", path, strerror(errno));
		return err;
	}
	setvbuf(f, NULL, _IONBF, 0); /* no copy of it stays in a buffer */
	if (!fgets(line, sizeof(line), f) && ferror(f)) {
		err = -EIO;
		log_err("%s: cannot be read", path);
	}
	fclose(f);
	len = strcspn(line, "\r\n");
	line[len] = 0;
	if (!err && (!len || len > HTTP_TOKEN_MAX)) {
		err = -EINVAL;
		log_err("%s: the first line is not a token (1 to %d characters)", path,
			HTTP_TOKEN_MAX);
	}
	if (!err)
		strcpy(token, line);
	explicit_bzero(line, sizeof(line));
	return err;
}
