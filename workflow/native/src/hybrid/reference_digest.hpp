// Both tables as tshark alone has them, from its answers to a whole file that it read itself: what `acapella
// verify` compares a digest with. There is no inner_wire_len and no issue: tshark says neither.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "columns/tag_columns.hpp"
#include "digest/digest_builder.hpp"
#include "hybrid/tshark_output.hpp"

namespace acapella::hybrid {

class ReferenceDigest {
  public:
    // Takes over `tshark_output`, tshark's standard output; `timeout`, `while_waiting` as TsharkOutput.
    ReferenceDigest(int tshark_output, std::size_t batch_rows, Seconds timeout,
                    WhileWaiting while_waiting = nullptr)
        : tshark_output_(tshark_output, Layout::kFields, timeout, std::move(while_waiting)),
          builder_(keys_, header_stacks_, CapturePoint{}, batch_rows) {}

    // As NativeDigest. Throws TsharkOutputError, TsharkTimeout.
    std::optional<Batch> next_frames();
    // VLAN ids and MPLS labels of the frames that next_frames() gave last.
    Batch tags() { return tags_.take(); }
    Batch flow_rows(std::uint32_t first, std::uint32_t count) const {
        return builder_.flow_rows(first, count);
    }
    std::uint32_t flows() const { return builder_.flow_table().size(); }
    // Custom and journal blocks, which tshark lists as frames: they are left out, and not numbered.
    std::uint64_t blocks_not_frames() const { return blocks_not_frames_; }

  private:
    TsharkOutput tshark_output_;
    FlowKeys keys_;
    HeaderStacks header_stacks_;
    DigestBuilder builder_;
    TagColumns tags_;
    Dissection dissection_;
    std::uint64_t blocks_not_frames_ = 0;
};

}  // namespace acapella::hybrid
