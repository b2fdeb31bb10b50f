/* Epochs of the control plane: two banks of cells that are read and cleared in turn. At a boundary, in packet
 * time, the loader switches the program to the other bank. A probe makes each flow that reported in the ended
 * epoch report once more. Then the cells of that bank are cleared. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/control.h"
#include "spec/number.h"

#define MAX_PROBES (1U << 22)

/* The first report of a flow in an epoch is recognized by its triggers (format 2,
 * schemas/report_formats.tsv), or by the flag of the egress header. */
enum { PAYLOAD = 70, VERSION = 2, TRIGGER = PAYLOAD + 4, TRIGGER_FIRST = 64 };

static bool is_first(const struct p4_verdict *report) {
    const uint8_t *egress = report->bytes - WIRE_EGRESS;
    if (egress[31] & WIRE_FIRST) {
        return true;
    }
    return report->outcome == P4_SENT && report->length > TRIGGER + 1 && report->bytes[PAYLOAD] == VERSION &&
           report->bytes[TRIGGER + 1] & TRIGGER_FIRST;
}

static int set(struct p4 *p4, const char *name, uint32_t index, uint64_t value) {
    return p4_spec_register(&p4->spec, name)
               ? rte_swx_ctl_pipeline_regarray_write(p4->pipeline, name, index, value)
               : 0;
}

/* The register `epoch` contains the number of the first epoch, so that a restarted program does not repeat
 * numbers that a collector has received. */
static void begin(struct p4 *p4, uint64_t ts_ns) {
    struct epochs *epochs = &p4->epochs;
    uint64_t number = 0;
    if (p4_spec_register(&p4->spec, "epoch")) {
        rte_swx_ctl_pipeline_regarray_read(p4->pipeline, "epoch", 0, &number);
    }
    epochs->begun = true;
    epochs->number = number;
    epochs->next_ns = (ts_ns / epochs->period_ns + 1) * epochs->period_ns;
    set(p4, "active_bank", 0, number % 2);
}

/* Clears a bank cell by cell, because DPDK has no public function for a range. Its CPU time is counted
 * separately, as control_ns. */
static void clear_bank(struct p4 *p4, uint64_t bank) {
    const uint64_t begin_ns = p4_cpu_ns();
    for (unsigned i = 0; i < p4->epochs.clears; ++i) {
        const struct epoch_clear *clear = &p4->epochs.clear[i];
        const uint32_t first = (uint32_t)bank * clear->bank;
        for (uint32_t j = 0; j < clear->bank; ++j) {
            rte_swx_ctl_pipeline_regarray_write(p4->pipeline, clear->name, first + j, 0);
        }
    }
    p4->counts.control_ns += p4_cpu_ns() - begin_ns;
}

static int send_probes(struct p4 *p4, uint64_t ts_ns, struct fault *fault) {
    struct epochs *epochs = &p4->epochs;
    const unsigned count = epochs->probe_count;
    struct probe *probes = epochs->probes;
    /* the report of a probe is not the first one of the new epoch */
    epochs->probes = NULL;
    epochs->probe_count = epochs->probe_room = 0;
    int status = 0;
    for (unsigned i = 0; status == 0 && i < count; ++i) {
        const struct p4_frame frame = {.ts_ns = ts_ns,
                                       .wire_bytes = probes[i].wire_bytes,
                                       .kept_bytes = probes[i].kept_bytes,
                                       .port = probes[i].port,
                                       .bytes = probes[i].bytes};
        status = p4_push(p4, &frame, true, fault);
    }
    if (p4_drain(p4, fault) != 0) {
        status = -1;
    }
    free(probes);
    free(epochs->probes);
    epochs->probes = NULL;
    epochs->probe_count = epochs->probe_room = 0;
    return status;
}

static int switch_banks(struct p4 *p4, uint64_t ts_ns, struct fault *fault) {
    struct epochs *epochs = &p4->epochs;
    const uint64_t ended_bank = epochs->number % 2;
    if (p4_drain(p4, fault) != 0) {
        return -1;
    }
    ++epochs->number;
    ++p4->counts.epochs;
    set(p4, "active_bank", 0, epochs->number % 2);
    set(p4, "epoch", 0, epochs->number);
    if (send_probes(p4, ts_ns, fault) != 0) {
        return -1;
    }
    clear_bank(p4, ended_bank);
    return 0;
}

int p4_epochs_until(struct p4 *p4, uint64_t ts_ns, struct fault *fault) {
    struct epochs *epochs = &p4->epochs;
    if (!epochs->period_ns) {
        return 0;
    }
    epochs->last_ns = ts_ns > epochs->last_ns ? ts_ns : epochs->last_ns;
    if (!epochs->begun) {
        begin(p4, ts_ns);
    }
    if (ts_ns < epochs->next_ns) {
        return 0;
    }
    const uint64_t boundary = epochs->next_ns;
    /* epochs without frames have no reports: one switch for all of them */
    epochs->next_ns += ((ts_ns - boundary) / epochs->period_ns + 1) * epochs->period_ns;
    return switch_banks(p4, boundary, fault);
}

int p4_epochs_end(struct p4 *p4, struct fault *fault) {
    const struct epochs *epochs = &p4->epochs;
    return epochs->period_ns && epochs->begun ? switch_banks(p4, epochs->last_ns, fault)
                                              : p4_drain(p4, fault);
}

void p4_epochs_note(struct p4 *p4, const struct slot *slot, const struct p4_verdict *report) {
    struct epochs *epochs = &p4->epochs;
    if (!epochs->period_ns || slot->probe || !is_first(report)) {
        return;
    }
    if (epochs->probe_count == epochs->probe_room) {
        const unsigned room = epochs->probe_room ? epochs->probe_room * 2 : 256;
        struct probe *larger = room <= MAX_PROBES ? realloc(epochs->probes, room * sizeof *larger) : NULL;
        if (!larger) {
            p4->failed = true;
            return;
        }
        epochs->probes = larger;
        epochs->probe_room = room;
    }
    struct probe *probe = &epochs->probes[epochs->probe_count++];
    const uint32_t kept =
        slot->frame.kept_bytes < sizeof probe->bytes ? slot->frame.kept_bytes : sizeof probe->bytes;
    *probe = (struct probe){slot->frame.port, slot->frame.wire_bytes, kept, {0}};
    memcpy(probe->bytes, slot->frame.bytes, kept);
}

/* Parses a duration in ns, us, ms or s (default: ns). Returns 0 if it is not a duration. */
static uint64_t duration_ns(const char *word) {
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = {{"", 1}, {"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
    char *end = NULL;
    errno = 0;
    const unsigned long long value = *word >= '0' && *word <= '9' ? strtoull(word, &end, 10) : 0;
    for (unsigned i = 0; end && !errno && i < sizeof units / sizeof *units; ++i) {
        if (strcmp(end, units[i].name) == 0 && value <= INT64_MAX / units[i].ns) {
            return value * units[i].ns;
        }
    }
    return 0;
}

static int add_clear(struct p4 *p4, const char *name, const char *bank, struct fault *fault) {
    struct epochs *epochs = &p4->epochs;
    const struct spec_array *array = p4_spec_register(&p4->spec, name);
    uint64_t size = 0;
    if (!array) {
        return fail(fault,
                    "%.64s: the program has no such register; the regarray lines of the .spec name them",
                    name);
    }
    if (!p4_number(bank, &size) || size == 0 || size > array->size / 2) {
        return fail(
            fault,
            "%.64s: invalid bank size %.32s: register %s has %u cells, enough for two banks of at most %u",
            name, bank, name, array->size, array->size / 2);
    }
    struct epoch_clear *larger = realloc(epochs->clear, (epochs->clears + 1) * sizeof *larger);
    if (!larger) {
        return fail(fault, "out of memory");
    }
    epochs->clear = larger;
    larger[epochs->clears].bank = (uint32_t)size;
    snprintf(larger[epochs->clears++].name, SPEC_NAME, "%s", name);
    return 0;
}

/* Returns true if the program has registers for epochs. */
static bool has_epochs(const struct p4 *p4) {
    return p4_spec_register(&p4->spec, "active_bank") || p4_spec_register(&p4->spec, "epoch");
}

int p4_control_epoch(struct p4 *p4, char *const word[], unsigned words, struct fault *fault) {
    if (!has_epochs(p4)) {
        return fail(fault,
                    "%s: the program has no epochs (register active_bank or epoch); remove this line, or run "
                    "the program flowstats",
                    word[0]);
    }
    if (strcmp(word[0], "epoch-clear") == 0) {
        return words == 3 ? add_clear(p4, word[1], word[2], fault)
                          : fail(fault, "epoch-clear: needs REGISTER CELLS");
    }
    const uint64_t period_ns = words == 2 ? duration_ns(word[1]) : 0;
    if (!period_ns) {
        return fail(fault, "epoch: needs a duration, as in 10s or 500ms");
    }
    if (p4->epochs.begun) { /* the new period begins at the latest frame */
        p4->epochs.next_ns = p4->epochs.last_ns + period_ns;
    }
    p4->epochs.period_ns = period_ns;
    return 0;
}

void p4_epochs_free(struct p4 *p4) {
    free(p4->epochs.clear);
    free(p4->epochs.probes);
}
