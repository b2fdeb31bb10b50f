/* Ports of the pipeline: frames from slots, and verdicts for frames that it sends. */
#include "pipeline/ports.h"

#include <stdlib.h>

#include "pipeline/icrc.h"

static void *port_create(void *argument) { return argument; }
static void port_free(void *port) { (void)port; }

/* Returns the next frame if it belongs to this port: frames enter in order. */
static int receive(void *object, struct rte_swx_pkt *packet) {
    const struct port_in *port = object;
    struct p4 *p4 = port->p4;
    if (!p4->waiting_count || p4->waiting[p4->first_waiting]->frame.port != port->number) {
        return 0; /* the usual case: idle threads of the pipeline poll all the time */
    }
    struct slot *slot = p4->waiting[p4->first_waiting];
    p4->first_waiting = (p4->first_waiting + 1) % IN_FLIGHT;
    --p4->waiting_count;
    *packet = (struct rte_swx_pkt){
        .handle = slot, .pkt = slot->buffer, .offset = p4->head_room, .length = slot->total};
    return 1;
}

static void in_statistics(void *port, struct rte_swx_port_in_stats *stats) {
    (void)port;
    *stats = (struct rte_swx_port_in_stats){0};
}

/* Reads the egress header and truncates the frame to the length in it. Returns false if the header is
 * invalid. */
static bool read_egress(struct p4 *p4, const struct slot *slot, const struct rte_swx_pkt *packet,
                        struct p4_verdict *verdict) {
    const uint8_t *header = packet->pkt + packet->offset;
    const uint64_t room = (uint64_t)p4->head_room + slot->room;
    if (packet->length < WIRE_EGRESS || (uint64_t)packet->offset + packet->length > room) {
        return false;
    }
    const uint32_t padding = slot->total - WIRE_INGRESS - slot->kept;
    const uint32_t payload_bytes = packet->length - WIRE_EGRESS;
    verdict->kind = header[28];
    verdict->reason = header[29];
    verdict->ts_ns = wire_get64(header);
    verdict->wire_bytes = wire_get32(header + 8);
    verdict->length = wire_get32(header + 12);
    verdict->port = wire_get32(header + 16);
    verdict->sequence = wire_get32(header + 20);
    verdict->hash = wire_get32(header + 24);
    verdict->bytes = header + WIRE_EGRESS;
    const uint32_t max_length =
        verdict->kind == P4_FRAME ? (payload_bytes > padding ? payload_bytes - padding : 0) : payload_bytes;
    verdict->length = verdict->length < max_length ? verdict->length : max_length;
    return verdict->kind <= P4_REPORT;
}

/* Copies a report and adds its ICRC. */
static void finish_report(struct p4 *p4, struct p4_verdict *verdict) {
    if (p4->report_room < verdict->length + ICRC_BYTES) {
        uint8_t *larger = realloc(p4->report, verdict->length + ICRC_BYTES);
        if (!larger) {
            p4->failed = true;
            return;
        }
        p4->report = larger;
        p4->report_room = verdict->length + ICRC_BYTES;
    }
    memcpy(p4->report, verdict->bytes, verdict->length);
    p4_icrc(verdict->bytes, verdict->length, p4->report + verdict->length);
    verdict->bytes = p4->report;
    verdict->length += ICRC_BYTES;
    verdict->wire_bytes = verdict->length;
}

static void count(struct p4_counts *counts, const struct p4_verdict *verdict) {
    ++counts->outcome[verdict->outcome];
    counts->clones += verdict->clone;
    if (verdict->outcome == P4_SUNK) {
        ++counts->sunk[verdict->reason];
    } else if (verdict->outcome == P4_SENT) {
        counts->sent_bytes += verdict->length;
        counts->reports += verdict->kind == P4_REPORT;
    }
}

/* Reports the verdict of a frame, of which at most `max_length` bytes are kept. */
static void deliver(struct p4 *p4, enum wire_out port, const struct rte_swx_pkt *packet, bool clone,
                    uint32_t max_length) {
    static const enum p4_outcome outcomes[] = {P4_SENT, P4_SUNK, P4_WRONG_PORT, P4_DROPPED};
    const struct slot *slot = packet->handle;
    struct p4_verdict verdict = {
        .outcome = outcomes[port], .probe = slot->probe, .clone = clone, .owner = slot->frame.owner};
    if (port <= WIRE_SINK && !read_egress(p4, slot, packet, &verdict)) {
        verdict.outcome = P4_HEADERLESS;
    }
    verdict.length = verdict.length < max_length ? verdict.length : max_length;
    const bool report = verdict.outcome == P4_SENT && verdict.kind == P4_REPORT;
    if (!clone && (report || verdict.outcome == P4_SUNK)) { /* even if the first report could not be sent */
        p4_epochs_note(p4, slot, &verdict);
    }
    if (report && p4_icrc_applies(verdict.bytes, verdict.length)) {
        finish_report(p4, &verdict);
    }
    count(&p4->counts, &verdict);
    p4->settings.on_verdict(p4->settings.user, &verdict);
}

void p4_port_sent(struct p4 *p4, enum wire_out port, const struct rte_swx_pkt *packet) {
    struct slot *slot = packet->handle;
    deliver(p4, port, packet, false, UINT32_MAX);
    slot->busy = false;
    --p4->busy;
}

static void transmit(void *object, struct rte_swx_pkt *packet) {
    const struct port_out *port = object;
    p4_port_sent(port->p4, port->number, packet);
}

static void transmit_clone(void *object, struct rte_swx_pkt *packet) {
    const struct port_out *port = object;
    deliver(port->p4, port->number, packet, true, UINT32_MAX);
}

static void transmit_short_clone(void *object, struct rte_swx_pkt *packet, uint32_t length) {
    const struct port_out *port = object;
    deliver(port->p4, port->number, packet, true, length);
}

static void out_statistics(void *port, struct rte_swx_port_out_stats *stats) {
    (void)port;
    *stats = (struct rte_swx_port_out_stats){0};
}

struct rte_swx_port_in_ops p4_port_in = {
    .create = port_create, .free = port_free, .pkt_rx = receive, .stats_read = in_statistics};

struct rte_swx_port_out_ops p4_port_out = {.create = port_create,
                                           .free = port_free,
                                           .pkt_tx = transmit,
                                           .pkt_fast_clone_tx = transmit_clone,
                                           .pkt_clone_tx = transmit_short_clone,
                                           .stats_read = out_statistics};
