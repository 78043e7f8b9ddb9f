/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_GZIP_MESSAGE_H
#define PYPERF_GZIP_MESSAGE_H
/*
 * Writes a protobuf message as gzip: packing streams into deflate, so there is no second copy of it
 * in memory. Equal messages become equal bytes: no time and no name is in the header.
 */
#include <protobuf-c/protobuf-c.h>
#include <stdio.h>

/* 0 or negative errno. */
int gzip_message__write(const ProtobufCMessage *msg, FILE *f);

#endif /* PYPERF_GZIP_MESSAGE_H */
