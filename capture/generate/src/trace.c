#include "trace.h"

#include "common/files/capture_file.h"
#include "common/signals.h"

int trace_write(FILE *to, const char *path, struct fault *fault) {
    struct capture_file *file = capture_file_open(path, -1, CAPTURE_FILE_FORMATS, fault);
    if (!file) {
        return -1;
    }
    struct blocks_frame frame;
    int status = 0;
    while (!received_signal && (status = capture_file_next(file, &frame, fault)) == 1) {
        const int64_t pair[2] = {frame.ts_ns, frame.wire_bytes};
        if (frame.timed && fwrite(pair, sizeof pair, 1, to) != 1) {
            status = fail(fault, "standard output cannot be written");
            break;
        }
    }
    if (received_signal) {
        status = fail(fault, "%.200s: interrupted by %s", path, signal_name());
    }
    capture_file_close(file);
    return status;
}
