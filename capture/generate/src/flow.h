/* A flow of the model: template, fields that vary, lengths, checksums, gaps and sizes. Packets are built in
 * order, without allocation. */
#ifndef ACAPELLA_GENERATE_FLOW_H
#define ACAPELLA_GENERATE_FLOW_H

#include "draw.h"

#define PACKET_MAX 65535
#define HEADER_MAX 1024
#define FIELDS_MAX 32
#define OPERATIONS_MAX 16
#define BITS_PER_BYTE 8

struct list {
    uint64_t *value;
    uint64_t count;
};

enum field_kind { FIELD_INCREMENT, FIELD_INTERLEAVE, FIELD_RANDOM };

/* A field in `width` bytes (1, 2, 4 or 8) at `offset`: (value & mask) << shift. */
struct field {
    enum field_kind kind;
    uint16_t offset;
    uint8_t width, shift;
    uint64_t mask;
    uint64_t from, step, count; /* count: number of values; 0: 2^64 */
    uint64_t at;                /* of INCREMENT and INTERLEAVE: index of the next value */
    uint64_t key;
    const struct list *list;
};

/* A field of two bytes: the packet's length minus `base`, plus `delta` in packets that are malformed. */
struct length {
    uint16_t offset, base;
    int32_t delta;
    uint64_t every; /* each N-th packet is malformed; 0 if none */
};

/* An Internet checksum (RFC 1071). */
struct checksum {
    uint16_t offset, from;
    uint16_t to;           /* 0: the end of the packet */
    uint16_t pseudo;       /* offset of the addresses in the pseudo-header */
    uint16_t pseudo_bytes; /* 0: no pseudo-header */
    uint16_t protocol;
    bool udp; /* 0 is sent as 0xFFFF (RFC 768) */
    uint64_t every;
};

enum gap_kind { GAP_CONSTANT, GAP_RATE, GAP_RANDOM, GAP_ON_OFF, GAP_LIST };

struct gap {
    enum gap_kind kind;
    int64_t ns;                      /* CONSTANT: plus `remainder` / `denominator`; ON_OFF: within a burst */
    uint64_t remainder, denominator; /* RATE: bit/s */
    uint64_t carry;
    struct distribution random; /* ON_OFF: duration of a burst */
    struct distribution off;
    uint64_t burst, left; /* ON_OFF: number of the burst; packets left in it, 0 before it begins */
    const struct list *list;
};

enum size_kind { SIZE_CONSTANT, SIZE_UNIFORM, SIZE_WEIGHTED, SIZE_EXPONENTIAL, SIZE_LIST };

struct size {
    enum size_kind kind;
    uint32_t least, count; /* UNIFORM, EXPONENTIAL: from least to least + count - 1 */
    double mean, span;     /* EXPONENTIAL: mean above `least`, and probability of the range */
    uint64_t key;
    const struct list *list, *thresholds; /* WEIGHTED: in units of 2^-32 */
};

struct truncation {
    uint16_t bytes;
    uint64_t every; /* 0: none */
};

/* The fields that each packet needs share few cache lines: with many flows, the flow of a packet is rarely in
 * a cache. */
struct flow {
    uint32_t number;
    uint32_t bytes;     /* of the next packet, before truncation */
    uint64_t index;     /* of the next packet */
    int64_t arrival_ns; /* of the next packet, before rate limits */
    int64_t free_ns;    /* earliest departure by the rate limit */
    uint64_t packets;   /* 0: no limit */
    int64_t start_ns;   /* relative to the start of the traffic, like all times here */
    int64_t until_ns;   /* limit of arrival_ns; 0 if unlimited */
    uint64_t rate_bps;  /* 0: no limit */
    uint8_t *image;     /* headers with the latest values, checksums 0; the four arrays are in one block */
    struct field *field;
    struct length *length;
    struct checksum *checksum; /* innermost first */
    uint16_t header_bytes, pattern_offset;
    uint8_t fields, lengths, checksums, pattern; /* enum pattern */
    int32_t stamp;                               /* offset; -1 if none */
    bool has_malformed;                          /* some packets are malformed */
    struct truncation truncation;
    struct size size;
    struct gap gap;
    /* counters */
    uint64_t sent, sent_bytes, dropped, malformed;
    uint32_t shortest, longest;
    int64_t first_ns, last_ns;
};

/* Fills the tables of payload patterns; call it once. */
void flow_begin_patterns(void);

/* Prepares the first packet. */
void flow_begin(struct flow *flow);

/* Returns the length of the next packet. */
uint32_t flow_next_bytes(const struct flow *flow);

/* Returns true if the next packet is malformed. */
bool flow_next_malformed(const struct flow *flow);

/* Builds the next packet in `to`, which has room for the longest packet before truncation. */
void flow_build(struct flow *flow, uint8_t *to, int64_t departure_ns);

/* Advances to the packet after the next one. Returns false if there is none. */
bool flow_advance(struct flow *flow);

/* Counts a packet that was sent. */
static inline void flow_count(struct flow *flow, uint32_t bytes, bool malformed, int64_t departure_ns) {
    flow->first_ns = flow->sent ? flow->first_ns : departure_ns;
    flow->last_ns = departure_ns;
    flow->shortest = flow->sent && flow->shortest < bytes ? flow->shortest : bytes;
    flow->longest = flow->longest > bytes ? flow->longest : bytes;
    flow->malformed += malformed;
    flow->sent_bytes += bytes;
    ++flow->sent;
}

/* Returns the time that `bytes` take at a rate, rounded up. */
static inline int64_t flow_duration_ns(uint32_t bytes, uint64_t rate_bps) {
    return (int64_t)(((uint64_t)bytes * BITS_PER_BYTE * STAMP_NS_PER_SECOND + rate_bps - 1) / rate_bps);
}

#endif
