/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_SCREEN_H
#define PYPERF_SCREEN_H
/*
 * The terminal as a screen: shows a canvas, gives keys. The only user of curses.
 *
 * The terminal is left as it was: modes, cursor and, on terminals that have two screens, what was
 * on it. That holds for screen__close(), for Ctrl-Z (SIGTSTP) and for signals that end the program
 * by a fault or SIGQUIT. The caller holds SIGINT, SIGTERM and SIGHUP while the screen is open, and
 * has signals.h call screen__leave() if one of these ends the program early. What is written to
 * stderr meanwhile would spoil the picture: if that is a terminal, it is held and comes out at the
 * end.
 *
 *	if (screen__check())
 *		return 1;
 *	s = screen__open();
 *	... poll STDIN_FILENO and screen__signal_fd(s) ...
 *	screen__signals(s);
 *	while ((key = screen__key(s)))
 *		...
 *	screen__close(s);
 *
 * One at a time: curses has global state, and so has what signal handlers need.
 */
#include <stdbool.h>
#include <stdint.h>

#include "top/canvas.h"

struct screen;

/*
 * Checks that standard input and output are a terminal that can be used. 0, or negative errno after
 * a message.
 */
int screen__check(void);
/*
 * Call after screen__check() returned 0. NULL after a message. Sets the program's LC_CTYPE to
 * UTF-8.
 */
struct screen *screen__open(void);
void screen__close(struct screen *s);

/*
 * Restores the terminal, for a program that ends at once: async-signal-safe. Does nothing without a
 * screen.
 */
void screen__leave(void);

/* Readable when the size changed, or the program is to be stopped (Ctrl-Z). Borrowed. */
int screen__signal_fd(const struct screen *s);
/* Handles these signals. True: the picture has to be drawn again. */
bool screen__signals(struct screen *s);

/* The next key as topview.h numbers them; 0: no more for now. */
uint32_t screen__key(struct screen *s);
/* No key will ever come: the terminal was closed. */
bool screen__is_gone(const struct screen *s);

void screen__size(const struct screen *s, unsigned *rows, unsigned *cols);
/* 0, or -ENOMEM when the canvas is not whole; then nothing is shown. */
int screen__show(struct screen *s, const struct canvas *c);

/*
 * Keeps the text of what is shown now: screen__close() prints it, below what was on the terminal
 * before. 0 or -ENOMEM.
 */
int screen__keep(struct screen *s);

/* The last line that was held back since the last call, or NULL. Borrowed until the next call. */
const char *screen__message(struct screen *s);

#endif /* PYPERF_SCREEN_H */
