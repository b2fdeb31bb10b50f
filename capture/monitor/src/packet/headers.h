/* Finds the innermost headers of a packet: it skips VLAN tags, MPLS labels, pseudowires, VXLAN,
 * IP-in-IP and IPv6 extension headers. */
#ifndef ACAPELLA_HEADERS_H
#define ACAPELLA_HEADERS_H

#include <stdbool.h>
#include <stdint.h>

#define HEADERS_MAX 24 /* a packet with more nested headers is malformed */

/* Reasons why a packet is malformed. */
enum malformed {
    MALFORMED_NOT,
    MALFORMED_TRUNCATED, /* the packet ends within a header */
    MALFORMED_VERSION,   /* the version of an IP header differs from the preceding type or protocol field */
    MALFORMED_LENGTH,    /* a length field is shorter than its header, or exceeds the packet */
    MALFORMED_CHECKSUM,  /* of an IPv4 header (RFC 1071) */
    MALFORMED_NESTED,    /* more than HEADERS_MAX headers */
    MALFORMED_REASONS,
};

struct headers {
    enum malformed malformed;
    uint32_t payload_offset; /* first byte after the innermost header that was read */
    uint32_t end;            /* of the innermost IP packet, but not after the captured bytes */
    uint8_t ip_version;      /* of the innermost IP header; 0 without one */
    uint8_t protocol;        /* after the IP header and any IPv6 extension headers */
    bool has_ports;          /* of TCP, UDP or SCTP */
    uint16_t src_port, dst_port;
    uint32_t ip_at;     /* innermost IP header, if ip_version is not 0 */
    uint32_t link_at;   /* what follows the innermost EtherType */
    uint16_t ethertype; /* innermost */
};

/* Reads the headers of an Ethernet frame of `wire` bytes, of which `captured_bytes` are available. */
void headers_read(struct headers *headers, const uint8_t *bytes, uint32_t captured_bytes, uint32_t wire);

#endif
