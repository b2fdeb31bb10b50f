#include "pipeline/icrc.h"

#include <string.h>

#define ETHERNET 14
#define IPV4 20
#define UDP 8
#define BTH 12
#define ROCE_PORT 4791
#define POLYNOMIAL 0xedb88320U /* polynomial of Ethernet, reflected */

enum { IP = ETHERNET, UDP_AT = ETHERNET + IPV4, BTH_AT = ETHERNET + IPV4 + UDP, HEADERS = BTH_AT + BTH };

static uint32_t crc_table[256];

static void __attribute__((constructor)) fill_table(void) {
    for (uint32_t i = 0; i < 256; ++i) {
        uint32_t value = i;
        for (int bit = 0; bit < 8; ++bit) {
            value = value & 1 ? value >> 1 ^ POLYNOMIAL : value >> 1;
        }
        crc_table[i] = value;
    }
}

static uint32_t crc(uint32_t value, const uint8_t *bytes, uint32_t count) {
    while (count--) {
        value = value >> 8 ^ crc_table[(value ^ *bytes++) & 0xff];
    }
    return value;
}

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
    const uint32_t value = ~crc(crc(UINT32_MAX, headers, sizeof headers), frame + HEADERS, length - HEADERS);
    for (int i = 0; i < ICRC_BYTES; ++i) {
        to[i] = (uint8_t)(value >> 8 * i);
    }
}
