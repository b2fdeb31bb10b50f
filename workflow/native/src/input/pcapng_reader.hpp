// The pcapng format, https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcapng/.
#pragma once

#include <cstdint>
#include <memory>

#include "input/capture_reader.hpp"

namespace acapella::input {

class PcapngReader final : public CaptureReader {
  public:
    // Returns true if `head` is the start of a section header block.
    static bool recognizes(Bytes head);

    // Reads the first section header. Throws InputError (cut_header, unsupported_version, bad_header).
    explicit PcapngReader(ByteSource& source, BlockObserver* observer = nullptr);

    bool next(Record& record) override;
    [[nodiscard]] Stored stored() override { return {source_.view(pending_), frame_, frame_wire_len_}; }

  private:
    // A block whose type and length were read and checked.
    struct Block {
        std::uint32_t type = 0;
        std::size_t size = 0;  // including type, both lengths and padding
    };

    enum class Outcome : std::uint8_t { frame, no_frame, stopped };

    bool read_block_head(Block& block);
    bool view_block(const Block& block, std::size_t fixed_size, Bytes& bytes);
    bool skip_block(const Block& block);
    bool trailer_agrees(const std::byte* at, const Block& block);
    Outcome read_block(const Block& block, Record& record);
    bool read_section(const Block& block);
    bool read_interface(const Block& block);
    Outcome read_packet(const Block& block, Record& record);
    Outcome read_simple_packet(const Block& block, Record& record);
    bool read_other(const Block& block);
    bool check_options(Bytes options, std::uint32_t block_type, Interface* interface);
    void set_time(Record& record, const Interface& interface, std::uint64_t ts);
    bool bad_block(const Block& block, const char* what);

    bool swapped_ = false;
    std::size_t section_base_ = 0;  // index of this section's first interface
    std::uint64_t pending_ = 0;     // length of the last block, not skipped yet because its view is in use
};

// Converts `ts`, in units of the interface, to nanoseconds since 1970, rounded down. Clamps to INT64_MAX or
// INT64_MIN if the result does not fit, and then sets `out_of_range`.
std::int64_t to_ns(std::uint64_t ts, const Interface& interface, bool& out_of_range);

}  // namespace acapella::input
