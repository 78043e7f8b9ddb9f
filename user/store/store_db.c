/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "store/store_db.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"

#define LIBRARY		    "libsqlite3.so.0"
/*
 * "pprf": which program a database belongs to, https://sqlite.org/pragma.html#pragma_application_id
 */
#define APPLICATION_ID	    1886417510
#define APPLICATION_ID_TEXT "1886417510"

/*
 * The tables, in steps: step N makes version N + 1 of version N, and user_version says how many
 * were done. Never change a step that was released: add one.
 *
 * A window's labels are mostly those of the window before, so windows name a series, which is a set
 * of labels. A series is gone with its last window, and a label with its last series.
 */
static const char *const steps[] = {
	"CREATE TABLE label(id INTEGER PRIMARY KEY, name TEXT NOT NULL, value TEXT NOT NULL,"
	" UNIQUE(name, value));"
	/* labels: the ids in the order of their names, 8 bytes each */
	"CREATE TABLE series(id INTEGER PRIMARY KEY, service INTEGER NOT NULL REFERENCES label,"
	" windows INTEGER NOT NULL DEFAULT 0, labels BLOB NOT NULL UNIQUE);"
	"CREATE TABLE series_label(series INTEGER NOT NULL REFERENCES series,"
	" label INTEGER NOT NULL REFERENCES label, PRIMARY KEY(series, label)) WITHOUT ROWID;"
	"CREATE INDEX series_by_label ON series_label(label, series);"
	/* id: when it was stored (arrivals.h); pprof last: what is before it is read without it */
	"CREATE TABLE window(id INTEGER PRIMARY KEY, uid BLOB NOT NULL,"
	" service INTEGER NOT NULL REFERENCES label, series INTEGER NOT NULL REFERENCES series,"
	" start INTEGER NOT NULL, duration INTEGER NOT NULL, samples INTEGER NOT NULL,"
	" hz INTEGER NOT NULL, pprof BLOB NOT NULL);"
	/* with all that a list of services asks for */
	"CREATE INDEX window_by_service ON window(service, start, series, duration, samples);"
	"CREATE INDEX window_by_start ON window(start);"
	"CREATE TABLE counter(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;"
	"CREATE TRIGGER window_added AFTER INSERT ON window BEGIN"
	" UPDATE series SET windows = windows + 1 WHERE id = new.series;"
	"END;"
	"CREATE TRIGGER window_dropped AFTER DELETE ON window BEGIN"
	" UPDATE series SET windows = windows - 1 WHERE id = old.series;"
	" DELETE FROM series WHERE id = old.series AND windows = 0;"
	"END;"
	"CREATE TRIGGER series_dropped AFTER DELETE ON series BEGIN"
	" DELETE FROM series_label WHERE series = old.id;"
	"END;"
	"CREATE TRIGGER series_label_dropped AFTER DELETE ON series_label BEGIN"
	" DELETE FROM label WHERE id = old.label AND NOT EXISTS"
	"  (SELECT 1 FROM series_label WHERE label = old.label);"
	"END;",
};

#define VERSION ((int)(sizeof(steps) / sizeof(steps[0])))

int store_db__errno(const struct store *s, int rc)
{
	int sys = s->db ? s->sql.system_errno(s->db) : 0;

	switch (rc & 0xff) {
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return -EBADMSG;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return -EBUSY;
	case SQLITE_READONLY:
		return -EROFS;
	case SQLITE_CANTOPEN:
		return sys ? -sys : -EIO;
	case SQLITE_TOOBIG:
		return -E2BIG;
	case SQLITE_IOERR:
		if (rc == SQLITE_IOERR_NOMEM)
			return -ENOMEM;
		/* The index of the log is memory that it shares; SHMSIZE is that it cannot grow. */
		return rc == SQLITE_IOERR_SHMSIZE ? -ENOSPC : -EIO;
	default:
		return -EIO;
	}
}

const char *store_db__strerror(int err)
{
	switch (err) {
	case -EBADMSG:
		return "damaged, or not a database";
	case -EBUSY:
		return "another process writes to it";
	default:
		return strerror(-err);
	}
}

/* ---- The library ---- */

static bool resolve(void *library, const char *name, void *function)
{
	void *address = dlsym(library, name);

	memcpy(function, &address, sizeof(address)); /* C has no cast from object to function */
	return address;
}

/* -ELIBACC: there is none, or not all of it. */
static int load(struct store *s)
{
	bool all = true;

	if (s->sql.library)
		return 0;
	s->sql.library = dlopen(LIBRARY, RTLD_NOW | RTLD_NODELETE);
	if (!s->sql.library)
		return -ELIBACC;
#define X(name) all &= resolve(s->sql.library, "sqlite3_" #name, &s->sql.name);
	STORE_SQLITE(X)
#undef X
	if (!all)
		store_db__unload(s);
	return all ? 0 : -ELIBACC;
}

void store_db__unload(struct store *s)
{
	if (s->sql.library)
		dlclose(s->sql.library);
	s->sql = (struct store_sqlite){ .library = NULL };
}

/* ---- Statements ---- */

int store_db__exec(struct store *s, const char *sql)
{
	int rc = s->sql.exec(s->db, sql, NULL, NULL, NULL);

	return rc ? store_db__errno(s, s->sql.extended_errcode(s->db)) : 0;
}

sqlite3_stmt *store_db__stmt(struct store *s, enum store_stmt which, int *err)
{
	static const char *const texts[] = {
#define X(name, sql) sql,
		STORE_STATEMENTS(X)
#undef X
	};
	sqlite3_stmt **stmt = &s->stmts[which];

	if (*stmt)
		return *stmt;
	*err = 0;
	if (s->sql.prepare_v3(s->db, texts[which], -1, SQLITE_PREPARE_PERSISTENT, stmt, NULL))
		*err = store_db__errno(s, s->sql.extended_errcode(s->db));
	return *stmt;
}

int store_db__run(struct store *s, sqlite3_stmt *stmt, int64_t *out)
{
	int rc = s->sql.step(stmt), err = 0;

	if (rc == SQLITE_ROW && out)
		*out = s->sql.column_int64(stmt, 0);
	while (rc == SQLITE_ROW)
		rc = s->sql.step(stmt);
	if (rc != SQLITE_DONE)
		err = store_db__errno(s, s->sql.extended_errcode(s->db));
	s->sql.reset(stmt);
	s->sql.clear_bindings(stmt);
	return err;
}

int store_db__do(struct store *s, enum store_stmt which, int64_t *out)
{
	int err;
	sqlite3_stmt *stmt = store_db__stmt(s, which, &err);

	return stmt ? store_db__run(s, stmt, out) : err;
}

/* ---- Opening ---- */

/* A number that a statement gives. */
static int ask(struct store *s, const char *sql, int64_t *out)
{
	sqlite3_stmt *stmt = NULL;
	int err;

	if (s->sql.prepare_v2(s->db, sql, -1, &stmt, NULL))
		return store_db__errno(s, s->sql.extended_errcode(s->db));
	err = store_db__run(s, stmt, out);
	s->sql.finalize(stmt);
	return err;
}

static int migrate(struct store *s, int64_t version)
{
	char done[64];
	int err = 0;

	for (; version < VERSION && !err; version++) {
		snprintf(done, sizeof(done), "PRAGMA user_version = %d; COMMIT", (int)version + 1);
		err = store_db__exec(
			s, "BEGIN IMMEDIATE; PRAGMA application_id = " APPLICATION_ID_TEXT);
		err = err ? err : store_db__exec(s, steps[version]);
		err = err ? err : store_db__exec(s, done);
		if (err && !s->sql.get_autocommit(s->db))
			store_db__exec(s, "ROLLBACK");
	}
	return err;
}

/* Is it ours, and of which version? */
static int check_version(struct store *s, int64_t *version, const char **why)
{
	int64_t id = 0, tables = 0;
	int err = ask(s, "PRAGMA application_id", &id);

	err = err ? err : ask(s, "PRAGMA user_version", version);
	err = err ? err : ask(s, "SELECT count(*) FROM sqlite_schema", &tables);
	if (err)
		return err;
	if (id != APPLICATION_ID && (id || *version || tables || !s->writer))
		*why = "not a store of pyperf-bpf";
	else if (*version > VERSION)
		*why = "written by a newer version of pyperf-bpf";
	else if (*version < VERSION && !s->writer)
		*why = "of an older version; the agent changes it when it starts";
	return *why ? -EPROTO : 0;
}

/*
 * auto_vacuum must be set before anything is written: then the file can shrink. Set again it would
 * be written again, and the disk may be full: for that the log and its index stay when the store is
 * closed, too. A checkpoint every MiB keeps what the log needs below the reserve. A commit is in
 * the page cache, which outlives us, but not on the disk.
 */
static int set_up_writer(struct store *s, int64_t version)
{
	int keep = 1;
	int err = version ? 0 : store_db__exec(s, "PRAGMA auto_vacuum = incremental");

	err = err ? err
		  : store_db__exec(s, "PRAGMA journal_mode = wal;"
				      "PRAGMA synchronous = normal;"
				      "PRAGMA wal_autocheckpoint = 256;"
				      "PRAGMA journal_size_limit = 4194304;"
				      "PRAGMA secure_delete = off");
	s->sql.file_control(s->db, NULL, SQLITE_FCNTL_PERSIST_WAL, &keep);
	return err ? err : migrate(s, version);
}

static int set_up(struct store *s, const char **why)
{
	int64_t version = 0;
	int err = store_db__exec(s, "PRAGMA trusted_schema = off; PRAGMA cell_size_check = on;"
				    "PRAGMA temp_store = memory; PRAGMA cache_size = -256");

	err = err ? err : check_version(s, &version, why);
	return err || !s->writer ? err : set_up_writer(s, version);
}

struct store *store_db__new(void)
{
	struct store *s = calloc(1, sizeof(*s));

	if (s)
		s->reserve_fd = -1;
	else
		log_err("store: out of memory");
	return s;
}

struct store *store_db__give_up(struct store *s, const char *path, int err, const char *why)
{
	log_err("store: %s: %s", path, why ? why : store_db__strerror(err));
	store__close(s);
	errno = -err;
	return NULL;
}

int store_db__open(struct store *s, const char **why)
{
	char path[PATH_MAX + 2];
	struct stat st;
	int rc, err;

	*why = NULL;
	/*
	 * Never open() and close() it: that would end the locks that this process has by other
	 * connections.
	 */
	if (stat(s->c.path, &st))
		return -errno;
	if (!S_ISREG(st.st_mode)) {
		*why = "not a regular file";
		return -EPROTO;
	}
	s->dev = st.st_dev;
	s->ino = st.st_ino;
	/* "file:..." would be a URI. */
	err = load(s);
	if (err) {
		*why = err == -ELIBACC ? "there is no " LIBRARY
					 " (package libsqlite3-0 or sqlite-libs)"
				       : NULL;
		return err;
	}
	snprintf(path, sizeof(path), "%s%s", *s->c.path == '/' ? "" : "./", s->c.path);
	rc = s->sql.open_v2(path, &s->db,
			    (s->writer ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY) |
				    SQLITE_OPEN_NOMUTEX,
			    NULL);
	err = rc ? store_db__errno(s, rc) : 0;
	if (!err) {
		s->sql.extended_result_codes(s->db, 1);
		s->sql.busy_timeout(s->db, STORE_BUSY_MS);
		err = set_up(s, why);
	}
	if (err)
		store_db__close(s);
	return err;
}

void store_db__close(struct store *s)
{
	if (!s->db)
		return;
	if (s->writer) /* with a limit, closing would make the log empty */
		store_db__exec(s, "PRAGMA journal_size_limit = -1");
	for (size_t i = 0; i < STMT_CNT; i++)
		s->sql.finalize(s->stmts[i]);
	memset(s->stmts, 0, sizeof(s->stmts));
	s->sql.close(s->db);
	s->db = NULL;
}

uint64_t store_db__bytes(const struct store *s)
{
	static const char *const suffixes[] = { "", "-wal", "-shm", "-reserve" };
	char path[PATH_MAX + STORE_SUFFIX_MAX];
	uint64_t sum = 0;
	struct stat st;

	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		snprintf(path, sizeof(path), "%s%s", s->c.path, suffixes[i]);
		if (!stat(path, &st))
			sum += (uint64_t)st.st_size;
	}
	return sum;
}
