#include "packet/hash.h"

#include <string.h>

#define STEP 16
#define LONGEST_LENGTH 1500 /* IEEE 802.3-2018, section 3.2.6: larger values are not lengths */

struct lane {
    uint64_t x, y;
};

struct hasher {
    struct lane lane[2];
};

static const uint64_t keys[4] = {0x243f6a8885a308d3, 0x13198a2e03707344, 0xa4093822299f31d0,
                                 0x082efa98ec4e6c89};

static struct lane mix(struct lane lane, uint64_t a, uint64_t b) {
    __extension__ typedef unsigned __int128 uint128;
    const uint64_t x = lane.x ^ a, y = lane.y ^ b;
    const uint128 product = (uint128)(x ^ keys[2]) * (y ^ keys[0]);
    return (struct lane){(uint64_t)product + (y << 32 | y >> 32),
                         (uint64_t)(product >> 64) ^ (x << 32 | x >> 32)};
}

static struct lane load(const uint8_t *at) {
    struct lane words;
    memcpy(&words.x, at, sizeof words.x);
    memcpy(&words.y, at + sizeof words.x, sizeof words.y);
    return words;
}

static void step(struct hasher *hasher, unsigned lane, const uint8_t *at) {
    const struct lane words = load(at);
    hasher->lane[lane] = mix(hasher->lane[lane], words.x, words.y);
}

/* If there are at least 16 bytes, the last step may read some of them twice. */
static void absorb(struct hasher *hasher, const uint8_t *at, uint32_t size) {
    uint32_t left = size;
    for (; left >= 2 * STEP; at += 2 * STEP, left -= 2 * STEP) {
        step(hasher, 0, at);
        step(hasher, 1, at + STEP);
    }
    if (left >= STEP) {
        step(hasher, 0, at);
        at += STEP;
        left -= STEP;
    }
    if (left == 0) {
        return;
    }
    if (size >= STEP) {
        step(hasher, 1, at + left - STEP);
    } else {
        uint8_t rest[STEP] = {0};
        memcpy(rest, at, left);
        step(hasher, 1, rest);
    }
}

/* Hashes the first 32 bytes without the bits that hops change. Returns the number of bytes hashed. */
static uint32_t absorb_head(struct hasher *hasher, const uint8_t *at, uint32_t size, uint8_t version) {
    static const uint8_t mask4[STEP] = {0xff, 0,    0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                        0,    0xff, 0,    0,    0xff, 0xff, 0xff, 0xff};
    static const uint8_t mask6[STEP] = {0xf0, 0x0f, 0xff, 0xff, 0xff, 0xff, 0xff, 0,
                                        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    const uint8_t *mask = version == 4 ? mask4 : mask6;
    uint8_t head[2 * STEP];
    const uint32_t count = size < sizeof head ? size : sizeof head;
    memcpy(head, at, count);
    for (uint32_t i = 0; i < count && i < STEP; ++i) {
        head[i] &= mask[i];
    }
    absorb(hasher, head, count);
    return count;
}

static struct identity finish(const struct hasher *hasher) {
    struct lane lane = mix(hasher->lane[0], hasher->lane[1].x, hasher->lane[1].y);
    lane = mix(lane, keys[1], keys[2]);
    lane = mix(lane, keys[3], keys[0]);
    return (struct identity){lane.x, lane.y};
}

static struct hasher begin(uint64_t seed, uint64_t length) {
    return (struct hasher){{{keys[0] ^ seed, keys[1] ^ length}, {keys[2] ^ length, keys[3] ^ seed}}};
}

struct identity identity_of(const uint8_t *bytes, uint32_t captured_bytes, const struct headers *headers) {
    if (headers->ip_version) {
        const uint32_t at = headers->ip_at;
        const uint32_t length = headers->end > at ? headers->end - at : 0;
        struct hasher hasher = begin(0, length);
        const uint32_t head = absorb_head(&hasher, bytes + at, length, headers->ip_version);
        absorb(&hasher, bytes + at + head, length - head);
        return finish(&hasher);
    }
    const uint32_t at = headers->link_at;
    const bool typed = headers->payload_offset > 0; /* otherwise, not even an Ethernet header was read */
    uint32_t length = captured_bytes - at;
    if (typed && headers->ethertype > 0 && headers->ethertype <= LONGEST_LENGTH &&
        headers->ethertype < length) {
        length = headers->ethertype; /* padding follows */
    }
    struct hasher hasher = begin(typed, length + (typed ? 2 : 0));
    if (typed) {
        const uint8_t type[2] = {(uint8_t)(headers->ethertype >> 8), (uint8_t)headers->ethertype};
        absorb(&hasher, type, sizeof type);
    }
    absorb(&hasher, bytes + at, length);
    return finish(&hasher);
}
