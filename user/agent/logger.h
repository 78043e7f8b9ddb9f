/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_LOGGER_H
#define PYPERF_AGENT_LOGGER_H
/*
 * Messages of a program that runs for months: lines of text or of JSON on stderr, of each kind at
 * most LOGGER_BURST in LOGGER_SPAN_S; the next one says how many were left out. Kinds
 * are told apart by their format. Debug messages, which somebody asked for, are not limited.
 *
 * Never waits for the reader: a message that finds no room in a pipe or a socket is left out, and
 * counted in the next line.
 *
 *	pyperf-bpf: process 42: cannot be read
 *	{"time":"2024-05-06T07:08:09.123Z","level":"info","message":"process 42: cannot be read"}
 *
 * Under systemd, lines of text begin with their priority (sd-daemon(3)).
 */
#include <stdbool.h>

#define LOGGER_BURST  10
#define LOGGER_SPAN_S 60

/* Starts it, before there are threads; call it again to change the format. */
void logger__start(bool json);

#endif /* PYPERF_AGENT_LOGGER_H */
