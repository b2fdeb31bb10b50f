// VLAN ids, MPLS labels and tunnel identifiers of every frame of a capture, including frames without an IP
// header.
#pragma once

#include <optional>
#include <string>

#include "columns/tag_columns.hpp"
#include "digest/frame_reader.hpp"

namespace acapella {

class NativeTags {
  public:
    // `batch_rows`: maximum number of frames in a batch; other parameters as in FrameReader.
    NativeTags(const std::string& path, std::size_t batch_rows, const Vendors* vendors,
               const input::DecompressionLimits& limits = {})
        : reader_(path, vendors, limits), batch_rows_(batch_rows) {}

    // Returns the next batch; none at the end.
    std::optional<Batch> next_frames() {
        std::size_t rows = 0;
        for (FrameRow row; rows < batch_rows_ && reader_.next(row); ++rows)
            tags_.add(row.frame, reader_.dissection(), {});
        if (rows == 0) return std::nullopt;
        return tags_.take();
    }

  private:
    FrameReader reader_;
    std::size_t batch_rows_;
    TagColumns tags_;
};

}  // namespace acapella
