#include "common/files/blocks.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/files/frame.h"

enum block { INTERFACE = 1, PACKET = 2, SIMPLE_PACKET = 3, ENHANCED_PACKET = 6, SECTION = 0x0a0d0d0a };
enum option { END_OF_OPTIONS = 0, TIME_RESOLUTION = 9, TIME_OFFSET = 14 };

#define BYTE_ORDER_MAGIC 0x1a2b3c4dU
#define BLOCK_HEAD 8
#define TRAILER 4
#define LARGEST_BLOCK (1U << 24)  /* limit of libpcap */
#define MAX_INTERFACES (1U << 20) /* in all sections of a file, as in capture_reader.hpp */
#define MICROSECONDS 6            /* the default resolution */
#define SECOND 1000000000

__extension__ typedef __int128 wide;
__extension__ typedef unsigned __int128 unsigned_wide;

struct interface {
    uint32_t link_type, snaplen; /* snaplen 0 is no limit */
    uint8_t exponent;            /* units of 10^-exponent s, or of 2^-exponent s */
    bool binary;
    int64_t offset_s;
};

struct blocks {
    gzFile file;
    bool swapped, in_section;
    struct interface *interface; /* of the current section */
    uint32_t interfaces, interface_capacity;
    uint32_t described; /* interfaces of all sections so far */
    uint8_t *body;      /* of the current block, including its trailer */
    uint32_t size, body_capacity;
};

struct blocks *blocks_open(gzFile file) {
    struct blocks *blocks = calloc(1, sizeof *blocks);
    if (blocks) {
        blocks->file = file;
    }
    return blocks;
}

void blocks_free(struct blocks *blocks) {
    if (blocks) {
        free(blocks->interface);
        free(blocks->body);
        free(blocks);
    }
}

static uint32_t read32(const struct blocks *blocks, const uint8_t *at) {
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return blocks->swapped ? __builtin_bswap32(value) : value;
}

static uint16_t read16(const struct blocks *blocks, const uint8_t *at) {
    uint16_t value;
    memcpy(&value, at, sizeof value);
    return blocks->swapped ? __builtin_bswap16(value) : value;
}

static uint64_t read64(const struct blocks *blocks, const uint8_t *at) {
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return blocks->swapped ? __builtin_bswap64(value) : value;
}

static uint32_t pad_size(uint32_t size) { return (size + 3) & ~3U; }

static enum blocks_result set_error(struct fault *fault, const char *problem) {
    fail(fault, "damaged pcapng: %s", problem);
    return BLOCKS_ERROR;
}

/* Returns BLOCKS_END at the end of the file, BLOCKS_TRUNCATED if it ends within the bytes, and BLOCKS_ERROR
 * if the compressed data is damaged. */
static enum blocks_result read_bytes(struct blocks *blocks, uint8_t *to, uint32_t size, struct fault *fault) {
    const int size_read = gzread(blocks->file, to, size);
    if (size_read == (int)size) {
        return BLOCKS_FRAME;
    }
    int code;
    const char *message = gzerror(blocks->file, &code);
    if (code != Z_OK && code != Z_BUF_ERROR && code != Z_STREAM_END) {
        fail(fault, "%.200s", message);
        return BLOCKS_ERROR;
    }
    return size_read <= 0 && code != Z_BUF_ERROR ? BLOCKS_END : BLOCKS_TRUNCATED;
}

/* Within a block, the end of the file means that the file is truncated. */
static enum blocks_result inside_block(enum blocks_result result) {
    return result == BLOCKS_END ? BLOCKS_TRUNCATED : result;
}

static bool reserve_body(struct blocks *blocks, uint32_t size) {
    if (size <= blocks->body_capacity) {
        return true;
    }
    uint8_t *larger = realloc(blocks->body, size);
    if (larger) {
        blocks->body = larger;
        blocks->body_capacity = size;
    }
    return larger != NULL;
}

/* The magic number, which follows the length, determines the byte order of a section. */
static enum blocks_result read_byte_order(struct blocks *blocks, uint8_t magic[4], struct fault *fault) {
    const enum blocks_result result = inside_block(read_bytes(blocks, magic, 4, fault));
    if (result != BLOCKS_FRAME) {
        return result;
    }
    uint32_t value;
    memcpy(&value, magic, sizeof value);
    if (value != BYTE_ORDER_MAGIC && value != __builtin_bswap32(BYTE_ORDER_MAGIC)) {
        return set_error(fault, "a section header without byte-order magic");
    }
    blocks->swapped = value != BYTE_ORDER_MAGIC;
    return BLOCKS_FRAME;
}

/* Reads one block into `body`, without its header. Returns BLOCKS_FRAME if the block is complete. */
static enum blocks_result read_block(struct blocks *blocks, uint32_t *type, struct fault *fault) {
    uint8_t head[BLOCK_HEAD], magic[4];
    enum blocks_result result = read_bytes(blocks, head, sizeof head, fault);
    if (result != BLOCKS_FRAME) {
        return result;
    }
    memcpy(type, head, sizeof *type); /* the type of a section is the same in both byte orders */
    const bool section = *type == SECTION;
    if (!section && !blocks->in_section) {
        return set_error(fault, "no section header");
    }
    if (section && (result = read_byte_order(blocks, magic, fault)) != BLOCKS_FRAME) {
        return result;
    }
    *type = read32(blocks, head);
    const uint32_t magic_bytes = section ? 4 : 0;
    const uint32_t length = read32(blocks, head + 4);
    /* some programs do not count the padding */
    if (length < BLOCK_HEAD + TRAILER + magic_bytes || length > LARGEST_BLOCK) {
        return set_error(fault, "the length of a block is out of range");
    }
    blocks->size = pad_size(length) - BLOCK_HEAD;
    if (!reserve_body(blocks, blocks->size)) {
        fail(fault, "out of memory");
        return BLOCKS_ERROR;
    }
    memcpy(blocks->body, magic, magic_bytes);
    result = inside_block(read_bytes(blocks, blocks->body + magic_bytes, blocks->size - magic_bytes, fault));
    if (result != BLOCKS_FRAME) {
        return result;
    }
    blocks->size -= TRAILER;
    return pad_size(read32(blocks, blocks->body + blocks->size)) == pad_size(length)
               ? BLOCKS_FRAME
               : set_error(fault, "the two lengths of a block differ");
}

static enum blocks_result read_section(struct blocks *blocks, struct fault *fault) {
    if (blocks->size < 16) {
        return set_error(fault, "a section header that is too short");
    }
    const uint16_t major = read16(blocks, blocks->body + 4), minor = read16(blocks, blocks->body + 6);
    if (major != 1 || (minor != 0 && minor != 2)) {
        fail(fault, "pcapng version %u.%u; versions 1.0 and 1.2 are supported", major, minor);
        return BLOCKS_ERROR;
    }
    blocks->in_section = true;
    blocks->interfaces = 0;
    return BLOCKS_FRAME;
}

static enum blocks_result read_options(const struct blocks *blocks, uint32_t at, struct interface *interface,
                                       struct fault *fault) {
    bool resolution_seen = false; /* if the option is repeated, the first applies, as in the native core */
    while (at < blocks->size) {
        if (blocks->size - at < 4) {
            return set_error(fault, "an interface option is truncated");
        }
        const uint16_t code = read16(blocks, blocks->body + at), size = read16(blocks, blocks->body + at + 2);
        if (code == END_OF_OPTIONS) {
            break;
        }
        at += 4;
        if (pad_size(size) > blocks->size - at) {
            return set_error(fault, "an interface option is truncated");
        }
        if (code == TIME_RESOLUTION && size == 1 && !resolution_seen) {
            resolution_seen = true;
            interface->exponent = blocks->body[at] & 0x7f;
            interface->binary = blocks->body[at] & 0x80;
        } else if (code == TIME_OFFSET && size == 8) {
            interface->offset_s = (int64_t)read64(blocks, blocks->body + at);
        }
        at += pad_size(size);
    }
    return BLOCKS_FRAME;
}

static enum blocks_result read_interface(struct blocks *blocks, struct fault *fault) {
    if (blocks->size < 8) {
        return set_error(fault, "an interface description that is too short");
    }
    if (blocks->described++ == MAX_INTERFACES) {
        fail(fault, "more than %u interfaces are described", MAX_INTERFACES);
        return BLOCKS_ERROR;
    }
    if (blocks->interfaces == blocks->interface_capacity) {
        const uint32_t capacity = blocks->interface_capacity * 2 + 4;
        struct interface *larger = realloc(blocks->interface, capacity * sizeof *larger);
        if (!larger) {
            fail(fault, "out of memory");
            return BLOCKS_ERROR;
        }
        blocks->interface = larger;
        blocks->interface_capacity = capacity;
    }
    struct interface *interface = &blocks->interface[blocks->interfaces++];
    *interface = (struct interface){.link_type = read16(blocks, blocks->body),
                                    .snaplen = read32(blocks, blocks->body + 4),
                                    .exponent = MICROSECONDS};
    return read_options(blocks, 8, interface, fault);
}

/* Converts to ns, rounded down; a time before 1677 or after 2262 becomes the nearest one in this range, as in
 * the native core. */
static int64_t to_ns(uint64_t units, const struct interface *interface) {
    enum { LONGEST_SHIFT = 94, LONGEST_POWER = 29 }; /* 2^64 of these units are less than 1 ns */
    unsigned_wide ns = 0;
    if (interface->binary) {
        ns = interface->exponent < LONGEST_SHIFT ? ((unsigned_wide)units * SECOND) >> interface->exponent : 0;
    } else if (interface->exponent < LONGEST_POWER) {
        ns = units;
        for (unsigned digit = interface->exponent; digit < 9; ++digit) {
            ns *= 10;
        }
        for (unsigned digit = 9; digit < interface->exponent; ++digit) {
            ns /= 10;
        }
    }
    const wide sum = (wide)ns + (wide)interface->offset_s * SECOND;
    return sum < INT64_MIN ? INT64_MIN : sum > INT64_MAX ? INT64_MAX : (int64_t)sum;
}

/* Sets the frame to `kept` bytes at offset `at` of the block. */
static enum blocks_result set_frame(const struct blocks *blocks, const struct interface *interface,
                                    uint32_t at, uint32_t kept, struct blocks_frame *frame,
                                    struct fault *fault) {
    if (kept > CAPTURE_FRAME_MAX) {
        fail(fault, "a frame of %u bytes; the limit is %d", kept, CAPTURE_FRAME_MAX);
        return BLOCKS_ERROR;
    }
    if (blocks->size < at || pad_size(kept) > blocks->size - at) {
        return set_error(fault, "a block that is too short for its frame");
    }
    frame->kept_bytes = kept;
    frame->link_type = interface->link_type;
    frame->interface = (uint32_t)(interface - blocks->interface);
    frame->bytes = blocks->body + at;
    return BLOCKS_FRAME;
}

/* Returns the identity in a packet's options, which begin at offset `at`, or NULL if there is none or the
 * options are damaged; the packet is read nevertheless. */
static const uint8_t *find_identity(const struct blocks *blocks, uint32_t at) {
    enum { MARK = sizeof IDENTITY_MARK - 1 };
    while (at < blocks->size && blocks->size - at >= 4) {
        const uint16_t code = read16(blocks, blocks->body + at), size = read16(blocks, blocks->body + at + 2);
        at += 4;
        if (code == END_OF_OPTIONS || pad_size(size) > blocks->size - at) {
            return NULL;
        }
        if (code == IDENTITY_OPTION && size == MARK + IDENTITY_BYTES &&
            memcmp(blocks->body + at, IDENTITY_MARK, MARK) == 0) {
            return blocks->body + at + MARK;
        }
        at += pad_size(size);
    }
    return NULL;
}

static enum blocks_result read_packet(const struct blocks *blocks, uint32_t type, struct blocks_frame *frame,
                                      struct fault *fault) {
    enum { FIXED = 20 };
    if (blocks->size < FIXED) {
        return set_error(fault, "a packet block that is too short");
    }
    const uint32_t index = type == PACKET ? read16(blocks, blocks->body) : read32(blocks, blocks->body);
    if (index >= blocks->interfaces) {
        return set_error(fault, "a packet of an interface without description");
    }
    const struct interface *interface = &blocks->interface[index];
    const uint64_t units =
        (uint64_t)read32(blocks, blocks->body + 4) << 32 | read32(blocks, blocks->body + 8);
    frame->ts_ns = to_ns(units, interface);
    frame->timed = true;
    frame->wire_bytes = read32(blocks, blocks->body + 16);
    const uint32_t kept = read32(blocks, blocks->body + 12);
    const enum blocks_result result = set_frame(blocks, interface, FIXED, kept, frame, fault);
    const bool has_options = result == BLOCKS_FRAME && type == ENHANCED_PACKET;
    frame->identity = has_options ? find_identity(blocks, FIXED + pad_size(kept)) : NULL;
    return result;
}

/* A simple packet belongs to the first interface and has no time. Its captured length is the smaller of its
 * length and the snap length. */
static enum blocks_result read_simple_packet(const struct blocks *blocks, struct blocks_frame *frame,
                                             struct fault *fault) {
    if (blocks->size < 4 || !blocks->interfaces) {
        return set_error(fault, "a simple packet that is too short, or without interface");
    }
    const struct interface *interface = &blocks->interface[0];
    const uint32_t wire = read32(blocks, blocks->body);
    frame->ts_ns = 0;
    frame->timed = false;
    frame->identity = NULL;
    frame->wire_bytes = wire;
    return set_frame(blocks, interface, 4,
                     interface->snaplen && interface->snaplen < wire ? interface->snaplen : wire, frame,
                     fault);
}

enum blocks_result blocks_next(struct blocks *blocks, struct blocks_frame *frame, struct fault *fault) {
    for (uint32_t type;;) {
        enum blocks_result result = read_block(blocks, &type, fault);
        if (result != BLOCKS_FRAME) {
            return result;
        }
        switch (type) {
            case SECTION:
                result = read_section(blocks, fault);
                break;
            case INTERFACE:
                result = read_interface(blocks, fault);
                break;
            case PACKET:
            case ENHANCED_PACKET:
                return read_packet(blocks, type, frame, fault);
            case SIMPLE_PACKET:
                return read_simple_packet(blocks, frame, fault);
            default: /* statistics, names, secrets, custom blocks */
                break;
        }
        if (result != BLOCKS_FRAME) {
            return result;
        }
    }
}
