/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_STORE_DB_H
#define PYPERF_STORE_DB_H
/*
 * What the writer and the readers of a store share: the connection, the tables, the statements, and
 * the meaning of SQLite's errors. Private to store*.c.
 */
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arrivals.h"
#include "base/rate_limit.h"
#include "store/store.h"

/*
 * SQLite is loaded when a store is opened. If the program were linked with it, every start would
 * take longer, because its symbols have to be bound. X(name of the function without "sqlite3_")
 */
/* clang-format off */
#define STORE_SQLITE(X)                                                                            \
	X(bind_blob) X(bind_blob64) X(bind_int64) X(bind_text) X(busy_timeout)                     \
	X(changes) X(clear_bindings) X(close) X(column_blob) X(column_bytes)                       \
	X(column_int64) X(column_text) X(exec) X(extended_errcode)                                 \
	X(extended_result_codes) X(file_control) X(finalize) X(get_autocommit)                     \
	X(last_insert_rowid)                                                                       \
	X(open_v2) X(prepare_v2) X(prepare_v3) X(reset) X(step) X(system_errno)                    \
	X(wal_checkpoint_v2)
/* clang-format on */

struct store_sqlite {
	void *library;
#define X(name) typeof(sqlite3_##name) *name;
	STORE_SQLITE(X)
#undef X
};

#define STORE_SUFFIX_MAX 16	     /* of the names beside the file */
#define STORE_MIN_BYTES	 (16U << 20) /* the least max-size */
/* How long processes wait for each other: only while the log is recovered or emptied. */
#define STORE_BUSY_MS	 5000

/* Statements that are run again and again, by name: X(name, SQL). */
#define STORE_STATEMENTS(X)                                                                        \
	X(begin, "BEGIN IMMEDIATE")                                                                \
	X(commit, "COMMIT")                                                                        \
	X(rollback, "ROLLBACK")                                                                    \
	X(label_find, "SELECT id FROM label WHERE name = ?1 AND value = ?2")                       \
	X(label_add, "INSERT INTO label(name, value) VALUES (?1, ?2)")                             \
	X(series_find, "SELECT id FROM series WHERE labels = ?1")                                  \
	X(series_add, "INSERT INTO series(service, labels) VALUES (?1, ?2)")                       \
	X(series_label_add, "INSERT INTO series_label(series, label) VALUES (?1, ?2)")             \
	X(window_find, "SELECT 1 FROM window WHERE service = ?1 AND start = ?2 AND uid = ?3")      \
	X(window_add, "INSERT INTO window(uid, service, series, start, duration, samples, hz, "    \
		      "pprof, id) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")                    \
	X(oldest, "SELECT id, length(pprof) FROM window ORDER BY id LIMIT ?1")                     \
	X(expired, "DELETE FROM window WHERE id IN "                                               \
		   "(SELECT id FROM window WHERE id < ?1 ORDER BY id LIMIT ?2)")                   \
	X(newest, "SELECT coalesce(max(id), 0) FROM window")                                       \
	X(drop_to, "DELETE FROM window WHERE id <= ?1")                                            \
	X(count, "INSERT INTO counter(name, value) VALUES (?1, ?2) "                               \
		 "ON CONFLICT(name) DO UPDATE SET value = value + excluded.value")                 \
	X(counter, "SELECT value FROM counter WHERE name = ?1")                                    \
	X(totals, "SELECT coalesce(sum(windows), 0) FROM series")                                  \
	X(first, "SELECT coalesce(min(start), 0) FROM window")                                     \
	X(last, "SELECT coalesce(max(start), 0) FROM window")                                      \
	X(page_count, "PRAGMA page_count")                                                         \
	X(free_count, "PRAGMA freelist_count")                                                     \
	X(series_labels, "SELECT name, value FROM series_label JOIN label ON label.id = "          \
			 "series_label.label WHERE series = ?1 ORDER BY name")

/* Rows of the table of counters: STORE_DROPS, and this. */
#define STORE_DAMAGED	  STORE_DROP_CNT
#define STORE_COUNTER_CNT (STORE_DROP_CNT + 1)

/* Messages that could come with every window, and come once a minute. */
enum store_said {
	STORE_SAID_FULL,
	STORE_SAID_LOST,
	STORE_SAID_DAMAGED,
	STORE_SAID_SIZE,
	STORE_SAID_CNT
};

enum store_stmt {
#define X(name, sql) STMT_##name,
	STORE_STATEMENTS(X)
#undef X
		STMT_CNT
};

struct store {
	struct store_config c;
	struct store_sqlite sql;
	sqlite3 *db; /* NULL: could not be opened yet, or not again */
	sqlite3_stmt *stmts[STMT_CNT];
	/* Of the writer. */
	bool writer;
	int reserve_fd;
	dev_t dev; /* the open file, which somebody may remove or replace */
	ino_t ino;
	bool may_grow;			     /* the reserve is there */
	struct arrivals arrivals;	     /* numbers of windows */
	uint64_t pending[STORE_COUNTER_CNT]; /* not yet in the table */
	struct rate_limit said[STORE_SAID_CNT];
	uint64_t unsaid[STORE_DROP_CNT]; /* windows, since the last message of that kind */
	uint64_t said_ns;		 /* store__say(); 0: never */
	bool limited;			 /* the disk keeps it below its max-size */
	bool said_limited, said_keep;
	uint64_t busy_ns; /* another process holds it: do not wait for it until then */
};

/*
 * Negative errno of a result code other than SQLITE_OK, SQLITE_ROW and SQLITE_DONE. -EBADMSG: the
 * file is damaged.
 */
int store_db__errno(const struct store *s, int rc);
/* The text of an error for messages. */
const char *store_db__strerror(int err);

/* Makes a store that is not open yet. NULL and errno after a message. */
struct store *store_db__new(void);
/* Frees a store that could not be opened, with a message. Returns NULL and errno. */
struct store *store_db__give_up(struct store *s, const char *path, int err, const char *why);
/*
 * Opens the file, which must exist. Prints no message. -EPROTO: not a store, or of another version
 * (*why).
 */
int store_db__open(struct store *s, const char **why);
void store_db__close(struct store *s);
/* Unloads the library, after closing. */
void store_db__unload(struct store *s);

/* The statement, reset and without values; NULL: *err. Borrowed. */
sqlite3_stmt *store_db__stmt(struct store *s, enum store_stmt which, int *err);
/*
 * Runs a statement to its end and resets it. *out (may be NULL): the first column of its first row,
 * else unchanged.
 */
int store_db__run(struct store *s, sqlite3_stmt *stmt, int64_t *out);
/* The same for a statement without values. */
int store_db__do(struct store *s, enum store_stmt which, int64_t *out);
int store_db__exec(struct store *s, const char *sql);

/* Bytes of all files. */
uint64_t store_db__bytes(const struct store *s);

#endif /* PYPERF_STORE_DB_H */
