#include "flow.h"

#define FIXED_PATTERNS PATTERN_PRBS31
#define LATEST_ARRIVAL_NS (INT64_MAX / 2) /* later than every time of a pcap */
#define CORRUPTION 0x0101 /* XORed with a checksum; the difference is never a multiple of 0xFFFF */

static uint8_t pattern_bytes[FIXED_PATTERNS][PACKET_MAX + 1];
static uint16_t pattern_sum[FIXED_PATTERNS][PACKET_MAX + 2]; /* [n]: of the first n bytes */

static uint16_t fold(uint64_t sum) {
    sum = (sum & 0xffffffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)((sum & 0xffff) + (sum >> 16));
}

static uint16_t swap_if(uint16_t sum, bool odd) { return odd ? __builtin_bswap16(sum) : sum; }

/* Returns the one's complement sum of bytes in the byte order of this machine (RFC 1071, section 2). */
static uint64_t sum_of(const uint8_t *from, size_t bytes) {
    uint64_t sum = 0;
    for (; bytes >= 4; from += 4, bytes -= 4) {
        uint32_t word;
        memcpy(&word, from, sizeof word);
        sum += word;
    }
    uint32_t rest = 0;
    memcpy(&rest, from, bytes);
    return sum + rest;
}

/* Like sum_of, for bytes of a packet: relative to even offsets of the packet. */
static uint64_t sum_at(const uint8_t *packet, size_t from, size_t to) {
    const uint64_t sum = sum_of(packet + from, to - from);
    return from & 1 ? swap_if(fold(sum), true) : sum;
}

void flow_begin_patterns(void) {
    for (unsigned pattern = 0; pattern < FIXED_PATTERNS; ++pattern) {
        uint8_t *bytes = pattern_bytes[pattern];
        pattern_write(pattern, bytes, PACKET_MAX + 1, 0, 0);
        for (unsigned i = 0; i <= PACKET_MAX; ++i) {
            pattern_sum[pattern][i + 1] =
                fold((uint64_t)pattern_sum[pattern][i] + (i & 1 ? (unsigned)bytes[i] << 8 : bytes[i]));
        }
    }
}

static bool is_malformed(uint64_t every, uint64_t index) { return every && index % every == 0; }

static uint64_t next_value(struct field *field, uint64_t index) {
    if (field->kind == FIELD_RANDOM) {
        return field->from + draw_below(draw(field->key, index), field->count);
    }
    const uint64_t at = field->at;
    field->at = at + 1 == field->count ? 0 : at + 1;
    return field->kind == FIELD_INTERLEAVE ? field->list->value[at] : field->from + at * field->step;
}

static void store(uint8_t *to, const struct field *field, uint64_t value) {
    const uint64_t mask = field->mask << field->shift, bits = (value & field->mask) << field->shift;
    if (field->width == 2) {
        uint16_t word;
        memcpy(&word, to, sizeof word);
        word = __builtin_bswap16((uint16_t)((__builtin_bswap16(word) & ~mask) | bits));
        memcpy(to, &word, sizeof word);
    } else if (field->width == 4) {
        uint32_t word;
        memcpy(&word, to, sizeof word);
        word = __builtin_bswap32((uint32_t)((__builtin_bswap32(word) & ~mask) | bits));
        memcpy(to, &word, sizeof word);
    } else if (field->width == 8) {
        uint64_t word;
        memcpy(&word, to, sizeof word);
        word = __builtin_bswap64((__builtin_bswap64(word) & ~mask) | bits);
        memcpy(to, &word, sizeof word);
    } else {
        *to = (uint8_t)((*to & ~mask) | bits);
    }
}

static void write_headers(struct flow *flow, uint8_t *to) {
    for (unsigned i = 0; i < flow->fields; ++i) {
        struct field *field = &flow->field[i];
        store(flow->image + field->offset, field, next_value(field, flow->index));
    }
    for (unsigned i = 0; i < flow->lengths; ++i) {
        const struct length *length = &flow->length[i];
        const uint32_t delta = is_malformed(length->every, flow->index) ? (uint32_t)length->delta : 0;
        const uint16_t value = __builtin_bswap16((uint16_t)(flow->bytes - length->base + delta));
        memcpy(flow->image + length->offset, &value, sizeof value);
    }
    memcpy(to, flow->image, flow->header_bytes);
}

/* Writes the bytes after the headers. Returns their sum, relative to even offsets of the packet. */
static uint64_t write_payload(const struct flow *flow, uint8_t *to, int64_t departure_ns) {
    const uint16_t begin = flow->pattern_offset;
    const size_t bytes = flow->bytes > begin ? flow->bytes - begin : 0;
    uint64_t sum = 0;
    if (flow->stamp >= 0) {
        const size_t stamp = (size_t)flow->stamp;
        memset(to + flow->header_bytes, 0, stamp - flow->header_bytes);
        stamp_write(to + stamp, flow->number, (uint32_t)flow->index, departure_ns);
        sum = sum_at(to, stamp, stamp + STAMP_BYTES);
    }
    if (flow->pattern == PATTERN_PRBS31) {
        pattern_prbs31(to + begin, bytes, flow->number, (uint32_t)flow->index);
        return sum + (flow->checksums ? sum_at(to, begin, begin + bytes) : 0);
    }
    memcpy(to + begin, pattern_bytes[flow->pattern], bytes);
    return sum + swap_if(pattern_sum[flow->pattern][bytes], begin & 1);
}

/* `payload` is the sum that write_payload returned. */
static void write_checksum(const struct checksum *checksum, const struct flow *flow, uint8_t *to,
                           uint64_t payload) {
    uint64_t sum = sum_at(to, checksum->from, checksum->to ? checksum->to : flow->header_bytes);
    sum += checksum->to ? 0 : payload;
    uint16_t result = swap_if(fold(sum), checksum->from & 1);
    if (checksum->pseudo_bytes) {
        const uint32_t length = flow->bytes - checksum->from;
        sum = result + sum_of(to + checksum->pseudo, checksum->pseudo_bytes);
        sum += __builtin_bswap32(length) + (uint64_t)__builtin_bswap16(checksum->protocol);
        result = fold(sum);
    }
    result = (uint16_t)~result;
    if (checksum->udp && result == 0) {
        result = 0xffff;
    }
    if (is_malformed(checksum->every, flow->index)) {
        result = result == CORRUPTION ? CORRUPTION << 1 : result ^ CORRUPTION;
    }
    memcpy(to + checksum->offset, &result, sizeof result);
}

void flow_build(struct flow *flow, uint8_t *to, int64_t departure_ns) {
    write_headers(flow, to);
    const uint64_t payload = write_payload(flow, to, departure_ns);
    for (unsigned i = 0; i < flow->checksums; ++i) {
        write_checksum(&flow->checksum[i], flow, to, payload);
    }
}

uint32_t flow_next_bytes(const struct flow *flow) {
    const struct truncation *truncation = &flow->truncation;
    return is_malformed(truncation->every, flow->index) && truncation->bytes < flow->bytes ? truncation->bytes
                                                                                           : flow->bytes;
}

bool flow_next_malformed(const struct flow *flow) {
    if (!flow->has_malformed) {
        return false;
    }
    bool malformed = flow_next_bytes(flow) < flow->bytes;
    for (unsigned i = 0; i < flow->lengths; ++i) {
        malformed |= is_malformed(flow->length[i].every, flow->index);
    }
    for (unsigned i = 0; i < flow->checksums; ++i) {
        malformed |= is_malformed(flow->checksum[i].every, flow->index);
    }
    return malformed;
}

static uint32_t next_size(const struct size *size, uint64_t index) {
    const uint64_t value =
        size->kind == SIZE_CONSTANT || size->kind == SIZE_LIST ? 0 : draw(size->key, index);
    switch (size->kind) {
        case SIZE_UNIFORM:
            return size->least + (uint32_t)draw_below(value, size->count);
        case SIZE_WEIGHTED: {
            uint64_t i = 0;
            while (i + 1 < size->list->count && value >> 32 >= size->thresholds->value[i]) {
                ++i;
            }
            return (uint32_t)size->list->value[i];
        }
        case SIZE_EXPONENTIAL: {
            const uint32_t above = (uint32_t)(size->mean * -draw_log(1 - draw_unit(value) * size->span));
            return size->least + (above < size->count ? above : size->count - 1);
        }
        case SIZE_LIST:
            return (uint32_t)size->list->value[index % size->list->count];
        default:
            return size->least;
    }
}

static int64_t next_on_off(struct gap *gap) {
    if (gap->left == 0) {
        gap->left = (uint64_t)(distribution_draw(&gap->random, gap->burst) / gap->ns) + 1;
    }
    if (--gap->left) {
        return gap->ns;
    }
    return gap->ns + distribution_draw(&gap->off, gap->burst++);
}

/* Returns the gap after the next packet. */
static int64_t next_gap(struct flow *flow) {
    struct gap *gap = &flow->gap;
    switch (gap->kind) {
        case GAP_RATE: {
            const uint64_t bits = (uint64_t)flow_next_bytes(flow) * BITS_PER_BYTE;
            const uint64_t total = gap->carry + bits * STAMP_NS_PER_SECOND;
            gap->carry = total % gap->denominator;
            return (int64_t)(total / gap->denominator);
        }
        case GAP_RANDOM:
            return distribution_draw(&gap->random, flow->index);
        case GAP_ON_OFF:
            return next_on_off(gap);
        case GAP_LIST:
            return (int64_t)gap->list->value[flow->index % gap->list->count];
        default: {
            gap->carry += gap->remainder;
            const bool carried = gap->carry >= gap->denominator;
            gap->carry -= carried ? gap->denominator : 0;
            return gap->ns + carried;
        }
    }
}

void flow_begin(struct flow *flow) {
    flow->arrival_ns = flow->start_ns;
    flow->bytes = next_size(&flow->size, 0);
}

bool flow_advance(struct flow *flow) {
    const int64_t gap_ns = next_gap(flow), max_gap_ns = LATEST_ARRIVAL_NS - flow->arrival_ns;
    flow->arrival_ns = gap_ns < 0 || gap_ns > max_gap_ns ? LATEST_ARRIVAL_NS : flow->arrival_ns + gap_ns;
    ++flow->index;
    flow->bytes = next_size(&flow->size, flow->index);
    return (flow->packets == 0 || flow->index < flow->packets) &&
           (flow->until_ns == 0 || flow->arrival_ns < flow->until_ns);
}
