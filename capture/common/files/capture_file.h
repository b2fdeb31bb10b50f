/* Reads the frames of a pcap or pcapng file, uncompressed or compressed with gzip. */
#ifndef ACAPELLA_CAPTURE_FILE_H
#define ACAPELLA_CAPTURE_FILE_H

#include "common/files/blocks.h"

/* Advice for files of other formats. */
#define CAPTURE_FILE_FORMATS "use a pcap or pcapng, uncompressed or compressed with gzip"

struct capture_file;

/* Opens a capture by descriptor, which is closed at the end, or by path if the descriptor is negative; path
 * "-" is standard input. `formats` is the advice for files of other formats. Returns NULL on error, see
 * fault. */
struct capture_file *capture_file_open(const char *path, int descriptor, const char *formats,
                                       struct fault *fault);

/* Reads the next Ethernet frame; its bytes are valid until the next call. Returns 1, 0 at the end or if the
 * file ends within a record, or -1 with the reason in fault. */
int capture_file_next(struct capture_file *file, struct blocks_frame *frame, struct fault *fault);

/* Returns true if the file ended within a record, for example because the program that wrote it was
 * killed. */
bool capture_file_truncated(const struct capture_file *file);

void capture_file_close(struct capture_file *file);

#endif
