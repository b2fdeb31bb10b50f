// Arbitrary bytes as a capture file, plain or compressed: the readers must not read outside it, every frame
// must satisfy its documented properties, and the readers must terminate. The frames are written as pcapng
// and must be unchanged when read back.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "input/capture_reader.hpp"
#include "input/clock_resolution.hpp"
#include "input/input_error.hpp"
#include "input/link_types.hpp"
#include "input/pcapng_writer.hpp"

namespace {

using acapella::Record;
using namespace acapella::input;

// A few compressed bytes may expand to gigabytes of empty records.
constexpr std::uint64_t kMaxFrames = 4096;

void check(bool holds) {
    if (!holds) {
        std::abort();
    }
}

// Reads every byte, so that the sanitizer detects a view that is too long.
std::uint32_t sum(acapella::Bytes bytes) {
    std::uint32_t total = 0;
    for (const std::byte b : bytes) {
        total = total * 31 + std::to_integer<std::uint32_t>(b);
    }
    return total;
}

struct Digest {
    std::uint64_t frames = 0;
    std::uint32_t content = 0;
};

Digest read(ByteSource& source, PcapngWriter* writer) {
    const auto reader = open_capture(source);
    ClockResolution clock;
    Digest digest;
    Record record;
    while (digest.frames < kMaxFrames && reader->next(record)) {
        ++digest.frames;
        check(record.frame == digest.frames && record.frame == reader->info().records);
        check(record.bytes.size() <= max_captured_len(record.link_type));
        check(record.interface_id < reader->interfaces().size());
        check(reader->interfaces()[record.interface_id].link_type == record.link_type);
        digest.content =
            digest.content * 31 + sum(record.bytes) + sum(record.pseudo_header) + record.wire_len;
        // The writer's timestamps begin in 1970.
        digest.content += static_cast<std::uint32_t>(std::max<std::int64_t>(record.ts_ns, 0));
        clock.add(record.ts_ns);
        if (writer != nullptr) {
            check(writer->write(record));
        }
    }
    if (digest.frames > 0) {
        check(clock.resolution_ns() > 0);
    }
    if (digest.frames < kMaxFrames) {
        check((reader->info().end == FileEnd::clean) == reader->info().end_detail.empty());
        check(!reader->next(record));
    }
    return digest;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const int file = ::memfd_create("fuzz", MFD_CLOEXEC);
    check(file >= 0);
    try {
        const auto source =
            ByteSource::from_memory({reinterpret_cast<const std::byte*>(data), size}, "input");
        PcapngWriter writer(file);
        const Digest first = read(*source, &writer);
        check(writer.flush() && ::lseek(file, 0, SEEK_SET) == 0);
        const auto written = ByteSource::from_descriptor(file, "written");
        const Digest second = read(*written, nullptr);
        check(first.frames == second.frames && first.content == second.content);
    } catch (const InputError& error) {
        check(!error.kind().empty());
    }
    ::close(file);
    return 0;
}
