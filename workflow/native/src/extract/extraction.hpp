// Copies selected frames of captures to a pcapng or pcap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "input/pcapng_writer.hpp"
#include "input/positions/piece_reader.hpp"
#include "input/positions/positions.hpp"

namespace acapella::extract {

// A frame and its values in the acap.
struct SelectedFrame {
    static constexpr std::int64_t kNoTime = INT64_MIN;

    std::uint64_t frame = 0;       // from 1
    std::int64_t ts_ns = kNoTime;  // kNoTime: null
    std::uint32_t wire_len = 0;
    std::uint32_t cap_len = 0;
};

enum class OutputFormat : std::uint8_t {
    pcapng,  // the blocks of pcapng captures are copied; frames of a pcap become enhanced packet blocks
    pcap,    // the records of one pcap are copied
};

// The blocks that describe the frames of the current section.
class SectionBlocks final : public input::BlockObserver {
  public:
    // Throws InputError if the blocks of a section have more than kMaxBytes.
    void on_block(std::uint64_t offset, Bytes bytes, bool first) override;

    // Sets the parts of the file that form the stream from now on: the last part contains the frames, and the
    // parts before it describe them. on_block() converts offsets in the stream to offsets in the file.
    void set_parts(const std::vector<input::PartsStream::Part>& parts);
    [[nodiscard]] std::uint64_t section() const { return section_; }  // offset of the section in the file
    [[nodiscard]] const std::vector<std::vector<std::byte>>& blocks() const { return blocks_; }

  private:
    static constexpr std::size_t kMaxBytes = std::size_t{64} << 20;

    std::uint64_t first_part_ = 0;  // offset in the file of the stream's first byte
    std::uint64_t last_part_ = 0;   // and of its last part, which begins at `last_begin_` in the stream
    std::uint64_t last_begin_ = 0;
    std::uint64_t section_ = 0;
    std::size_t bytes_ = 0;
    std::vector<std::vector<std::byte>> blocks_;
};

class Extraction {
  public:
    // The caller keeps ownership of the descriptor.
    Extraction(int descriptor, OutputFormat format)
        : writer_(descriptor, input::PcapngWriter::FileStart::none), format_(format) {}

    // Copies frames of a capture; `frames` must be sorted by number. Calls `progress`, which may throw, from
    // time to time. With positions, reads only the pieces that contain the frames. Without them, reads the
    // capture up to the last frame, and compares the values of the frames. Returns false if writing failed.
    // Throws InputError if the capture cannot be read or has changed, or the output cannot store its format.
    bool add(const std::string& path, const input::Positions* positions,
             std::span<const SelectedFrame> frames, const input::DecompressionLimits& limits,
             const std::function<void()>& progress);
    // Writes the buffer. An output without frames gets a header.
    bool finish();

    [[nodiscard]] int error_number() const { return writer_.error_number(); }

  private:
    bool write(input::CaptureReader& reader, const Record& record, const SectionBlocks& blocks);
    bool copy_blocks(const SectionBlocks& blocks);

    input::PcapngWriter writer_;
    OutputFormat format_;
    bool empty_ = true;
    std::optional<std::uint64_t> section_;  // the section of the current capture that was written last
    std::size_t blocks_written_ = 0;        // of that section
};

}  // namespace acapella::extract
