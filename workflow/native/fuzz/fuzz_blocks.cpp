// Arbitrary bytes as a pcapng file, plain or compressed, for the reader of the C programs: it must not read
// outside a block, every frame must satisfy its documented properties, and the reader must reach the end.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" {
#include "common/files/blocks.h"
}

namespace {

// A few compressed bytes may expand to gigabytes of empty blocks.
constexpr std::uint64_t kMaxFrames = 4096;

void check(bool holds) {
    if (!holds) {
        std::abort();
    }
}

// Reads every byte, so that the sanitizer detects a view that is too long.
void read_bytes(const blocks_frame& frame) {
    volatile std::uint8_t last = 0;
    for (std::uint32_t i = 0; i < frame.kept_bytes; ++i) last = frame.bytes[i];
    static_cast<void>(last);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const int descriptor = ::memfd_create("fuzz", MFD_CLOEXEC);
    check(descriptor >= 0);
    check(::write(descriptor, data, size) == static_cast<ssize_t>(size));
    check(::lseek(descriptor, 0, SEEK_SET) == 0);
    gzFile file = gzdopen(descriptor, "rb");
    check(file != nullptr);
    gzbuffer(file, 4096);  // allocate as little as possible per input
    blocks* const reader = blocks_open(file);
    check(reader != nullptr);
    blocks_result result = BLOCKS_FRAME;
    for (std::uint64_t frames = 0; result == BLOCKS_FRAME && frames < kMaxFrames; ++frames) {
        blocks_frame frame{};
        fault reported{};
        result = blocks_next(reader, &frame, &reported);
        check((result == BLOCKS_ERROR) == (reported.text[0] != 0));
        if (result != BLOCKS_FRAME) break;
        check(frame.kept_bytes <= CAPTURE_FRAME_MAX && frame.ts_ns <= INT64_MAX);
        read_bytes(frame);
    }
    blocks_free(reader);
    gzclose_r(file);
    return 0;
}
