/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_SANITIZED_H
#define PYPERF_SANITIZED_H
/*
 * 1 in a build with ASan, which only tests have (make sanitized). Its shadow takes 20 TiB of
 * addresses: no limit on those can be kept. A helper can open no file to write a report to: the
 * FIFO that $PYPERF_REPORTS names is its standard error then, and it may write there. Else a fault
 * there would only be a helper that ends, for which a tenant is blamed.
 */
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#endif /* PYPERF_SANITIZED_H */
