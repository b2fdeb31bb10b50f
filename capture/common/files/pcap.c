/* pcap with timestamps in ns (draft-ietf-opsawg-pcap), in the byte order of this machine. */
#include <string.h>

#include "common/files/format.h"

#define MAGIC_NS 0xa1b23c4dU
#define ETHERNET 1
#define NO_LIMIT 262144 /* the snap length that tcpdump and Wireshark write for whole frames */
#define SECOND 1000000000ULL
#define RECORD_HEAD 16
#define FILE_HEAD 24

static size_t pcap_head(uint8_t to[FORMAT_HEAD_MAX], const struct file_info *info) {
    const uint16_t version[2] = {2, 4};
    const uint32_t words[5] = {0, 0, info->snaplen ? info->snaplen : NO_LIMIT, ETHERNET, 0};
    const uint32_t magic = MAGIC_NS;
    memcpy(to, &magic, 4);
    memcpy(to + 4, version, 4);
    memcpy(to + 8, words, 16);
    return FILE_HEAD;
}

static void pcap_record(struct record *to, const struct frame *frame) {
    const uint32_t words[4] = {(uint32_t)(frame->ts_ns / SECOND), (uint32_t)(frame->ts_ns % SECOND),
                               frame->kept_bytes, frame->wire_bytes};
    memcpy(to->head, words, RECORD_HEAD);
    to->head_bytes = RECORD_HEAD;
    to->frame = frame;
    to->tail_bytes = 0;
}

static size_t pcap_tail(uint8_t to[FORMAT_TAIL_MAX], const struct interface_statistics *statistics) {
    (void)to;
    (void)statistics;
    return 0;
}

static int64_t pcap_size(const uint8_t *at, size_t have, bool *is_frame) {
    uint32_t words[4];
    *is_frame = true;
    if (have < RECORD_HEAD) {
        return 0;
    }
    memcpy(words, at, RECORD_HEAD);
    const bool plausible = words[1] < SECOND && words[2] <= words[3] && words[3] != 0;
    return plausible ? (int64_t)RECORD_HEAD + words[2] : -1;
}

const struct format pcap_format = {"pcap", FILE_HEAD, pcap_head, pcap_record, pcap_tail, pcap_size};
