#include "output_file.h"

#include <errno.h>
#include <stdio.h>

#include "common/files/format.h"
#include "common/files/publish.h"
#include "common/signals.h"
#include "schedule.h"

#define BUFFER (1U << 18)
#define LATEST_NS ((int64_t)UINT32_MAX * 1000000000) /* seconds of a pcap have 32 bits */

struct output {
    struct schedule *schedule;
    int64_t start_ns;
};

static bool put(FILE *to, const void *bytes, size_t size) {
    return fwrite_unlocked(bytes, 1, size, to) == size;
}

static bool put_packet(FILE *to, struct flow *flow, int64_t departure_ns) {
    static uint8_t packet[PACKET_MAX + 1];
    const uint32_t bytes = flow_next_bytes(flow);
    const struct frame frame = {.ts_ns = (uint64_t)departure_ns, .wire_bytes = bytes, .kept_bytes = bytes};
    struct record record;
    flow_build(flow, packet, departure_ns);
    pcap_format.record(&record, &frame);
    return put(to, record.head, record.head_bytes) && put(to, packet, bytes);
}

/* Writes all packets. Returns 0, or -1 with errno set. */
static int write_packets(FILE *to, const void *argument) {
    const struct output *output = argument;
    struct schedule *schedule = output->schedule;
    const struct file_info info = {.program = PROGRAM};
    uint8_t head[FORMAT_HEAD_MAX];
    struct flow *flow;
    int64_t due_ns = 0;
    setvbuf(to, NULL, _IOFBF, BUFFER);
    if (!put(to, head, pcap_format.head(head, &info))) {
        return -1;
    }
    while ((flow = schedule_next(schedule, &due_ns))) {
        if (received_signal) {
            errno = EINTR;
            return -1;
        }
        if (output->start_ns + due_ns > LATEST_NS) {
            errno = EOVERFLOW;
            return -1;
        }
        if (!put_packet(to, flow, output->start_ns + due_ns)) {
            return -1;
        }
        flow_count(flow, flow_next_bytes(flow), flow_next_malformed(flow), output->start_ns + due_ns);
        schedule_advance(schedule, due_ns);
    }
    return 0;
}

int output_file_write(struct model *model, const char *path, int64_t start_ns, struct fault *fault) {
    struct schedule schedule;
    if (schedule_open(&schedule, model, fault) != 0) {
        return -1;
    }
    const struct output output = {&schedule, start_ns};
    const int status = write_and_publish(path, write_packets, &output, fault);
    schedule_close(&schedule);
    return status;
}
