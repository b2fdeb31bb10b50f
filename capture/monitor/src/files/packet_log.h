/* A log of the packets that pass the rules, each with its 128-bit hash, to find packets lost between two
 * monitors. */
#ifndef ACAPELLA_PACKET_LOG_H
#define ACAPELLA_PACKET_LOG_H

#include <stdio.h>

#include "count/monitor.h"

#define PACKET_LOG_MAGIC "ACPKTv1"

struct packet_record {
    int64_t arrival_ns;
    uint64_t high, low; /* identity */
    uint32_t flow, sequence;
    uint32_t wire_bytes;
    uint32_t stamped; /* 1, or 0 without a flow */
};

struct packet_log {
    FILE *file;
    const char *path;
    int error;          /* errno of the first write that failed */
    uint64_t truncated; /* truncated packets with unknown identity */
};

/* Opens a new log and registers it with the monitor, which writes to it. Returns 0, or -1 with the reason in
 * fault. */
int packet_log_open(struct packet_log *log, const char *path, struct monitor *monitor, struct fault *fault);

/* Closes the log. Returns 0, or -1 with the reason in fault if it is not complete or lacks the identities of
 * truncated packets. */
int packet_log_close(struct packet_log *log, struct fault *fault);

#endif
