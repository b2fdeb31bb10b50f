#include "pipeline/compiled.h"

#include <errno.h>
#include <rte_mbuf.h>
#include <rte_ring.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pipeline/ports.h"

#define RING_ROOM (2 * IN_FLIGHT) /* larger than needed: DPDK frees mbufs that do not fit into a ring */
/* When a port is freed, DPDK's ring reader frees the mbufs of its last burst again; additional references
 * prevent that. */
#define REFERENCES 0x4000

/* A frame in the pipeline; `port` is set when the pipeline returns it. */
struct passage {
    struct slot *slot;
    bool done;
    enum wire_out port;
};

struct compiled {
    unsigned ins;
    struct rte_ring *in[P4_PORTS], *out[WIRE_OUTS];
    struct rte_mbuf *mbufs; /* one per slot; they point to the slots */
    struct passage passages[IN_FLIGHT];
    unsigned first, count; /* frames in the pipeline, in order of arrival */
};

static int make_rings(struct compiled *compiled, const char *name) {
    char text[RTE_RING_NAMESIZE];
    for (unsigned i = 0; i < compiled->ins + WIRE_OUTS; ++i) {
        const bool in = i < compiled->ins;
        const unsigned number = in ? i : i - compiled->ins;
        snprintf(text, sizeof text, "%s_%s%u", name, in ? "i" : "o", number);
        struct rte_ring *ring =
            rte_ring_create(text, RING_ROOM, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
        *(in ? &compiled->in[number] : &compiled->out[number]) = ring;
        if (!ring) {
            return -1;
        }
    }
    compiled->mbufs = aligned_alloc(RTE_CACHE_LINE_SIZE, IN_FLIGHT * sizeof *compiled->mbufs);
    if (compiled->mbufs) {
        memset(compiled->mbufs, 0, IN_FLIGHT * sizeof *compiled->mbufs);
    }
    for (unsigned i = 0; compiled->mbufs && i < IN_FLIGHT; ++i) {
        compiled->mbufs[i].nb_segs = 1;
        rte_mbuf_refcnt_set(&compiled->mbufs[i], REFERENCES);
    }
    return compiled->mbufs ? 0 : -1;
}

/* Writes the ports in DPDK's iospec language to a file in memory: a loader in a sandbox may have no directory
 * for temporary files. Returns NULL if out of memory. */
static FILE *write_ports(const struct compiled *compiled, const struct spec *spec) {
    const int descriptor = memfd_create("ports", MFD_CLOEXEC);
    FILE *to = descriptor < 0 ? NULL : fdopen(descriptor, "w+");
    if (!to) {
        if (descriptor >= 0) {
            close(descriptor);
        }
        return NULL;
    }
    if (spec->mirror_slots) {
        fprintf(to, "mirroring slots %u sessions %u\n", spec->mirror_slots, spec->mirror_sessions);
    }
    for (unsigned i = 0; i < compiled->ins; ++i) {
        fprintf(to, "port in %u ring %s bsz 1\n", i, compiled->in[i]->name);
    }
    for (unsigned i = 0; i < WIRE_OUTS; ++i) {
        fprintf(to, "port out %u ring %s bsz 1\n", i, compiled->out[i]->name);
    }
    rewind(to);
    return to;
}

int p4_compiled_load(struct p4 *p4, struct fault *fault) {
    static atomic_uint loaded;
    char name[RTE_RING_NAMESIZE / 2];
    struct compiled *compiled = calloc(1, sizeof *compiled);
    if (!compiled) {
        return fail(fault, "%s: out of memory", p4->spec.path);
    }
    p4->compiled = compiled;
    compiled->ins = p4->ins;
    snprintf(name, sizeof name, "acapella%u", atomic_fetch_add(&loaded, 1));
    if (make_rings(compiled, name) != 0) {
        return fail(fault, "%s: no memory for the pipeline's rings", p4->spec.path);
    }
    FILE *ports = write_ports(compiled, &p4->spec);
    if (!ports) {
        return fail(fault, "%s: no memory for the list of ports", p4->spec.path);
    }
    const int error = rte_swx_pipeline_build_from_lib(&p4->pipeline, name, p4->settings.library, ports, 0);
    fclose(ports);
    if (error) {
        p4->pipeline = NULL;
        /* EIO: dlopen or a symbol of the library failed, not the disk (is_system_error) */
        const char *reason = error == -EIO ? "not a compiled pipeline" : strerror(-error);
        return fail(fault, "%s: DPDK cannot load this library for %s: %s; compile it again",
                    p4->settings.library, p4->spec.path, reason);
    }
    return 0;
}

void p4_compiled_free(struct compiled *compiled) {
    if (!compiled) {
        return;
    }
    for (unsigned i = 0; i < compiled->ins; ++i) {
        rte_ring_free(compiled->in[i]);
    }
    for (unsigned i = 0; i < WIRE_OUTS; ++i) {
        rte_ring_free(compiled->out[i]);
    }
    free(compiled->mbufs);
    free(compiled);
}

/* DPDK reads the lower port first: frames of a port wait until earlier frames of another port are processed.
 */
void p4_compiled_enqueue(struct p4 *p4) {
    struct compiled *compiled = p4->compiled;
    while (p4->waiting_count) {
        struct slot *slot = p4->waiting[p4->first_waiting];
        const unsigned port = slot->frame.port;
        if (compiled->count && compiled->passages[compiled->first].slot->frame.port != port) {
            return;
        }
        struct rte_mbuf *mbuf = &compiled->mbufs[slot - p4->slot];
        mbuf->buf_addr = slot->buffer;
        mbuf->data_off = (uint16_t)p4->head_room;
        mbuf->pkt_len = slot->total;
        rte_ring_sp_enqueue(compiled->in[port], mbuf);
        compiled->passages[(compiled->first + compiled->count++) % IN_FLIGHT] =
            (struct passage){.slot = slot};
        p4->first_waiting = (p4->first_waiting + 1) % IN_FLIGHT;
        --p4->waiting_count;
    }
}

static void mark_done(struct compiled *compiled, const struct slot *slot, enum wire_out port) {
    struct passage *passage = &compiled->passages[compiled->first];
    for (unsigned i = 1; passage->slot != slot; ++i) {
        passage = &compiled->passages[(compiled->first + i) % IN_FLIGHT];
    }
    passage->done = true;
    passage->port = port;
}

void p4_compiled_take(struct p4 *p4) {
    struct compiled *compiled = p4->compiled;
    for (unsigned i = 0; i < WIRE_OUTS; ++i) {
        for (void *mbuf; rte_ring_sc_dequeue(compiled->out[i], &mbuf) == 0;) {
            mark_done(compiled, &p4->slot[(struct rte_mbuf *)mbuf - compiled->mbufs], (enum wire_out)i);
        }
    }
    for (struct passage *passage = &compiled->passages[compiled->first]; compiled->count && passage->done;
         passage = &compiled->passages[compiled->first]) {
        const struct rte_mbuf *mbuf = &compiled->mbufs[passage->slot - p4->slot];
        const struct rte_swx_pkt packet = {.handle = passage->slot,
                                           .pkt = mbuf->buf_addr,
                                           .offset = mbuf->data_off,
                                           .length = mbuf->pkt_len};
        compiled->first = (compiled->first + 1) % IN_FLIGHT;
        --compiled->count;
        p4_port_sent(p4, passage->port, &packet);
    }
}
