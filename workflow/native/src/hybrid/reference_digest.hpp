// Creates both tables from tshark's output alone, for a whole file that tshark read itself. `acapella verify`
// compares digests with them. They contain no inner_wire_len, and no dissection errors in issue, because
// tshark prints neither.
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
    // Takes ownership of `tshark_output`, the standard output of tshark. `timeout` and `while_waiting` as in
    // TsharkOutput.
    ReferenceDigest(int tshark_output, std::size_t batch_rows, Seconds timeout,
                    WhileWaiting while_waiting = nullptr)
        : tshark_output_(tshark_output, Layout::kFields, timeout, std::move(while_waiting)),
          builder_(keys_, header_stacks_, CapturePoint{}, batch_rows) {}

    // As in NativeDigest. Throws TsharkOutputError, TsharkTimeout.
    std::optional<Batch> next_frames();
    // Returns the tag columns of the batch that next_frames() returned last.
    Batch tags() { return tags_.take(); }
    Batch flow_rows(std::uint32_t first, std::uint32_t count) const {
        return builder_.flow_rows(first, count);
    }
    std::uint32_t flows() const { return builder_.flow_table().size(); }
    // Number of blocks without a frame (custom, journal, sysdig), which tshark lists as frames. They are
    // skipped and not numbered.
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
