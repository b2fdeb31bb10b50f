#include "engine/plan.h"

#include <stdlib.h>

#include "packets/tag.h"

#define PPM 1000000
#define SHORTEST 15 /* Ethernet header and a byte */

__extension__ typedef __int128 wide;

const char *outcome_name(enum outcome outcome) {
    static const char *const names[OUTCOMES] = {"sent",      "ring_full",    "late",   "too_long",
                                                "too_short", "driver_error", "stopped"};
    return names[outcome];
}

static int64_t scale(wide ns, uint64_t speed_ppm) { return (int64_t)(ns * PPM / (wide)speed_ppm); }

/* Returns true if a run can have this duration, scaled by the speed. */
static bool is_valid_duration(wide ns, uint64_t speed_ppm) {
    return ns * PPM / (wide)speed_ppm < INT64_MAX / 4;
}

/* Sets the times; a packet is not requested before its predecessor. */
static int set_times(struct plan *plan, const struct recording *recording, uint64_t speed_ppm,
                     struct fault *fault) {
    const int64_t first = recording_at(recording, 0)->ts_ns;
    wide latest = 0;
    for (uint32_t i = 0; i < plan->packets; ++i) {
        const wide offset = (wide)recording_at(recording, i)->ts_ns - first;
        if (offset < latest) {
            ++plan->time_reversed;
        } else {
            latest = offset;
        }
        if (!is_valid_duration(latest, speed_ppm)) {
            return fail(fault, "packet %u: its time is beyond the longest possible run; check it", i);
        }
        plan->entry[i].offset_ns = scale(latest, speed_ppm);
    }
    const wide gap = plan->packets > 1 ? latest / (plan->packets - 1) : 0;
    plan->period_ns = scale(latest + gap, speed_ppm);
    return 0;
}

static int set_packet(struct plan *plan, uint32_t at, const struct packet *packet, const struct ports *ports,
                      const struct options *options, struct tagger *tagger, struct fault *fault) {
    struct entry *entry = &plan->entry[at];
    struct rte_mbuf *mbuf = packet->mbuf;
    entry->port = (uint8_t)packet->port;
    entry->queue = packet->queue;
    plan->mbuf[at] = mbuf;
    if (mbuf->pkt_len < SHORTEST) {
        entry->rejected = OUTCOME_TOO_SHORT;
    } else if (plan->copies) {
        mbuf = rte_pktmbuf_copy(packet->mbuf, ports->pool, 0, UINT32_MAX);
        if (!mbuf) {
            plan->mbuf[at] = NULL; /* not a copy: it belongs to the recording */
            return fail(fault, "no memory for the tagged copy of packet %u; raise --packets", at);
        }
        plan->mbuf[at] = mbuf;
        if (!tag_append(tagger, mbuf, packet, options)) {
            entry->rejected = OUTCOME_TOO_LONG;
        }
    }
    if (!entry->rejected && !port_fits(&ports->port[packet->port], mbuf)) {
        entry->rejected = OUTCOME_TOO_LONG;
    }
    plan->rejected[entry->rejected] += entry->rejected != 0;
    return 0;
}

/* Groups packets into bursts. Rejected packets belong to no burst. */
static void set_bursts(struct plan *plan, const struct recording *recording, const struct options *options) {
    struct entry *first = NULL;
    for (uint32_t i = 0; i < plan->packets; ++i) {
        struct entry *entry = &plan->entry[i];
        const bool joins = first && options->pacing == PACING_BURSTS && !recording_at(recording, i)->first &&
                           first->port == entry->port && first->queue == entry->queue &&
                           first->count < options->burst;
        if (entry->rejected) {
            first = NULL;
        } else if (joins) {
            ++first->count;
        } else {
            first = entry;
            first->count = 1;
        }
    }
}

/* Links the bursts of each port, because each port is served independently, with its own lead time. */
static void link_bursts(struct plan *plan) {
    for (unsigned port = 0; port < OPTIONS_PORTS; ++port) {
        plan->first[port] = plan->packets;
    }
    for (uint32_t i = plan->packets; i-- > 0;) {
        struct entry *entry = &plan->entry[i];
        if (entry->count) {
            entry->next = plan->first[entry->port];
            plan->first[entry->port] = i;
        }
    }
}

int plan_build(struct plan *plan, const struct recording *recording, const struct ports *ports,
               const struct options *options, uint64_t speed_ppm, struct fault *fault) {
    struct tagger tagger = {0};
    const uint64_t packets = recording_packets(recording);
    plan_free(plan);
    if (packets == 0) {
        return fail(fault, "nothing to replay; load a file or record first");
    }
    plan->mbuf = calloc(packets, sizeof *plan->mbuf);
    plan->entry = calloc(packets, sizeof *plan->entry);
    if (!plan->mbuf || !plan->entry) {
        plan_free(plan);
        return fail(fault, "a run of %llu packets: out of memory", (unsigned long long)packets);
    }
    plan->packets = (uint32_t)packets;
    plan->copies = options->tag != TAG_NONE;
    int status = set_times(plan, recording, speed_ppm, fault);
    for (uint32_t i = 0; i < plan->packets && status == 0; ++i) {
        status = set_packet(plan, i, recording_at(recording, i), ports, options, &tagger, fault);
    }
    if (status != 0) {
        plan_free(plan);
        return -1;
    }
    set_bursts(plan, recording, options);
    link_bursts(plan);
    return 0;
}

void plan_free(struct plan *plan) {
    for (uint32_t i = 0; plan->copies && plan->mbuf && i < plan->packets; ++i) {
        /* frames that are too short are not copied */
        if (plan->mbuf[i] && plan->entry[i].rejected != OUTCOME_TOO_SHORT) {
            rte_pktmbuf_free(plan->mbuf[i]);
        }
    }
    free(plan->mbuf);
    free(plan->entry);
    *plan = (struct plan){0};
}
