#include "common/files/capture_file.h"

#include <errno.h>
#include <pcap/pcap.h>
#include <stdlib.h>
#include <string.h>

#define GZIP_BUFFER (1U << 17)

struct capture_file {
    const char *path, *formats;
    gzFile file; /* closed by pcap if that is set */
    pcap_t *pcap;
    struct blocks *blocks; /* pcapng */
    bool truncated;
};

static ssize_t gzip_read(void *file, char *to, size_t size) {
    return gzread(file, to, size < (1U << 30) ? (unsigned)size : 1U << 30);
}

static int gzip_close(void *file) { return gzclose_r(file) == Z_OK ? 0 : -1; }

/* zlib returns the bytes of uncompressed files unchanged. */
static int open_file(struct capture_file *file, int descriptor, struct fault *fault) {
    const int input = descriptor < 0 && strcmp(file->path, "-") == 0 ? 0 : descriptor;
    errno = 0;
    file->file = input < 0 ? gzopen(file->path, "rbe") : gzdopen(input, "rb");
    if (!file->file) {
        return errno ? fail(fault, "%.200s: %s%s", file->path, strerror(errno), read_advice(errno))
                     : fail(fault, "%.200s: out of memory", file->path);
    }
    gzbuffer(file->file, GZIP_BUFFER);
    return 0;
}

/* Returns the error of a read: libpcap does not report damaged gzip data. */
static const char *read_error(const struct capture_file *file, const char *reported) {
    int code;
    gzerror(file->file, &code);
    return code == Z_DATA_ERROR ? "its gzip data is damaged" : reported;
}

static int check_frame(const struct capture_file *file, uint32_t link_type, uint32_t kept,
                       struct fault *fault) {
    if (link_type != DLT_EN10MB) {
        return fail(fault, "%.200s: link type %u; only Ethernet (1) is supported", file->path, link_type);
    }
    return kept > CAPTURE_FRAME_MAX ? fail(fault, "%.200s: a frame of %u bytes; the limit is %d", file->path,
                                           kept, CAPTURE_FRAME_MAX)
                                    : 0;
}

static int open_pcap(struct capture_file *file, struct fault *fault) {
    char message[PCAP_ERRBUF_SIZE] = "";
    const cookie_io_functions_t functions = {.read = gzip_read, .close = gzip_close};
    FILE *stream = fopencookie(file->file, "r", functions);
    if (!stream) {
        gzclose_r(file->file);
        file->file = NULL;
        return fail(fault, "%.200s: out of memory", file->path);
    }
    file->pcap = pcap_fopen_offline_with_tstamp_precision(stream, PCAP_TSTAMP_PRECISION_NANO, message);
    if (!file->pcap) {
        fail(fault, "%.200s: %.200s; %s", file->path, read_error(file, message), file->formats);
        fclose(stream);
        file->file = NULL;
        return -1;
    }
    return check_frame(file, (uint32_t)pcap_datalink(file->pcap), 0, fault);
}

static int open_format(struct capture_file *file, struct fault *fault) {
    const int first = gzgetc(file->file);
    if (first >= 0) {
        gzungetc(first, file->file);
    }
    if (first != BLOCKS_FIRST_BYTE) {
        return open_pcap(file, fault);
    }
    file->blocks = blocks_open(file->file);
    return file->blocks ? 0 : fail(fault, "%.200s: out of memory", file->path);
}

struct capture_file *capture_file_open(const char *path, int descriptor, const char *formats,
                                       struct fault *fault) {
    struct capture_file *file = calloc(1, sizeof *file);
    if (!file) {
        fail(fault, "%.200s: out of memory", path);
        return NULL;
    }
    file->path = path;
    file->formats = formats;
    if (open_file(file, descriptor, fault) != 0 || open_format(file, fault) != 0) {
        capture_file_close(file);
        return NULL;
    }
    return file;
}

static int read_pcap(struct capture_file *file, struct blocks_frame *frame, struct fault *fault) {
    struct pcap_pkthdr *head;
    const int status = pcap_next_ex(file->pcap, &head, &frame->bytes);
    if (status == PCAP_ERROR_BREAK) {
        return 0;
    }
    if (status != 1 && strstr(pcap_geterr(file->pcap), "truncated")) {
        file->truncated = true; /* keep the complete records */
        return 0;
    }
    if (status != 1) {
        return fail(fault, "%.200s: %.200s", file->path, read_error(file, pcap_geterr(file->pcap)));
    }
    /* tv_usec is in ns, as requested; libpcap sign-extends the 32 bits of seconds */
    frame->ts_ns = (int64_t)(uint32_t)head->ts.tv_sec * 1000000000 + head->ts.tv_usec;
    frame->timed = true;
    frame->wire_bytes = head->len;
    frame->kept_bytes = head->caplen;
    frame->link_type = DLT_EN10MB;
    frame->interface = 0;
    frame->identity = NULL;
    return 1;
}

static int read_pcapng(struct capture_file *file, struct blocks_frame *frame, struct fault *fault) {
    struct fault reported;
    switch (blocks_next(file->blocks, frame, &reported)) {
        case BLOCKS_END:
            return 0;
        case BLOCKS_TRUNCATED:
            file->truncated = true;
            return 0;
        case BLOCKS_ERROR:
            return fail(fault, "%.200s: %.200s", file->path, read_error(file, reported.text));
        default:
            return 1;
    }
}

int capture_file_next(struct capture_file *file, struct blocks_frame *frame, struct fault *fault) {
    const int status = file->blocks ? read_pcapng(file, frame, fault) : read_pcap(file, frame, fault);
    if (status == 1 && check_frame(file, frame->link_type, frame->kept_bytes, fault) != 0) {
        return -1;
    }
    if (status == 1 && frame->wire_bytes < frame->kept_bytes) {
        frame->wire_bytes = frame->kept_bytes;
    }
    return status;
}

bool capture_file_truncated(const struct capture_file *file) { return file->truncated; }

void capture_file_close(struct capture_file *file) {
    if (!file) {
        return;
    }
    blocks_free(file->blocks);
    if (file->pcap) {
        pcap_close(file->pcap);
    } else if (file->file) {
        gzclose_r(file->file);
    }
    free(file);
}
