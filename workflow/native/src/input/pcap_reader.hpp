// The pcap format, https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcap/, and its historical variants.
#pragma once

#include <cstdint>
#include <memory>

#include "input/capture_reader.hpp"

namespace acapella::input {

class PcapReader final : public CaptureReader {
  public:
    // Returns true if the first 4 bytes are a magic number of this format.
    static bool recognizes(Bytes head);

    // Reads the file header. Throws InputError (cut_header, unsupported_version, bad_header).
    explicit PcapReader(ByteSource& source, BlockObserver* observer = nullptr);

    bool next(Record& record) override;
    [[nodiscard]] Stored stored() override { return {source_.view(pending_), frame_, frame_wire_len_}; }

    // Variants have different fields after the four common fields of a record header.
    enum class Variant : std::uint8_t { standard, patched, patched_smp, nokia };

  private:
    enum class LengthOrder : std::uint8_t { captured_first, captured_second, by_size };

    struct Header {
        std::uint32_t fraction;
        std::uint32_t seconds;
        std::uint32_t captured;
        std::uint32_t wire;
    };

    void read_file_header();
    void choose_variant(std::uint32_t magic);
    void set_lengths_order(std::uint16_t major, std::uint16_t minor);
    [[nodiscard]] Header decode(const std::byte* at) const;
    [[nodiscard]] bool fits_variant(Variant variant);

    bool swapped_ = false;
    LengthOrder length_order_ = LengthOrder::captured_first;
    std::uint16_t link_type_ = 0;
    std::uint32_t fraction_ns_ = 1000;
    std::uint32_t fractions_per_second_ = 1'000'000;
    std::uint32_t header_size_ = 16;
    std::uint32_t padding_ = 0;  // between record header and frame, counted in the lengths
    std::uint32_t max_captured_ = 0;
    std::uint32_t snaplen_ = UINT32_MAX;  // unlimited if the file has none
    std::uint64_t pending_ = 0;  // length of the last record, not skipped yet because its view is in use
};

}  // namespace acapella::input
