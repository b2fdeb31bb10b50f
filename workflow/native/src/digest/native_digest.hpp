// Engine native: one pass, without tshark.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "digest/digest_builder.hpp"
#include "digest/frame_reader.hpp"

namespace acapella {

class NativeDigest {
  public:
    // Parameters as in FrameReader and DigestBuilder.
    NativeDigest(const std::string& path, CapturePoint capture_point, std::size_t batch_rows,
                 const Vendors* vendors = nullptr, const input::DecompressionLimits& limits = {},
                 std::uint64_t memory_bytes = kUnlimited)
        : reader_(path, vendors, limits),
          builder_(reader_.keys(), reader_.header_stacks(), std::move(capture_point), batch_rows,
                   memory_bytes),
          batch_rows_(batch_rows) {}

    // Returns the next batch of the frame table; none at the end.
    std::optional<Batch> next_frames();
    // Returns rows of the flow table. Call after the last next_frames().
    Batch flow_rows(std::uint32_t first, std::uint32_t count) const {
        return builder_.flow_rows(first, count);
    }

    const FrameReader& reader() const { return reader_; }
    const DigestBuilder& builder() const { return builder_; }

  private:
    // Number of rows passed from one half to the other at a time, so that the flows of later rows are
    // prefetched while earlier ones are added.
    static constexpr std::size_t kRows = 64;

    void add_rows(std::size_t count);

    FrameReader reader_;
    DigestBuilder builder_;
    std::size_t batch_rows_;
    std::array<FrameRow, kRows> rows_;
    bool ended_ = false;
};

}  // namespace acapella
