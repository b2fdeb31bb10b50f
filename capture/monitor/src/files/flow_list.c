#include "files/flow_list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLOWS_MAX (1U << 24)

static int read_records(FILE *file, struct expected_flow **expected, uint32_t *flows, const char *path,
                        struct fault *fault) {
    char magic[sizeof FLOW_LIST_MAGIC];
    uint64_t count = 0;
    if (fread(magic, sizeof magic, 1, file) != 1 || memcmp(magic, FLOW_LIST_MAGIC, sizeof magic) != 0 ||
        fread(&count, sizeof count, 1, file) != 1 || count == 0 || count > FLOWS_MAX) {
        return fail(fault, "%.200s: not a list of at most %u flows", path, FLOWS_MAX);
    }
    *expected = calloc(count, sizeof **expected);
    if (!*expected) {
        return fail(fault, "%.200s: out of memory", path);
    }
    if (fread(*expected, sizeof **expected, count, file) != count || fgetc(file) != EOF) {
        return fail(fault, "%.200s: does not contain %llu flows", path, (unsigned long long)count);
    }
    *flows = (uint32_t)count;
    for (uint32_t i = 0; i < *flows; ++i) {
        const struct expected_flow *flow = &(*expected)[i];
        if (flow->pattern >= PATTERNS ||
            (flow->pattern_offset != MONITOR_NO_STAMP && flow->stamp_offset != MONITOR_NO_STAMP &&
             flow->pattern_offset < flow->stamp_offset + STAMP_BYTES)) {
            return fail(fault, "%.200s: flow %u has an unknown pattern, or its pattern begins in the stamp",
                        path, i);
        }
    }
    return 0;
}

int flow_list_read(struct expected_flow **expected, uint32_t *flows, const char *path, struct fault *fault) {
    FILE *file = fopen(path, "rbe");
    if (!file) {
        return fail(fault, "%.200s: %s%s", path, strerror(errno), read_advice(errno));
    }
    *expected = NULL;
    const int status = read_records(file, expected, flows, path, fault);
    fclose(file);
    if (status != 0) {
        free(*expected);
        *expected = NULL;
    }
    return status;
}
