#include "command/input.h"

#include <errno.h>
#include <pcap/pcap.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "command/blocks.h"
#include "frame/plausible_time.hpp"

#define GZIP_BUFFER (1U << 17)

/* A capture and its next frame. */
struct source {
    const char *path;
    gzFile file; /* closed by pcap if that is set */
    pcap_t *pcap;
    struct blocks *blocks; /* pcapng */
    bool pending;
    bool cut; /* the file ended within a record */
    int end;  /* a byte is read from this descriptor after a complete capture; -1: none */
    struct p4_frame frame;
    uint64_t place_ns; /* time of the latest frame that has one, as in the digest's merge */
};

struct input {
    struct source source[P4_PORTS];
    unsigned count;
    uint8_t *bytes; /* bytes of the frames read at once */
    size_t size, room;
};

static ssize_t gzip_read(void *file, char *to, size_t size) {
    return gzread(file, to, size < (1U << 30) ? (unsigned)size : 1U << 30);
}

static int gzip_close(void *file) { return gzclose_r(file) == Z_OK ? 0 : -1; }

/* zlib passes on files that are not compressed. */
static int open_file(struct source *source, int descriptor, struct fault *fault) {
    const int open = descriptor < 0 && strcmp(source->path, "-") == 0 ? 0 : descriptor;
    errno = 0;
    source->file = open < 0 ? gzopen(source->path, "rbe") : gzdopen(open, "rb");
    if (!source->file) {
        return errno ? fail(fault, "%.200s: %s%s", source->path, strerror(errno), read_advice(errno))
                     : fail(fault, "%.200s: out of memory", source->path);
    }
    gzbuffer(source->file, GZIP_BUFFER);
    return 0;
}

/* Returns the error of a read: libpcap does not report damaged gzip data. */
static const char *read_error(const struct source *source, const char *reported) {
    int code;
    gzerror(source->file, &code);
    return code == Z_DATA_ERROR ? "its gzip data are damaged" : reported;
}

static int check_frame(const struct source *source, uint32_t link_type, uint32_t kept, struct fault *fault) {
    if (link_type != DLT_EN10MB) {
        return fail(fault, "%.200s: link type %u; only Ethernet (1) is supported", source->path, link_type);
    }
    return kept > P4_FRAME_MAX
               ? fail(fault, "%.200s: a frame of %u bytes; the limit is %d", source->path, kept, P4_FRAME_MAX)
               : 0;
}

static void set_time(struct p4_frame *frame, int64_t ts_ns, bool timed) {
    frame->untimed = !timed || ts_ns < 0 || ts_ns >= ACAPELLA_NO_PLAUSIBLE_NS;
    frame->ts_ns = ts_ns < 0 ? 0 : (uint64_t)ts_ns;
}

/* advance() for pcap. */
static int advance_pcap(struct source *source, struct p4_frame *frame, struct fault *fault) {
    struct pcap_pkthdr *head;
    const int got = pcap_next_ex(source->pcap, &head, &frame->bytes);
    if (got == PCAP_ERROR_BREAK) {
        return 0;
    }
    if (got != 1 && strstr(pcap_geterr(source->pcap), "truncated")) {
        source->cut = true; /* the capture program was killed: use the whole records */
        return 0;
    }
    if (got != 1) {
        return fail(fault, "%.200s: %.200s", source->path, read_error(source, pcap_geterr(source->pcap)));
    }
    /* tv_usec is in ns, as requested; libpcap sign-extends the 32 bits of seconds */
    set_time(frame, (int64_t)(uint32_t)head->ts.tv_sec * 1000000000 + head->ts.tv_usec, true);
    frame->wire_bytes = head->len;
    frame->kept_bytes = head->caplen;
    return check_frame(source, DLT_EN10MB, head->caplen, fault) < 0 ? -1 : 1;
}

/* advance() for pcapng. */
static int advance_blocks(struct source *source, struct p4_frame *frame, struct fault *fault) {
    struct blocks_frame found;
    struct fault reported;
    switch (p4_blocks_next(source->blocks, &found, &reported)) {
        case BLOCKS_END:
            return 0;
        case BLOCKS_TRUNCATED:
            source->cut = true;
            return 0;
        case BLOCKS_ERROR:
            return fail(fault, "%.200s: %.200s", source->path, read_error(source, reported.text));
        default:
            break;
    }
    set_time(frame, found.ts_ns, found.timed);
    frame->wire_bytes = found.wire_bytes;
    frame->kept_bytes = found.kept_bytes;
    frame->bytes = found.bytes;
    return check_frame(source, found.link_type, found.kept_bytes, fault) < 0 ? -1 : 1;
}

/* -1 if the program that writes to the descriptor was killed, so that the capture is not complete. */
static int check_end(const struct source *source, struct fault *fault) {
    char whole;
    ssize_t got = 1;
    if (source->end >= 0) {
        while ((got = read(source->end, &whole, 1)) < 0 && errno == EINTR) {
        }
    }
    return got == 1
               ? 0
               : fail(fault, "%.200s: the program that decompressed it was killed; run again", source->path);
}

/* Reads the next frame of a source; 0: end of the capture, -1: see fault. */
static int advance(struct source *source, unsigned port, struct fault *fault) {
    struct p4_frame frame = {.port = port};
    int status = source->blocks ? advance_blocks(source, &frame, fault) : advance_pcap(source, &frame, fault);
    if (status == 0 && check_end(source, fault) != 0) {
        status = -1;
    }
    source->pending = status == 1;
    if (frame.wire_bytes < frame.kept_bytes) {
        frame.wire_bytes = frame.kept_bytes;
    }
    source->frame = frame;
    if (source->pending && !frame.untimed) {
        source->place_ns = frame.ts_ns;
    }
    return status;
}

static int open_pcap(struct source *source, struct fault *fault) {
    char message[PCAP_ERRBUF_SIZE] = "";
    const cookie_io_functions_t functions = {.read = gzip_read, .close = gzip_close};
    FILE *stream = fopencookie(source->file, "r", functions);
    if (!stream) {
        gzclose_r(source->file);
        return fail(fault, "%.200s: out of memory", source->path);
    }
    source->pcap = pcap_fopen_offline_with_tstamp_precision(stream, PCAP_TSTAMP_PRECISION_NANO, message);
    if (!source->pcap) {
        fail(fault,
             "%.200s: %.200s; give a pcap or pcapng, plain or with gzip (acapella p4 run: also zstd, lz4)",
             source->path, read_error(source, message));
        fclose(stream);
        return -1;
    }
    return check_frame(source, (uint32_t)pcap_datalink(source->pcap), 0, fault);
}

static int open_source(struct source *source, const char *path, int descriptor, int end, unsigned port,
                       struct fault *fault) {
    source->path = path;
    source->end = end;
    if (open_file(source, descriptor, fault) != 0) {
        return -1;
    }
    const int first = gzgetc(source->file);
    if (first >= 0) {
        gzungetc(first, source->file);
    }
    if (first == BLOCKS_FIRST_BYTE) {
        source->blocks = p4_blocks_open(source->file);
        if (!source->blocks) {
            gzclose_r(source->file);
            return fail(fault, "%.200s: out of memory", path);
        }
    } else if (open_pcap(source, fault) != 0) {
        return -1;
    }
    return advance(source, port, fault) < 0 ? -1 : 0;
}

struct input *p4_input_open(const char *const paths[], const int descriptors[], const int ends[],
                            unsigned count, struct fault *fault) {
    struct input *input = calloc(1, sizeof *input);
    if (!input) {
        fail(fault, "out of memory");
        return NULL;
    }
    for (; input->count < count; ++input->count) {
        struct source *source = &input->source[input->count];
        if (open_source(source, paths[input->count], descriptors[input->count], ends[input->count],
                        input->count, fault) != 0) {
            ++input->count;
            p4_input_close(input);
            return NULL;
        }
    }
    return input;
}

/* Returns the source with the earliest frame; of equal times, the lower port. */
static struct source *earliest(struct input *input) {
    struct source *found = NULL;
    for (unsigned i = 0; i < input->count; ++i) {
        struct source *source = &input->source[i];
        if (source->pending && (!found || source->place_ns < found->place_ns)) {
            found = source;
        }
    }
    return found;
}

static bool keep_bytes(struct input *input, const struct p4_frame *frame) {
    if (input->room - input->size < frame->kept_bytes) {
        const size_t room = (input->room + frame->kept_bytes) * 2;
        uint8_t *wider = realloc(input->bytes, room);
        if (!wider) {
            return false;
        }
        input->bytes = wider;
        input->room = room;
    }
    if (frame->kept_bytes) {
        memcpy(input->bytes + input->size, frame->bytes, frame->kept_bytes);
    }
    input->size += frame->kept_bytes;
    return true;
}

int p4_input_read(struct input *input, struct p4_frame *frames, unsigned most, struct fault *fault) {
    unsigned count = 0;
    input->size = 0;
    for (struct source *source; count < most && (source = earliest(input)); ++count) {
        frames[count] = source->frame;
        if (!keep_bytes(input, &source->frame)) {
            return fail(fault, "%.200s: out of memory", source->path);
        }
        if (advance(source, (unsigned)(source - input->source), fault) < 0) {
            return -1;
        }
    }
    const uint8_t *at = input->bytes; /* it may have moved */
    for (unsigned i = 0; i < count; at += frames[i++].kept_bytes) {
        frames[i].bytes = at;
    }
    return (int)count;
}

bool p4_input_cut(const struct input *input, unsigned port) { return input->source[port].cut; }

void p4_input_close(struct input *input) {
    for (unsigned i = 0; i < input->count; ++i) {
        struct source *source = &input->source[i];
        if (source->pcap) {
            pcap_close(source->pcap);
        }
        if (source->blocks) {
            p4_blocks_free(source->blocks);
            gzclose_r(source->file);
        }
    }
    free(input->bytes);
    free(input);
}
