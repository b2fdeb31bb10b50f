/* Tests of the library: frames in memory, with the EAL of the caller. */
#include <rte_eal.h>
#include <string.h>

#include "acapella_p4.h"
#include "common/check.h"
#include "pipeline/icrc.h"

#define FRAMES 40

struct taken {
    unsigned count, sent, sunk;
    void *owner[FRAMES];
    uint8_t first[FRAMES];
    uint32_t length[FRAMES];
};

static void take(void *user, const struct p4_verdict *verdict) {
    struct taken *taken = user;
    CHECK(taken->count < FRAMES && !verdict->probe && !verdict->clone);
    taken->owner[taken->count] = verdict->owner;
    taken->first[taken->count] = verdict->length ? verdict->bytes[0] : 0;
    taken->length[taken->count++] = verdict->length;
    taken->sent += verdict->outcome == P4_SENT;
    taken->sunk += verdict->outcome == P4_SUNK && verdict->reason == 7;
}

/* A frame built by scapy's roce layer: UC WRITE to queue pair 17, PSN 5, 64 bytes, with its ICRC. */
static void test_icrc(void) {
    static const uint8_t headers[] = {
        2, 0,  0,  0, 0, 2, 2,  0, 0, 0, 0,    1, 8,    0,    0x45, 2,   0, 124,  0,    1, 0,    0,    64, 17,
        0, 0,  10, 0, 0, 1, 10, 0, 0, 2, 0xc0, 0, 0x12, 0xb7, 0,    104, 0, 0,    0x2a, 0, 0xff, 0xff, 0,  0,
        0, 17, 0,  0, 0, 5, 0,  0, 0, 0, 0,    0, 0x10, 0,    0,    0,   0, 0x55, 0,    0, 0,    64};
    uint8_t frame[sizeof headers + 64], computed[ICRC_BYTES];
    memcpy(frame, headers, sizeof headers);
    for (unsigned i = 0; i < 64; ++i) {
        frame[sizeof headers + i] = (uint8_t)i;
    }
    CHECK(sizeof frame == 134 && p4_icrc_applies(frame, sizeof frame));
    p4_icrc(frame, sizeof frame, computed);
    CHECK(memcmp(computed, (const uint8_t[]){0xcc, 0x92, 0xc9, 0x10}, ICRC_BYTES) == 0);
    frame[15] = 0xb8; /* fields that routers change */
    frame[22] = 3;
    frame[24] = frame[25] = 0x5a;
    p4_icrc(frame, sizeof frame, computed);
    CHECK(computed[0] == 0xcc && computed[3] == 0x10);
    frame[53] = 6; /* and fields that they do not change */
    p4_icrc(frame, sizeof frame, computed);
    CHECK(computed[0] != 0xcc || computed[3] != 0x10);
    CHECK(!p4_icrc_applies(frame, 53));
    frame[14] = 0x46;
    CHECK(!p4_icrc_applies(frame, sizeof frame));
}

static void test_frames(const char *spec) {
    struct taken taken = {0};
    struct fault fault;
    char result[64];
    uint8_t bytes[FRAMES][100];
    struct p4_frame frames[FRAMES];
    const struct p4_settings settings = {.spec = spec, .ports = 3, .on_verdict = take, .user = &taken};
    struct p4 *p4 = p4_load(&settings, &fault);
    CHECK(p4);
    for (unsigned i = 0; i < FRAMES; ++i) {
        memset(bytes[i], (int)i, sizeof bytes[i]);
        memcpy(bytes[i] + 12, i % 4 == 3 ? "\x08\x06" : "\x08\x00", 2);
        frames[i] = (struct p4_frame){i, 200, 60 + i, i % 3, false, bytes[i], &frames[i]};
    }
    CHECK(p4_command(p4, "table exact add match 0x0806 action drop_for 7", NULL, 0, &fault) == 0);
    CHECK(p4_process(p4, frames, FRAMES / 2, &fault) == 0);
    CHECK(taken.count == FRAMES / 2);
    CHECK(p4_process(p4, frames + FRAMES / 2, FRAMES / 2, &fault) == 0);
    CHECK(p4_end(p4, &fault) == 0);
    CHECK(taken.count == FRAMES && taken.sunk == FRAMES / 4 && taken.sent == FRAMES - FRAMES / 4);
    for (unsigned i = 0; i < FRAMES; ++i) { /* in order, each with its owner and bytes */
        CHECK(taken.owner[i] == &frames[i] && taken.length[i] == 60 + i && taken.first[i] == i);
    }
    CHECK(p4_command(p4, "read sequence 0 3", result, sizeof result, &fault) == 0 &&
          strcmp(result, "14 13 13") == 0);
    CHECK(p4_command(p4, "read nothing 0", result, sizeof result, &fault) == -1 && !*result);
    frames[0].port = 3; /* ports 0 to 2 exist */
    CHECK(p4_process(p4, frames, 1, &fault) == -1 && p4_counts(p4)->in == FRAMES && p4_balanced(p4));
    p4_free(p4);
}

int main(int argc, char **argv) {
    struct fault fault;
    char *arguments[] = {
        argv[0], "--no-huge", "--no-shconf", "--no-pci", "--no-telemetry", "--log-level=*:error",
        "-m",    "96",        NULL};
    CHECK(argc == 2);
    CHECK(p4_memory(argv[1], &fault) > 0 && p4_memory(argv[1], &fault) < 96 << 20);
    CHECK(p4_memory("/nowhere.spec", &fault) == 0);
    test_icrc();
    CHECK(rte_eal_init(8, arguments) >= 0);
    CHECK(!p4_load(&(const struct p4_settings){.spec = argv[1], .ports = 0}, &fault));
    test_frames(argv[1]);
    test_frames(argv[1]); /* a program can be loaded again */
    rte_eal_cleanup();
    return 0;
}
