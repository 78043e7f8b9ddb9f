/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_LOG_H
#define PYPERF_LOG_H
/*
 * Prints messages for people on stderr, one line each: "pyperf-bpf: object: reason (remedy)".
 * Preserves errno and makes foreign text safe for a terminal. The level and the writer are the only
 * state. Any thread may print.
 */
enum log_level {
	LOG_LEVEL_ERR = 0,
	LOG_LEVEL_WARN = 1,
	LOG_LEVEL_INFO = 2,
	LOG_LEVEL_DEBUG = 3,
};

void log_set_level(enum log_level level); /* default: LOG_LEVEL_INFO */
enum log_level log_get_level(void);
void log_msg(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * Passes messages to `fn`, without the prefix; NULL: to stderr again. `fmt` identifies the kind of
 * message and is valid for ever; `text` may hold any bytes and several lines. Call before there are
 * threads.
 */
void log_set_writer(void (*fn)(enum log_level level, const char *fmt, const char *text));

/* Says "out of memory" and returns -ENOMEM. */
int log_no_memory(void);

#define log_err(...)   log_msg(LOG_LEVEL_ERR, __VA_ARGS__)
#define log_warn(...)  log_msg(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...)  log_msg(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_msg(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif /* PYPERF_LOG_H */
