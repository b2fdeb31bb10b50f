// The positions of frames. Input: the length of encoded positions, a step between selected frames, the
// encoded positions, and a plain or compressed capture. Without encoded positions, the target computes those
// of the capture, and the frames extracted with and without them must be identical. With any other positions,
// extraction must end with an error or an output.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "extract/extraction.hpp"
#include "input/input_error.hpp"

namespace {

using namespace acapella::input;
using acapella::Bytes;
using acapella::Record;
using acapella::extract::Extraction;
using acapella::extract::OutputFormat;
using acapella::extract::SelectedFrame;

// A few compressed bytes may expand to gigabytes of empty records.
constexpr std::uint64_t kMaxFrames = 4096;
constexpr std::uint64_t kUnlimited = std::uint64_t{1} << 40;  // bytes of positions per frame

void check(bool holds) {
    if (!holds) {
        std::abort();
    }
}

class MemoryFile {
  public:
    MemoryFile() : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) { check(descriptor_ >= 0); }
    MemoryFile(const MemoryFile&) = delete;
    MemoryFile& operator=(const MemoryFile&) = delete;
    ~MemoryFile() { ::close(descriptor_); }

    [[nodiscard]] int descriptor() const { return descriptor_; }
    [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }
    [[nodiscard]] std::vector<std::byte> content() const {
        std::vector<std::byte> bytes(static_cast<std::size_t>(::lseek(descriptor_, 0, SEEK_END)));
        check(::pread(descriptor_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
        return bytes;
    }

  private:
    int descriptor_;
};

struct Digest {
    std::string positions;
    std::vector<SelectedFrame> frames;
    bool complete = false;
};

// Reads a capture as a digest does, in the smallest pieces, and selects every `step`-th frame.
Digest digest(Bytes capture, std::uint64_t step) {
    const auto source = ByteSource::from_memory(capture, "input");
    PositionsBuilder builder(*source, kSmallestPiece);
    const auto reader = open_capture(*source, &builder);
    Digest result;
    Record record;
    while (record.frame < kMaxFrames && reader->next(record)) {
        builder.add(record.frame, source->offset());
        if (record.frame % step == 0) {
            const std::int64_t ts_ns = record.timed ? record.ts_ns : SelectedFrame::kNoTime;
            result.frames.push_back(
                {record.frame, ts_ns, record.wire_len, static_cast<std::uint32_t>(record.bytes.size())});
        }
    }
    result.complete = record.frame < kMaxFrames;
    result.positions = builder.finish(*source, reader->info().records, kUnlimited);
    return result;
}

std::vector<std::byte> extracted(const MemoryFile& capture, const Positions* positions,
                                 const std::vector<SelectedFrame>& frames) {
    const MemoryFile output;
    Extraction extraction(output.descriptor(), OutputFormat::pcapng);
    check(extraction.add(capture.path(), positions, frames, {}, [] {}));
    check(extraction.finish());
    return output.content();
}

// Positions of the capture itself: an InputError ends the program.
std::vector<std::byte> extract_valid(const MemoryFile& capture, const Positions* positions,
                                     const std::vector<SelectedFrame>& frames) noexcept {
    return extracted(capture, positions, frames);
}

void extract_with(const std::string& encoded, const MemoryFile& capture,
                  const std::vector<SelectedFrame>& frames) {
    const Positions positions =
        decode_positions({reinterpret_cast<const std::byte*>(encoded.data()), encoded.size()}, "input");
    const std::string encoded_again = encode(positions);
    const Positions decoded_again = decode_positions(
        {reinterpret_cast<const std::byte*>(encoded_again.data()), encoded_again.size()}, "input");
    check(encode(decoded_again) == encoded_again);
    extracted(capture, &positions, frames);
}

void run(Bytes input) {
    if (input.size() < 2) {
        return;
    }
    const auto size = std::min(std::to_integer<std::size_t>(input[0]), input.size() - 2);
    const std::uint64_t step = 1 + std::to_integer<std::uint64_t>(input[1]) % 8;
    const Bytes encoded = input.subspan(2, size);
    const Bytes content = input.subspan(2 + size);
    const MemoryFile capture;
    check(::write(capture.descriptor(), content.data(), content.size()) ==
          static_cast<ssize_t>(content.size()));
    const Digest digested = digest(content, step);
    if (!encoded.empty()) {
        extract_with({reinterpret_cast<const char*>(encoded.data()), encoded.size()}, capture,
                     digested.frames);
    } else if (digested.complete && !digested.positions.empty()) {
        const Positions positions = decode_positions(
            {reinterpret_cast<const std::byte*>(digested.positions.data()), digested.positions.size()},
            "input");
        check(encode(positions) == digested.positions);
        check(extract_valid(capture, &positions, digested.frames) ==
              extract_valid(capture, nullptr, digested.frames));
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    try {
        run({reinterpret_cast<const std::byte*>(data), size});
    } catch (const InputError& error) {
        check(!error.kind().empty());
    }
    return 0;
}
