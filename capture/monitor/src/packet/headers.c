#include "packet/headers.h"

#include "packet/cursor.h"

#define ETHERNET 14
#define TYPE_IPV4 0x0800
#define TYPE_IPV6 0x86dd
#define TYPE_MPLS 0x8847
#define TYPE_MPLS_MULTICAST 0x8848
#define VXLAN_PORT 4789 /* RFC 7348 */

/* The kind of header that follows. */
enum next { NEXT_ETHERNET, NEXT_TYPE, NEXT_IPV4, NEXT_IPV6, NEXT_TRANSPORT, NEXT_MPLS, NEXT_NONE };

struct walk {
    struct headers *headers;
    struct cursor at;
    uint32_t wire_left; /* bytes from the cursor to the end on the wire */
};

/* Ends the walk. A header that the capture truncated is not malformed. */
static enum next stop_truncated(struct walk *walk) {
    if (walk->wire_left <= walk->at.size - walk->at.at) {
        walk->headers->malformed = MALFORMED_TRUNCATED;
    }
    return NEXT_NONE;
}

static enum next stop_malformed(struct walk *walk, enum malformed reason) {
    walk->headers->malformed = reason;
    return NEXT_NONE;
}

static bool skip(struct walk *walk, uint32_t count) {
    if (!cursor_skip(&walk->at, count)) {
        return false;
    }
    walk->wire_left -= count < walk->wire_left ? count : walk->wire_left;
    walk->headers->payload_offset = walk->at.at;
    return true;
}

static enum next read_ethernet(struct walk *walk) {
    if (!cursor_has(&walk->at, ETHERNET)) {
        return stop_truncated(walk);
    }
    walk->headers->ethertype = cursor_be16(&walk->at, 12);
    skip(walk, ETHERNET);
    return NEXT_TYPE;
}

static bool is_vlan(uint16_t type) { return type == 0x8100 || type == 0x88a8 || type == 0x9100; }

static enum next read_type(struct walk *walk) {
    struct headers *headers = walk->headers;
    headers->link_at = walk->at.at;
    if (is_vlan(headers->ethertype)) {
        const uint16_t inner = cursor_be16(&walk->at, 2);
        if (!skip(walk, 4)) {
            return stop_truncated(walk);
        }
        headers->ethertype = inner;
        return NEXT_TYPE;
    }
    switch (headers->ethertype) {
        case TYPE_IPV4:
            return NEXT_IPV4;
        case TYPE_IPV6:
            return NEXT_IPV6;
        case TYPE_MPLS:
        case TYPE_MPLS_MULTICAST:
            return NEXT_MPLS;
        default:
            return NEXT_NONE;
    }
}

static bool is_known_type(uint16_t type) {
    return is_vlan(type) || type == TYPE_IPV4 || type == TYPE_IPV6 || type == TYPE_MPLS ||
           type == TYPE_MPLS_MULTICAST;
}

/* The payload of the label stack has no type field. Ethernet may be preceded by a control word, whose first 4
 * bits are 0 (RFC 4385); the first 4 bits of many MAC addresses are 0, too. */
static enum next after_labels(struct walk *walk) {
    struct headers *headers = walk->headers;
    headers->link_at = walk->at.at;
    switch (cursor_u8(&walk->at, 0) >> 4) {
        case 4:
            headers->ethertype = TYPE_IPV4;
            return NEXT_IPV4;
        case 6:
            headers->ethertype = TYPE_IPV6;
            return NEXT_IPV6;
        case 0:
            if (!is_known_type(cursor_be16(&walk->at, 12)) && !skip(walk, 4)) {
                return stop_truncated(walk);
            }
            return NEXT_ETHERNET;
        default:
            return NEXT_ETHERNET;
    }
}

static enum next read_mpls(struct walk *walk) {
    const bool bottom = cursor_u8(&walk->at, 2) & 1;
    if (!skip(walk, 4)) {
        return stop_truncated(walk);
    }
    return bottom ? after_labels(walk) : NEXT_MPLS;
}

/* Limits the walk to an IP packet of `length` bytes. Returns false if the frame on the wire is shorter. */
static bool limit_to_packet(struct walk *walk, uint32_t length) {
    if (length > walk->wire_left) {
        return false;
    }
    cursor_limit(&walk->at, length);
    walk->wire_left = length;
    walk->headers->end = walk->at.size;
    return true;
}

/* Returns true if the checksum of an IPv4 header is correct (RFC 1071). */
static bool is_checksum_correct(const struct cursor *at, uint32_t header) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < header; i += 4) {
        uint32_t word;
        memcpy(&word, at->bytes + at->at + i, sizeof word);
        sum += word;
    }
    sum = (sum & 0xffffffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return sum == 0xffff;
}

static enum next after_ip(uint8_t protocol) {
    switch (protocol) {
        case 4:
            return NEXT_IPV4;
        case 41:
            return NEXT_IPV6;
        case 6:
        case 17:
        case 132:
            return NEXT_TRANSPORT;
        default:
            return NEXT_NONE;
    }
}

static enum next read_ipv4(struct walk *walk) {
    struct headers *headers = walk->headers;
    if (!cursor_has(&walk->at, 20)) {
        return stop_truncated(walk);
    }
    const uint8_t first = cursor_u8(&walk->at, 0);
    const uint32_t header = (first & 0x0fU) * 4, total = cursor_be16(&walk->at, 2);
    if (first >> 4 != 4) {
        return stop_malformed(walk, MALFORMED_VERSION);
    }
    if (header < 20 || total < header) {
        return stop_malformed(walk, MALFORMED_LENGTH);
    }
    if (!cursor_has(&walk->at, header)) {
        return stop_truncated(walk);
    }
    headers->ip_version = 4;
    headers->has_ports = false; /* clears those of an outer UDP header (VXLAN) */
    headers->ip_at = walk->at.at;
    headers->protocol = cursor_u8(&walk->at, 9);
    headers->malformed = is_checksum_correct(&walk->at, header) ? headers->malformed : MALFORMED_CHECKSUM;
    const bool fragment = cursor_be16(&walk->at, 6) & 0x1fff;
    const bool fits = limit_to_packet(walk, total);
    skip(walk, header);
    if (!fits) {
        return stop_malformed(walk, MALFORMED_LENGTH);
    }
    return fragment ? NEXT_NONE : after_ip(headers->protocol);
}

/* Skips extension headers (RFC 8200, section 4.1) and AH (RFC 4302). */
static enum next read_extensions(struct walk *walk) {
    struct headers *headers = walk->headers;
    for (unsigned count = 0; count < HEADERS_MAX; ++count) {
        const uint8_t next = cursor_u8(&walk->at, 0), units = cursor_u8(&walk->at, 1);
        const uint16_t offset = cursor_be16(&walk->at, 2);
        uint32_t length = 8;
        switch (headers->protocol) {
            case 0:
            case 43:
            case 60:
                length = (units + 1U) * 8;
                break;
            case 44:
                break;
            case 51:
                length = (units + 2U) * 4;
                break;
            default:
                return after_ip(headers->protocol);
        }
        const bool fragment = headers->protocol == 44 && (offset & 0xfff8);
        if (!skip(walk, length)) {
            return stop_truncated(walk);
        }
        headers->protocol = next;
        if (fragment) {
            return NEXT_NONE;
        }
    }
    return stop_malformed(walk, MALFORMED_NESTED);
}

static enum next read_ipv6(struct walk *walk) {
    struct headers *headers = walk->headers;
    if (!cursor_has(&walk->at, 40)) {
        return stop_truncated(walk);
    }
    if (cursor_u8(&walk->at, 0) >> 4 != 6) {
        return stop_malformed(walk, MALFORMED_VERSION);
    }
    headers->ip_version = 6;
    headers->has_ports = false;
    headers->ip_at = walk->at.at;
    headers->protocol = cursor_u8(&walk->at, 6);
    const bool fits = limit_to_packet(walk, 40U + cursor_be16(&walk->at, 4));
    skip(walk, 40);
    return fits ? read_extensions(walk) : stop_malformed(walk, MALFORMED_LENGTH);
}

/* Reads the ports. A VXLAN tunnel contains an Ethernet frame. */
static enum next read_transport(struct walk *walk) {
    struct headers *headers = walk->headers;
    const bool udp = headers->protocol == 17, tcp = headers->protocol == 6;
    uint32_t header = udp ? 8 : tcp ? 20 : 12;
    if (!cursor_has(&walk->at, header)) {
        return stop_truncated(walk);
    }
    headers->src_port = cursor_be16(&walk->at, 0);
    headers->dst_port = cursor_be16(&walk->at, 2);
    headers->has_ports = true;
    const uint32_t length = cursor_be16(&walk->at, 4);
    if (tcp) {
        header = (cursor_u8(&walk->at, 12) >> 4) * 4U;
    }
    if ((tcp && header < 20) || (udp && (length < 8 || length > walk->wire_left))) {
        return stop_malformed(walk, MALFORMED_LENGTH);
    }
    if (!skip(walk, header)) {
        return stop_truncated(walk);
    }
    if (udp && headers->dst_port == VXLAN_PORT && cursor_has(&walk->at, 8 + ETHERNET) &&
        cursor_u8(&walk->at, 0) == 0x08) {
        skip(walk, 8);
        return NEXT_ETHERNET;
    }
    return NEXT_NONE;
}

static enum next read_next(struct walk *walk, enum next next) {
    switch (next) {
        case NEXT_ETHERNET:
            return read_ethernet(walk);
        case NEXT_TYPE:
            return read_type(walk);
        case NEXT_MPLS:
            return read_mpls(walk);
        case NEXT_IPV4:
            return read_ipv4(walk);
        case NEXT_IPV6:
            return read_ipv6(walk);
        case NEXT_TRANSPORT:
            return read_transport(walk);
        default:
            return NEXT_NONE;
    }
}

void headers_read(struct headers *headers, const uint8_t *bytes, uint32_t captured_bytes, uint32_t wire) {
    struct walk walk = {headers, {bytes, captured_bytes, 0}, wire};
    enum next next = NEXT_ETHERNET;
    *headers = (struct headers){.end = captured_bytes};
    for (unsigned count = 0; next != NEXT_NONE; ++count) {
        if (count == HEADERS_MAX) {
            headers->malformed = MALFORMED_NESTED;
            return;
        }
        next = read_next(&walk, next);
    }
}
