/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#define NCURSES_WIDECHAR 1
#include "top/screen.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "base/terminal.h"
#include "top/topview.h"

/* Last: term.h makes macros of words such as "lines". */
#include <curses.h>
#include <term.h>

#define ESCAPE_MS   25	       /* an Escape that nothing follows is the key */
#define HELD_MAX    (1U << 20) /* bytes of messages */
#define MESSAGE_MAX 256

/* Signals that end a program at any point. */
static const int fatal_signals[] = { SIGQUIT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };

#define FATAL_CNT (sizeof(fatal_signals) / sizeof(fatal_signals[0]))

struct screen {
	SCREEN *term;
	bool color;
	int signal_fd;
	int held_fd;   /* where messages wait; -1: they do not disturb */
	off_t seen_sz; /* bytes of it that screen__message() has seen */
	sigset_t mask; /* as it was; so: */
	struct sigaction old[FATAL_CNT];
	char message[MESSAGE_MAX];
	struct strbuf kept; /* see screen__keep() */
};

/* ---- when all else fails --------------------------------------------------------------------- */

/* Global because a handler is given nothing. */
static struct {
	struct termios modes;
	char leave[256]; /* leaves the alternate screen, shows the cursor */
	size_t len;
	int stderr_fd; /* the real one; -1 */
} emergency = { .stderr_fd = -1 };

/* tcsetattr() and write() may be called here (signal-safety(7)), and so may dup2() below. */
void screen__leave(void)
{
	if (!emergency.len)
		return;
	if (write(STDOUT_FILENO, emergency.leave, emergency.len) < 0)
		return;
	tcsetattr(STDIN_FILENO, TCSADRAIN, &emergency.modes);
}

/* SA_RESETHAND: then it is fatal. */
static void on_fatal(int sig)
{
	screen__leave();
	if (emergency.stderr_fd >= 0)
		dup2(emergency.stderr_fd, STDERR_FILENO);
	raise(sig);
}

/* A capability of the terminal, without its padding ("$<5>"). */
static void add_leave(const char *name)
{
	const char *s = tigetstr((char *)(uintptr_t)name);
	size_t len;

	if (!s || s == (const char *)-1)
		return;
	len = strcspn(s, "$");
	if (emergency.len + len > sizeof(emergency.leave))
		return;
	memcpy(emergency.leave + emergency.len, s, len);
	emergency.len += len;
}

static void prepare_emergency(struct screen *s)
{
	struct sigaction act = { .sa_handler = on_fatal, .sa_flags = SA_RESETHAND | SA_NODEFER };

	emergency.len = 0;
	add_leave("sgr0");
	add_leave("rmkx");
	add_leave("cnorm");
	add_leave("rmcup");
	sigfillset(&act.sa_mask);
	for (size_t i = 0; i < FATAL_CNT; i++)
		sigaction(fatal_signals[i], &act, &s->old[i]);
}

static void end_emergency(const struct screen *s)
{
	for (size_t i = 0; i < FATAL_CNT; i++)
		sigaction(fatal_signals[i], &s->old[i], NULL);
}

/* ---- messages -------------------------------------------------------------------------------- */

static void hold_messages(struct screen *s)
{
	if (s->held_fd >= 0)
		dup2(s->held_fd, STDERR_FILENO);
}

static void open_messages(struct screen *s)
{
	s->held_fd = -1;
	if (!isatty(STDERR_FILENO))
		return;
	emergency.stderr_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (emergency.stderr_fd >= 0)
		s->held_fd = memfd_create("messages", MFD_CLOEXEC);
	if (s->held_fd >= 0)
		fcntl(s->held_fd, F_SETFL, O_APPEND);
	hold_messages(s);
}

static void release_messages(const struct screen *s)
{
	if (s->held_fd >= 0)
		dup2(emergency.stderr_fd, STDERR_FILENO);
}

static void close_messages(struct screen *s)
{
	char buf[4096];
	off_t at = 0;
	ssize_t n;

	release_messages(s);
	while (s->held_fd >= 0 && (n = pread(s->held_fd, buf, sizeof(buf), at)) > 0) {
		if (write(STDERR_FILENO, buf, (size_t)n) != n)
			break;
		at += n;
	}
	if (s->held_fd >= 0)
		close(s->held_fd);
	if (emergency.stderr_fd >= 0)
		close(emergency.stderr_fd);
	emergency.stderr_fd = -1;
}

const char *screen__message(struct screen *s)
{
	struct stat st;
	char *line;
	off_t from;
	ssize_t n;

	if (s->held_fd < 0 || fstat(s->held_fd, &st) || st.st_size <= s->seen_sz)
		return NULL;
	from = st.st_size > MESSAGE_MAX - 1 ? st.st_size - (MESSAGE_MAX - 1) : 0;
	n = pread(s->held_fd, s->message, MESSAGE_MAX - 1, from);
	s->seen_sz = st.st_size;
	if (st.st_size > HELD_MAX && !ftruncate(s->held_fd, 0))
		s->seen_sz = 0;
	s->message[n > 0 ? n : 0] = '\0';
	line = strrchr(s->message, '\n');
	if (line)
		*line = '\0';
	line = strrchr(s->message, '\n');
	return line ? line + 1 : s->message;
}

/* ---- open and close -------------------------------------------------------------------------- */

static int bad_term(const char *reason)
{
	const char *term = getenv("TERM");

	log_err("the terminal type '%s' %s: set TERM, or use 'pyperf-bpf record'", term ? term : "",
		reason);
	return -ENOTTY;
}

int screen__check(void)
{
	bool usable;
	int known;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
		log_err("standard %s is not a terminal: use 'pyperf-bpf record' for a report, or "
			"'pyperf-bpf dump PID' for what a process does now",
			isatty(STDIN_FILENO) ? "output" : "input");
		return -ENOTTY;
	}
	if (!getenv("TERM") || !*getenv("TERM") || setupterm(NULL, STDOUT_FILENO, &known) != OK)
		return bad_term("is not known");
	usable = tigetstr((char *)(uintptr_t) "cup") && tigetstr((char *)(uintptr_t) "clear");
	del_curterm(cur_term);
	return usable ? 0 : bad_term("cannot show a screen");
}

static bool is_ignored(int sig)
{
	struct sigaction old;

	return !sigaction(sig, NULL, &old) && old.sa_handler == SIG_IGN;
}

static int open_signals(struct screen *s)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGWINCH);
	sigaddset(&set, SIGCONT);
	if (!is_ignored(SIGTSTP))
		sigaddset(&set, SIGTSTP);
	sigprocmask(SIG_BLOCK, &set, &s->mask);
	s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return s->signal_fd < 0 ? -errno : 0;
}

static void open_colors(struct screen *s)
{
	terminal__width(&s->color);
	if (!s->color || start_color() == ERR || use_default_colors() == ERR) {
		s->color = false;
		return;
	}
	init_pair(CANVAS_GOOD, COLOR_GREEN, -1);
	init_pair(CANVAS_WARN, COLOR_YELLOW, -1);
	init_pair(CANVAS_BAD, COLOR_RED, -1);
}

struct screen *screen__open(void)
{
	struct screen *s = calloc(1, sizeof(*s));

	if (!s || tcgetattr(STDIN_FILENO, &emergency.modes) || open_signals(s)) {
		log_err("the terminal: %s", strerror(errno));
		free(s);
		return NULL;
	}
	setlocale(LC_CTYPE, "C.UTF-8"); /* as for all other output, whatever the user's is */
	s->term = newterm(NULL, stdout, stdin);
	if (!s->term) {
		log_err("the terminal cannot be set up");
		sigprocmask(SIG_SETMASK, &s->mask, NULL);
		close(s->signal_fd);
		free(s);
		return NULL;
	}
	if (!is_ignored(SIGTSTP))
		signal(SIGTSTP, SIG_DFL); /* curses has set a handler; we do without it */
	prepare_emergency(s);
	open_messages(s);
	open_colors(s);
	cbreak();
	noecho();
	nonl();
	nodelay(stdscr, TRUE);
	keypad(stdscr, TRUE);
	set_escdelay(ESCAPE_MS);
	leaveok(stdscr, TRUE);
	curs_set(0);
	return s;
}

void screen__close(struct screen *s)
{
	if (!s)
		return;
	curs_set(1);
	endwin();
	end_emergency(s);
	emergency.len = 0;
	delscreen(s->term);
	if (s->kept.len) {
		fwrite(s->kept.s, 1, s->kept.len, stdout);
		fflush(stdout);
	}
	strbuf__free(&s->kept);
	close_messages(s);
	close(s->signal_fd);
	sigprocmask(SIG_SETMASK, &s->mask, NULL);
	free(s);
}

/* ---- signals --------------------------------------------------------------------------------- */

int screen__signal_fd(const struct screen *s)
{
	return s->signal_fd;
}

/* The size that the terminal has now, and all of it drawn anew. */
static void take_over(void)
{
	struct winsize ws;

	if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) && ws.ws_row && ws.ws_col)
		resize_term(ws.ws_row, ws.ws_col);
	clearok(curscr, TRUE);
}

/* Ctrl-Z: stops here, until the shell goes on with us. */
static void stop(struct screen *s)
{
	sigset_t set, old;

	curs_set(1);
	endwin();
	release_messages(s);
	sigemptyset(&set);
	sigaddset(&set, SIGTSTP);
	raise(SIGTSTP); /* pending, until: */
	sigprocmask(SIG_UNBLOCK, &set, &old);
	sigprocmask(SIG_SETMASK, &old, NULL);
	hold_messages(s);
	reset_prog_mode();
	curs_set(0);
}

bool screen__signals(struct screen *s)
{
	struct signalfd_siginfo info;
	bool any = false;

	while (read(s->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGTSTP)
			stop(s);
		any = true;
	}
	if (any)
		take_over();
	return any;
}

/* ---- keys ------------------------------------------------------------------------------------ */

static uint32_t special_key(wint_t c)
{
	switch (c) {
	case KEY_UP:
		return TOP_KEY_UP;
	case KEY_DOWN:
		return TOP_KEY_DOWN;
	case KEY_LEFT:
		return TOP_KEY_LEFT;
	case KEY_RIGHT:
		return TOP_KEY_RIGHT;
	case KEY_PPAGE:
		return TOP_KEY_PAGE_UP;
	case KEY_NPAGE:
		return TOP_KEY_PAGE_DOWN;
	case KEY_HOME:
		return TOP_KEY_HOME;
	case KEY_END:
		return TOP_KEY_END;
	case KEY_ENTER:
		return TOP_KEY_ENTER;
	case KEY_BACKSPACE:
		return TOP_KEY_BACKSPACE;
	case KEY_F(1):
		return TOP_KEY_HELP;
	default:
		return TOP_KEY_OTHER;
	}
}

uint32_t screen__key(struct screen *s)
{
	wint_t c;
	int kind = get_wch(&c);

	(void)s;
	if (kind == ERR || !c)
		return TOP_KEY_NONE;
	if (kind == KEY_CODE_YES)
		return special_key(c);
	if (c == '\n')
		return TOP_KEY_ENTER;
	return c == '\b' ? TOP_KEY_BACKSPACE : (uint32_t)c;
}

bool screen__is_gone(const struct screen *s)
{
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
	int waiting;

	(void)s;
	if (poll(&in, 1, 0) <= 0)
		return false;
	return in.revents & (POLLHUP | POLLERR | POLLNVAL) ||
	       (in.revents & POLLIN && (ioctl(STDIN_FILENO, FIONREAD, &waiting) || !waiting));
}

/* ---- pictures -------------------------------------------------------------------------------- */

void screen__size(const struct screen *s, unsigned *rows, unsigned *cols)
{
	int r, c;

	(void)s;
	getmaxyx(stdscr, r, c);
	*rows = r > 0 ? (unsigned)r : 0;
	*cols = c > 0 ? (unsigned)c : 0;
}

static attr_t attributes(const struct screen *s, enum canvas_style style)
{
	switch (style) {
	case CANVAS_BOLD:
		return A_BOLD;
	case CANVAS_DIM:
		return A_DIM;
	case CANVAS_TITLE:
		return A_REVERSE;
	case CANVAS_SELECTED:
		return A_REVERSE | A_BOLD;
	case CANVAS_GOOD:
	case CANVAS_WARN:
	case CANVAS_BAD:
		return s->color ? A_BOLD | (attr_t)COLOR_PAIR((int)style) : A_BOLD;
	default:
		return A_NORMAL;
	}
}

int screen__show(struct screen *s, const struct canvas *c)
{
	if (c->err)
		return c->err;
	erase();
	for (size_t i = 0; i < c->run_cnt; i++) {
		const struct canvas_run *r = &c->runs[i];

		attrset(attributes(s, r->style));
		mvaddnstr((int)r->row, (int)r->col, c->text.s + r->at, (int)r->len);
	}
	attrset(A_NORMAL);
	refresh();
	return 0;
}

int screen__keep(struct screen *s)
{
	unsigned rows, cols;
	size_t size, whole = 0;
	char *row;

	screen__size(s, &rows, &cols);
	size = (size_t)cols * MB_LEN_MAX + 1;
	row = malloc(size);
	if (!row)
		return -ENOMEM;
	strbuf__clear(&s->kept);
	for (unsigned i = 0; i < rows; i++) {
		int len = mvinnstr((int)i, 0, row, (int)size - 1);

		while (len > 0 && row[len - 1] == ' ')
			len--;
		strbuf__add(&s->kept, row, len > 0 ? (size_t)len : 0);
		strbuf__addc(&s->kept, '\n');
		if (len > 0)
			whole = s->kept.len; /* without the empty rows at the end */
	}
	free(row);
	if (!s->kept.err)
		s->kept.len = whole;
	return s->kept.err;
}
