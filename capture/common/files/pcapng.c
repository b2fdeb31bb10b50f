/* pcapng (draft-ietf-opsawg-pcapng): section, interface, enhanced packets, and interface statistics at the
 * end. */
#include <string.h>

#include "common/files/format.h"

enum block { INTERFACE = 1, STATISTICS = 5, PACKET = 6, SECTION = 0x0a0d0d0a };

#define BYTE_ORDER_MAGIC 0x1a2b3c4dU
#define ETHERNET 1
#define PACKET_HEAD 28
#define SMALLEST_BLOCK 12
#define LARGEST_BLOCK (1U << 24)
#define COMMENT_MAX 12 /* bytes; the tail of a record has room for them */
#define OPTION_MAX 255 /* a longer filter or name is truncated; readers only display it */

/* Bytes with a cursor; the buffers of the callers are large enough for the longest block. */
struct bytes {
    uint8_t *to;
    size_t size;
};

static void put(struct bytes *bytes, const void *from, size_t size) {
    memcpy(bytes->to + bytes->size, from, size);
    bytes->size += size;
}

static void put16(struct bytes *bytes, uint16_t value) { put(bytes, &value, 2); }
static void put32(struct bytes *bytes, uint32_t value) { put(bytes, &value, 4); }

static void pad(struct bytes *bytes, size_t size) {
    static const uint8_t zeros[3];
    put(bytes, zeros, (4 - (size & 3)) & 3);
}

static void put_option(struct bytes *bytes, uint16_t code, const void *value, size_t size) {
    put16(bytes, code);
    put16(bytes, (uint16_t)size);
    put(bytes, value, size);
    pad(bytes, size);
}

static void put_text_option(struct bytes *bytes, uint16_t code, const char *text) {
    if (text && *text) {
        put_option(bytes, code, text, strnlen(text, OPTION_MAX));
    }
}

/* Timestamps in options are two words, the high one first, as in packet blocks. */
static void put_time_option(struct bytes *bytes, uint16_t code, uint64_t ns) {
    const uint32_t words[2] = {(uint32_t)(ns >> 32), (uint32_t)ns};
    put_option(bytes, code, words, sizeof words);
}

static size_t begin_block(struct bytes *bytes, uint32_t type) {
    const size_t start = bytes->size;
    put32(bytes, type);
    put32(bytes, 0);
    return start;
}

/* Writes opt_endofopt and the block's length at both of its ends. */
static void end_block(struct bytes *bytes, size_t start) {
    put32(bytes, 0);
    const uint32_t size = (uint32_t)(bytes->size - start + 4);
    memcpy(bytes->to + start + 4, &size, 4);
    put32(bytes, size);
}

static void put_interface(struct bytes *bytes, const struct file_info *info) {
    const uint8_t nanoseconds = 9;
    const size_t start = begin_block(bytes, INTERFACE);
    put16(bytes, ETHERNET);
    put16(bytes, 0);
    put32(bytes, info->snaplen);
    put_text_option(bytes, 2, info->interface);   /* if_name */
    put_text_option(bytes, 3, info->description); /* if_description */
    put_option(bytes, 9, &nanoseconds, 1);        /* if_tsresol */
    if (info->filter && *info->filter) {          /* if_filter: code 0, pcap-filter(7) syntax */
        uint8_t filter[1 + OPTION_MAX] = {0};
        const size_t size = strnlen(info->filter, OPTION_MAX);
        memcpy(filter + 1, info->filter, size);
        put_option(bytes, 11, filter, 1 + size);
    }
    end_block(bytes, start);
}

size_t pcapng_interface(uint8_t to[FORMAT_HEAD_MAX], const struct file_info *info) {
    struct bytes bytes = {to, 0};
    put_interface(&bytes, info);
    return bytes.size;
}

static size_t pcapng_head(uint8_t to[FORMAT_HEAD_MAX], const struct file_info *info) {
    struct bytes bytes = {to, 0};
    const uint64_t unknown = UINT64_MAX;
    const size_t start = begin_block(&bytes, SECTION);
    put32(&bytes, BYTE_ORDER_MAGIC);
    put16(&bytes, 1);
    put16(&bytes, 0);
    put(&bytes, &unknown, sizeof unknown);
    put_text_option(&bytes, 4, info->program); /* shb_userappl */
    end_block(&bytes, start);
    put_interface(&bytes, info);
    return bytes.size;
}

static void put_identity(struct bytes *bytes, const struct frame *frame) {
    uint8_t value[sizeof IDENTITY_MARK - 1 + IDENTITY_BYTES] = IDENTITY_MARK;
    const uint64_t big[2] = {__builtin_bswap64(frame->identity[0]), __builtin_bswap64(frame->identity[1])};
    memcpy(value + sizeof IDENTITY_MARK - 1, big, sizeof big);
    put_option(bytes, IDENTITY_OPTION, value, sizeof value);
}

static void pcapng_record(struct record *to, const struct frame *frame) {
    struct bytes tail = {to->tail, 0};
    pad(&tail, frame->kept_bytes);
    if (frame->comment && !frame->identified) {
        put_option(&tail, 1, frame->comment, strnlen(frame->comment, COMMENT_MAX)); /* opt_comment */
    }
    put_option(&tail, 6, &frame->queue, 4); /* epb_queue */
    if (frame->identified) {
        put_identity(&tail, frame);
    } else if (frame->hashed) {
        uint8_t hash[5] = {2}; /* CRC32 */
        /* Most significant byte first, as it is printed. The draft does not specify the order. */
        for (unsigned i = 0; i < 4; ++i) {
            hash[1 + i] = (uint8_t)(frame->crc32 >> (24 - 8 * i));
        }
        put_option(&tail, 3, hash, sizeof hash); /* epb_hash */
    }
    if (frame->numbered) {
        const uint64_t number = frame->number;
        put_option(&tail, 5, &number, 8); /* epb_packetid */
    }
    put32(&tail, 0);
    const uint32_t size = PACKET_HEAD + frame->kept_bytes + (uint32_t)tail.size + 4;
    put32(&tail, size);
    const uint32_t words[7] = {PACKET,
                               size,
                               frame->interface,
                               (uint32_t)(frame->ts_ns >> 32),
                               (uint32_t)frame->ts_ns,
                               frame->kept_bytes,
                               frame->wire_bytes};
    memcpy(to->head, words, PACKET_HEAD);
    to->head_bytes = PACKET_HEAD;
    to->frame = frame;
    to->tail_bytes = (uint32_t)tail.size;
}

static size_t pcapng_tail(uint8_t to[FORMAT_TAIL_MAX], const struct interface_statistics *statistics) {
    struct bytes bytes = {to, 0};
    const size_t start = begin_block(&bytes, STATISTICS);
    put32(&bytes, 0);
    put32(&bytes, (uint32_t)(statistics->now_ns >> 32));
    put32(&bytes, (uint32_t)statistics->now_ns);
    put_time_option(&bytes, 2, statistics->first_ns);
    put_time_option(&bytes, 3, statistics->last_ns);
    put_option(&bytes, 4, &statistics->received, 8);  /* isb_ifrecv */
    put_option(&bytes, 6, &statistics->accepted, 8);  /* isb_filteraccept */
    put_option(&bytes, 7, &statistics->dropped, 8);   /* isb_osdrop */
    put_option(&bytes, 8, &statistics->delivered, 8); /* isb_usrdeliv */
    end_block(&bytes, start);
    return bytes.size;
}

static int64_t pcapng_size(const uint8_t *at, size_t have, bool *is_frame) {
    uint32_t words[2];
    if (have < sizeof words) {
        return 0;
    }
    memcpy(words, at, sizeof words);
    *is_frame = words[0] == PACKET;
    const bool known = words[0] == SECTION || words[0] == INTERFACE || words[0] == STATISTICS || *is_frame;
    const bool plausible = words[1] >= SMALLEST_BLOCK && words[1] <= LARGEST_BLOCK && words[1] % 4 == 0;
    return known && plausible ? (int64_t)words[1] : -1;
}

const struct format pcapng_format = {"pcapng", 0, pcapng_head, pcapng_record, pcapng_tail, pcapng_size};
