/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_METRICS_H
#define PYPERF_AGENT_METRICS_H
/*
 * Writes the agent's metrics for Prometheus: the text format, version 0.0.4.
 *
 * Names are a contract with dashboards and alerts: they begin with pyperf_ (or process_, where
 * client libraries have a name for the same metric), are in seconds and bytes, and end in _total if
 * they only ever grow.
 *
 *	# HELP pyperf_samples_total Samples in windows that were handed on.
 *	# TYPE pyperf_samples_total counter
 *	pyperf_samples_total 91250
 */
#include <stdio.h>

#include "agent/http/stats.h"
#include "agent/push/push.h"
#include "store/store.h"

#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

void metrics__agent(const struct agent_stats *s, FILE *f);
/* The metrics of this process, as the system has them now. */
void metrics__process(const struct agent_stats *s, FILE *f);
void metrics__store(const struct store_stats *s, FILE *f);
/* The metrics of all destinations. */
void metrics__push(const struct push_stats *list, size_t cnt, FILE *f);
/* The iterations of event loops by service. */
void metrics__loops(const struct loop_figures *list, size_t cnt, FILE *f);

/* The parts: one family of metrics and its samples. */
enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_SUMMARY, METRIC_HISTOGRAM };
void metric__family(FILE *f, const char *name, enum metric_type type, const char *help);
/* `label` and `of` are NULL when there is only one; `of` may be any text. */
void metric__uint(FILE *f, const char *name, const char *label, const char *of, uint64_t n);
void metric__seconds(FILE *f, const char *name, const char *label, const char *of, uint64_t ns);

#endif /* PYPERF_AGENT_METRICS_H */
