// The second half of a digest: builds the frame table and the flow table from rows and their final header
// stacks.
#pragma once

#include <malloc.h>

#include <cstdint>
#include <string>

#include "columns/flow_columns.hpp"
#include "columns/frame_columns.hpp"
#include "containers/memory_limit.hpp"
#include "digest/summary.hpp"
#include "flow/flow_keys.hpp"
#include "flow/flow_table.hpp"
#include "frame/frame_row.hpp"
#include "frame/header_stacks.hpp"

namespace acapella {

// A frame's final header stack, and the source of its parts.
struct StackDecision {
    std::uint32_t stack;  // row of HeaderStacks, including the application
    L4By l4_by;
    AppBy app_by;
};

// Returns the decision without tshark: no application.
inline StackDecision native_decision(const FrameRow& row) {
    const bool sure = row.has(FrameRow::kSure);
    return {row.stack, sure ? L4By::kNative : L4By::kUnsure,
            sure && !row.has(FrameRow::kPayloadUndecoded) ? AppBy::kNative : AppBy::kUnidentified};
}

class DigestBuilder {
  public:
    // `memory_bytes` limits the memory of flows and header stacks.
    DigestBuilder(const FlowKeys& keys, const HeaderStacks& header_stacks, CapturePoint capture_point,
                  std::size_t batch_rows, std::uint64_t memory_bytes = kUnlimited)
        : keys_(keys),
          header_stacks_(header_stacks),
          memory_bytes_(memory_bytes),
          capture_point_(std::move(capture_point)),
          flow_table_(keys),
          frames_(header_stacks, batch_rows),
          flows_(keys, header_stacks, flow_table_, capture_point_) {}
    DigestBuilder(const DigestBuilder&) = delete;
    DigestBuilder& operator=(const DigestBuilder&) = delete;

    // Rows must be added in file order.
    void add(const FrameRow& row, const StackDecision& decision) {
        FrameApplication application;
        if (decision.app_by == AppBy::kTshark || decision.app_by == AppBy::kFlow)
            application = {header_stacks_.applications(decision.stack), decision.app_by == AppBy::kFlow};
        const std::uint32_t flow = flow_table_.add(row, decision.stack, application);
        frames_.add(row, decision.stack, flow, decision.l4_by, decision.app_by);
        summary_.add(row, decision.l4_by, decision.app_by);
    }

    bool full() const { return frames_.full(); }
    // Throws MemoryLimitError. The limit may be exceeded by one batch.
    Batch take_frames() {
        check_memory();
        return frames_.take();
    }
    // Call after the last row. Frees all memory used only for frames. The freed memory is too fragmented for
    // the flow table's columns, so it is returned to the system.
    void close_frames() {
        frames_.close();
        ::malloc_trim(0);
    }
    // Call after the last row.
    Batch flow_rows(std::uint32_t first, std::uint32_t count) const { return flows_.rows(first, count); }

    const Summary& summary() const { return summary_; }
    const FlowTable& flow_table() const { return flow_table_; }

  private:
    void check_memory() const {
        const std::uint64_t used = keys_.bytes() + flow_table_.bytes() + header_stacks_.bytes();
        if (used > memory_bytes_)
            throw MemoryLimitError("the tables of " + std::to_string(flow_table_.size()) + " flows and " +
                                   std::to_string(header_stacks_.size()) + " header stacks need " +
                                   std::to_string(used >> 20U) + " MiB at frame " +
                                   std::to_string(summary_.frames) + "; the limit is " +
                                   std::to_string(memory_bytes_ >> 20U) + " MiB");
    }

    const FlowKeys& keys_;
    const HeaderStacks& header_stacks_;
    std::uint64_t memory_bytes_;
    CapturePoint capture_point_;
    FlowTable flow_table_;
    FrameColumns frames_;
    FlowColumns flows_;
    Summary summary_;
};

}  // namespace acapella
