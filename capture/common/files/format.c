#include "common/files/format.h"

#include <string.h>

static bool ends_in(const char *text, const char *end) {
    const size_t size = strlen(text), end_size = strlen(end);
    return size > end_size && strcmp(text + size - end_size, end) == 0;
}

const struct format *format_of_path(const char *path) {
    return ends_in(path, ".pcapng") ? &pcapng_format : ends_in(path, ".pcap") ? &pcap_format : NULL;
}
