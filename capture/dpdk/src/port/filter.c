#include "port/filter.h"

#define MAX_SNAPLEN 262144

int filter_compile(struct bpf_program *program, const char *text, struct fault *fault) {
    pcap_t *ethernet = pcap_open_dead(DLT_EN10MB, MAX_SNAPLEN);
    if (!ethernet) {
        return fail(fault, "filter: out of memory");
    }
    int status = pcap_compile(ethernet, program, text, 1, PCAP_NETMASK_UNKNOWN);
    if (status != 0) {
        status = fail(fault, "--filter %s: %s; see pcap-filter(7)", text, pcap_geterr(ethernet));
    }
    pcap_close(ethernet);
    return status;
}
