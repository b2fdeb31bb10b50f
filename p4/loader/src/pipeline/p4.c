/* Loads a program from its .spec and processes frames. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pipeline/build.h"
#include "pipeline/compiled.h"
#include "pipeline/ports.h"
#include "spec/guard.h"
#include "spec/verify.h"

#define QUANTA 64                  /* instructions per call */
#define QUANTA_COMPILED 16         /* a step of a compiled program is many instructions */
#define MAX_IDLE_QUANTA 100000000U /* a frame that takes longer never leaves the pipeline */

uint64_t p4_memory(const char *path, struct fault *fault) {
    struct spec spec;
    const int read = p4_spec_read(&spec, path, fault);
    const uint64_t bytes = read == 0 ? p4_build_memory(&spec) : 0;
    p4_spec_free(&spec);
    return bytes;
}

static unsigned round_up_to_power_of_2(unsigned value) {
    unsigned power = 1;
    while (power < value) {
        power *= 2;
    }
    return power;
}

static int build_interpreted(struct p4 *p4, struct fault *fault) {
    void *in_arguments[P4_PORTS], *out_arguments[WIRE_OUTS];
    p4->in = calloc(p4->ins, sizeof *p4->in);
    if (!p4->in) {
        return fail(fault, "%s: out of memory", p4->spec.path);
    }
    for (unsigned i = 0; i < p4->ins; ++i) {
        p4->in[i] = (struct port_in){p4, i};
        in_arguments[i] = &p4->in[i];
    }
    for (unsigned i = 0; i < WIRE_OUTS; ++i) {
        p4->out[i] = (struct port_out){p4, (enum wire_out)i};
        out_arguments[i] = &p4->out[i];
    }
    const struct build_ports ports = {&p4_port_in,   &p4_port_out, in_arguments,
                                      out_arguments, p4->ins,      WIRE_OUTS};
    p4->pipeline = p4_build(&p4->spec, &ports, fault);
    return p4->pipeline ? 0 : -1;
}

static int build(struct p4 *p4, struct fault *fault) {
    p4->ins = round_up_to_power_of_2(p4->settings.ports);
    if ((p4->settings.library ? p4_compiled_load(p4, fault) : build_interpreted(p4, fault)) != 0) {
        return -1;
    }
    p4->control = rte_swx_ctl_pipeline_create(p4->pipeline);
    if (!p4->control) {
        return fail(fault, "%s: no memory for the pipeline's control", p4->spec.path);
    }
    /* until the control plane sets a port: copies are dropped and counted */
    struct rte_swx_pipeline_mirroring_session_params nowhere = {.port_id = WIRE_DROP, .fast_clone = 1};
    for (uint32_t i = 0; rte_swx_ctl_pipeline_mirroring_session_set(p4->pipeline, i, &nowhere) == 0; ++i) {
    }
    return 0;
}

/* DPDK (22.11 to 24.11) shares the object of a table that cannot be changed in place (lpm, wildcard) between
 * control and pipeline, and frees it with both: in this case, the control is not freed. */
static void free_pipeline(struct p4 *p4) {
    bool shared = false;
    for (unsigned i = 0; i < p4->spec.table_count; ++i) {
        const struct spec_table *table = &p4->spec.tables[i];
        for (unsigned j = 0; j < table->key_count; ++j) {
            shared |= table->keys[j].match != SPEC_EXACT;
        }
    }
    if (!shared) {
        rte_swx_ctl_pipeline_free(p4->control);
    }
    rte_swx_pipeline_free(p4->pipeline);
    p4_compiled_free(p4->compiled);
}

struct p4 *p4_load(const struct p4_settings *settings, struct fault *fault) {
    struct p4 *p4 = calloc(1, sizeof *p4);
    struct verify_limits limits;
    if (!p4) {
        fail(fault, "%s: out of memory", settings->spec);
        return NULL;
    }
    p4->settings = *settings;
    if (settings->ports < 1 || settings->ports > P4_PORTS) {
        fail(fault, "%u input ports: the limit is 1 to %d", settings->ports, P4_PORTS);
    } else if (p4_spec_read(&p4->spec, settings->spec, fault) == 0 &&
               p4_verify(&p4->spec, &limits, fault) == 0 && p4_guard_prepare(&p4->spec, fault) == 0 &&
               build(p4, fault) == 0) {
        p4->in_flight = limits.waits ? 1 : IN_FLIGHT;
        p4->reach = limits.reach > WIRE_INGRESS + WIRE_PADDED ? limits.reach : WIRE_INGRESS + WIRE_PADDED;
        p4->head_room = (limits.emitted + 63) / 64 * 64 + 64;
        return p4;
    }
    p4_free(p4);
    return NULL;
}

void p4_free(struct p4 *p4) {
    if (!p4) {
        return;
    }
    free_pipeline(p4);
    for (unsigned i = 0; i < IN_FLIGHT; ++i) {
        free(p4->slot[i].buffer);
    }
    for (unsigned i = 0; i < P4_REASONS; ++i) {
        free(p4->reasons[i]);
    }
    p4_epochs_free(p4);
    p4_spec_free(&p4->spec);
    free(p4->report);
    free(p4->in);
    free(p4);
}

/* Makes the slot's buffer large enough for `bytes` after the headroom, and for `reach` bytes after the frame.
 * Returns false if out of memory. */
static bool make_room(struct p4 *p4, struct slot *slot, uint32_t bytes) {
    const uint32_t room = bytes + p4->reach + 64;
    if (slot->room >= room) {
        return true;
    }
    uint8_t *larger = calloc(1, (size_t)p4->head_room + room * 2);
    if (!larger) {
        return false;
    }
    free(slot->buffer);
    slot->buffer = larger;
    slot->room = room * 2;
    slot->used = 0;
    return true;
}

static void fill(struct p4 *p4, struct slot *slot, const struct p4_frame *frame, bool probe) {
    uint8_t *at = slot->buffer + p4->head_room;
    const uint32_t end = WIRE_INGRESS + frame->kept_bytes;
    const uint32_t used = end > p4->reach ? end : p4->reach;
    wire_put64(at, frame->ts_ns);
    wire_put32(at + 8, frame->wire_bytes);
    wire_put32(at + 12, frame->kept_bytes);
    wire_put32(at + 16, frame->port);
    wire_put32(at + 20, probe ? WIRE_PROBE : 0);
    if (frame->kept_bytes) {
        memcpy(at + WIRE_INGRESS, frame->bytes, frame->kept_bytes);
    }
    /* clear the bytes after this frame that an earlier frame or the program has written */
    const uint32_t dirty = slot->used > end ? slot->used : end;
    memset(at + end, 0, dirty - end);
    slot->used = used;
    slot->kept = frame->kept_bytes;
    const uint32_t padded = WIRE_INGRESS + WIRE_PADDED;
    slot->total = end > padded ? end : padded;
    slot->frame = *frame;
    slot->probe = probe;
    slot->busy = true;
}

static int run_until(struct p4 *p4, unsigned busy, struct fault *fault) {
    unsigned last = p4->busy;
    const unsigned quanta = p4->compiled ? QUANTA_COMPILED : QUANTA;
    for (uint64_t idle = 0; p4->busy > busy; idle += quanta) {
        if (p4->compiled) {
            p4_compiled_enqueue(p4);
        }
        rte_swx_pipeline_run(p4->pipeline, quanta);
        if (p4->compiled) {
            p4_compiled_take(p4);
        }
        if (p4->busy != last) {
            last = p4->busy;
            idle = 0;
        }
        if (idle > MAX_IDLE_QUANTA) {
            return fail(fault,
                        "%s: the program does not return a frame because it loops; "
                        "drop frames that are recirculated too often",
                        p4->spec.path);
        }
    }
    return p4->failed ? fail(fault, "%s: out of memory", p4->spec.path) : 0;
}

int p4_drain(struct p4 *p4, struct fault *fault) { return run_until(p4, 0, fault); }

int p4_push(struct p4 *p4, const struct p4_frame *frame, bool probe, struct fault *fault) {
    if (p4->busy >= p4->in_flight && run_until(p4, p4->in_flight - 1, fault) != 0) {
        return -1;
    }
    struct slot *slot = p4->slot;
    while (slot->busy) {
        ++slot;
    }
    if (!make_room(p4, slot, WIRE_INGRESS + frame->kept_bytes)) {
        return fail(fault, "out of memory for a frame of %u bytes", frame->kept_bytes);
    }
    fill(p4, slot, frame, probe);
    p4->waiting[(p4->first_waiting + p4->waiting_count++) % IN_FLIGHT] = slot;
    ++p4->busy;
    p4->counts.probes += probe;
    return 0;
}

/* Epochs are in packet time, so a frame without a time belongs to none. */
static int exclude_untimed(struct p4 *p4, const struct p4_frame *frame, struct fault *fault) {
    if (p4_drain(p4, fault) != 0) {
        return -1;
    }
    const struct p4_verdict verdict = {.outcome = P4_UNTIMED, .ts_ns = frame->ts_ns, .owner = frame->owner};
    ++p4->counts.outcome[P4_UNTIMED];
    p4->settings.on_verdict(p4->settings.user, &verdict);
    return 0;
}

static int push(struct p4 *p4, const struct p4_frame *frame, struct fault *fault) {
    if (frame->untimed && p4->epochs.period_ns) {
        return exclude_untimed(p4, frame, fault);
    }
    return p4_epochs_until(p4, frame->ts_ns, fault) != 0 ? -1 : p4_push(p4, frame, false, fault);
}

static int push_all(struct p4 *p4, const struct p4_frame *frames, unsigned count, struct fault *fault) {
    for (unsigned i = 0; i < count; ++i) {
        const struct p4_frame *frame = &frames[i];
        if (frame->kept_bytes > P4_FRAME_MAX || frame->port >= p4->settings.ports) {
            return fail(fault, "a frame of %u bytes of port %u: at most %d bytes and %u ports are possible",
                        frame->kept_bytes, frame->port, P4_FRAME_MAX, p4->settings.ports);
        }
        if (push(p4, frame, fault) != 0) {
            return -1;
        }
        ++p4->counts.in;
        ++p4->counts.in_of_port[frame->port];
        p4->counts.in_bytes += frame->kept_bytes;
    }
    return p4_drain(p4, fault);
}

uint64_t p4_cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void count_time(struct p4 *p4, uint64_t begin_ns) {
    p4->cpu_ns += p4_cpu_ns() - begin_ns;
    p4->counts.pipeline_ns = p4->cpu_ns - p4->counts.control_ns;
}

int p4_process(struct p4 *p4, const struct p4_frame *frames, unsigned count, struct fault *fault) {
    const uint64_t begin_ns = p4_cpu_ns();
    const int status = push_all(p4, frames, count, fault);
    count_time(p4, begin_ns);
    return status;
}

int p4_end(struct p4 *p4, struct fault *fault) {
    const uint64_t begin_ns = p4_cpu_ns();
    const int status = p4_epochs_end(p4, fault);
    count_time(p4, begin_ns);
    return status;
}

const struct p4_counts *p4_counts(const struct p4 *p4) { return &p4->counts; }

bool p4_balanced(const struct p4 *p4) {
    const struct p4_counts *counts = &p4->counts;
    uint64_t out = 0, sunk = 0, ports = 0;
    for (unsigned i = 0; i < P4_OUTCOMES; ++i) {
        out += counts->outcome[i];
    }
    for (unsigned i = 0; i < P4_REASONS; ++i) {
        sunk += counts->sunk[i];
    }
    for (unsigned i = 0; i < P4_PORTS; ++i) {
        ports += counts->in_of_port[i];
    }
    return counts->in + counts->probes + counts->clones == out && sunk == counts->outcome[P4_SUNK] &&
           ports == counts->in;
}
