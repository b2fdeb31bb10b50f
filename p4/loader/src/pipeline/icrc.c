#include "pipeline/icrc.h"

#include <string.h>
#include <zlib.h>

#define ETHERNET 14
#define IPV4 20
#define UDP 8
#define BTH 12
#define ROCE_PORT 4791

enum { IP = ETHERNET, UDP_AT = ETHERNET + IPV4, BTH_AT = ETHERNET + IPV4 + UDP, HEADERS = BTH_AT + BTH };

static uint16_t get16(const uint8_t *from) { return (uint16_t)(from[0] << 8 | from[1]); }

bool p4_icrc_applies(const uint8_t *frame, uint32_t length) {
    return length >= HEADERS && get16(frame + 12) == 0x0800 && frame[IP] == 0x45 && frame[IP + 9] == 17 &&
           get16(frame + UDP_AT + 2) == ROCE_PORT;
}

/* Fields that routers and switches may change count as ones: 8 bytes for the LRH, ToS, TTL, both checksums,
 * and FECN, BECN and reserved bits of the BTH. */
void p4_icrc(const uint8_t *frame, uint32_t length, uint8_t to[ICRC_BYTES]) {
    uint8_t headers[8 + HEADERS - ETHERNET];
    uint8_t *ip = headers + 8, *udp = ip + IPV4, *bth = udp + UDP;
    memset(headers, 0xff, 8);
    memcpy(ip, frame + IP, HEADERS - ETHERNET);
    ip[1] = ip[8] = ip[10] = ip[11] = 0xff;
    udp[6] = udp[7] = 0xff;
    bth[4] = 0xff;
    const uLong value = crc32(crc32(0, headers, sizeof headers), frame + HEADERS, length - HEADERS);
    for (int i = 0; i < ICRC_BYTES; ++i) {
        to[i] = (uint8_t)(value >> 8 * i);
    }
}
