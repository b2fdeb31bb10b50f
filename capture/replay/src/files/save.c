#include "files/save.h"

#include "common/files/format.h"
#include "common/files/publish.h"

#define DEPARTURES_MAGIC "ACDEPv1" /* and a NUL */

/* Little-endian, like the supported processors. */
struct departure_record {
    uint32_t loop;
    uint16_t port;
    uint8_t outcome, flags; /* enum outcome, enum departed_flags */
    uint64_t packet;
    int64_t requested_ns, departed_ns;
    uint32_t retries;
    uint16_t queue, reserved;
};

_Static_assert(sizeof(struct departure_record) == 40, "the format of departures is fixed");
_Static_assert(RTE_BYTE_ORDER == RTE_LITTLE_ENDIAN,
               "departures are written in the byte order of the processor");

static bool put(FILE *to, const void *bytes, size_t size) { return fwrite(bytes, 1, size, to) == size; }

/* Argument of write_recording. */
struct recorded {
    const struct recording *recording;
    const struct ports *ports;
};

static bool put_packet(FILE *to, const struct packet *packet, bool comments) {
    struct frame frame = {
        .ts_ns = (uint64_t)(packet->ts_ns < 0 ? 0 : packet->ts_ns),
        .wire_bytes = packet->mbuf->pkt_len,
        .kept_bytes = packet->mbuf->pkt_len,
        .interface = packet->port,
        .queue = packet->queue,
        .comment = comments && packet->unresolved ? "unresolved" : NULL,
    };
    struct record record;
    pcapng_format.record(&record, &frame);
    bool complete = put(to, record.head, record.head_bytes);
    for (const struct rte_mbuf *mbuf = packet->mbuf; mbuf && complete; mbuf = mbuf->next) {
        complete = put(to, rte_pktmbuf_mtod(mbuf, const void *), mbuf->data_len);
    }
    return complete && put(to, record.tail, record.tail_bytes);
}

static int write_recording(FILE *to, const void *argument) {
    static const char *const sources[] = {
        [TIMESTAMPS_NONE] = "no packets",
        [TIMESTAMPS_FILE] = "times of the capture file that was loaded",
        [TIMESTAMPS_DEVICE] = "times of reception by the device, one per packet",
        [TIMESTAMPS_BURST] = "times of transmission by the TSC, one per burst",
        [TIMESTAMPS_MIXED] = "times of reception by the device, or of transmission by the TSC",
    };
    const struct recorded *recorded = argument;
    const struct recording *recording = recorded->recording;
    uint8_t head[FORMAT_HEAD_MAX];
    struct file_info info = {.program = PROGRAM " " ACAPELLA_VERSION,
                             .description = sources[recording->timestamps]};
    for (unsigned i = 0; i < recorded->ports->count; ++i) {
        const struct port *port = &recorded->ports->port[i];
        info.interface = *port->interface ? port->interface : port->name;
        const size_t size = i ? pcapng_interface(head, &info) : pcapng_format.head(head, &info);
        if (!put(to, head, size)) {
            return -1;
        }
    }
    for (uint64_t i = 0; i < recording_packets(recording); ++i) {
        if (!put_packet(to, recording_at(recording, i), recording->timestamps != TIMESTAMPS_FILE)) {
            return -1;
        }
    }
    return 0;
}

int save_recording(const struct recording *recording, const struct ports *ports, const char *path,
                   struct fault *fault) {
    const struct recorded recorded = {recording, ports};
    return write_and_publish(path, write_recording, &recorded, fault);
}

static int write_departures(FILE *to, const void *argument) {
    const struct replay *replay = argument;
    const uint32_t packets = replay->plan.packets;
    bool complete = put(to, DEPARTURES_MAGIC, sizeof DEPARTURES_MAGIC);
    for (uint64_t i = 0; i < replay->departures && complete; ++i) {
        const struct departure *departed = &replay->departed[i];
        const uint32_t loop = (uint32_t)(i / packets), packet = (uint32_t)(i % packets);
        const struct departure_record record = {
            .loop = loop,
            .port = replay->plan.entry[packet].port,
            .outcome = departed->outcome,
            .flags = departed->flags,
            .packet = packet,
            .requested_ns = replay_requested(replay, loop, packet),
            .departed_ns = departed->ns,
            .retries = departed->retries,
            .queue = replay->plan.entry[packet].queue,
        };
        complete = put(to, &record, sizeof record);
    }
    return complete ? 0 : -1;
}

int save_departures(const struct replay *replay, const char *path, struct fault *fault) {
    return write_and_publish(path, write_departures, replay, fault);
}
