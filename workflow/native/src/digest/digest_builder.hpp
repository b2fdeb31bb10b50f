// The second half of a digest: rows with their final stacks in, both tables out.
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

// What was decided of a frame's header stack, and by whom.
struct StackDecision {
    std::uint32_t stack;  // HeaderStacks: everything, the application included
    L4By l4_by;
    AppBy app_by;
};

// Of the core alone: it names no application, and says where it is not sure.
inline StackDecision native_decision(const FrameRow& row) {
    const bool sure = row.has(FrameRow::kSure);
    return {row.stack, sure ? L4By::kNative : L4By::kUnsure,
            sure && !row.has(FrameRow::kPayloadUndecoded) ? AppBy::kNative : AppBy::kUnidentified};
}

class DigestBuilder {
  public:
    // `memory_bytes` limits what the tables of flows and header stacks take.
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

    // Rows in file order.
    void add(const FrameRow& row, const StackDecision& decision) {
        FrameApplication application;
        if (decision.app_by == AppBy::kTshark || decision.app_by == AppBy::kFlow)
            application = {header_stacks_.applications(decision.stack), decision.app_by == AppBy::kFlow};
        const std::uint32_t flow = flow_table_.add(row, decision.stack, application);
        frames_.add(row, decision.stack, flow, decision.l4_by, decision.app_by);
        summary_.add(row, decision.l4_by, decision.app_by);
    }

    bool full() const { return frames_.full(); }
    // Raises MemoryLimitError; a batch more is in memory by then.
    Batch take_frames() {
        check_memory();
        return frames_.take();
    }
    // Every row is in: gives up what only frames need. What they and others have freed lies in pieces that
    // the flow table's columns do not fit in, so it goes back to the system.
    void close_frames() {
        frames_.close();
        ::malloc_trim(0);
    }
    // Once every row is in.
    Batch flow_rows(std::uint32_t first, std::uint32_t count) const { return flows_.rows(first, count); }

    const Summary& summary() const { return summary_; }
    const FlowTable& flow_table() const { return flow_table_; }

  private:
    void check_memory() const {
        const std::uint64_t taken = keys_.bytes() + flow_table_.bytes() + header_stacks_.bytes();
        if (taken > memory_bytes_)
            throw MemoryLimitError("the tables of " + std::to_string(flow_table_.size()) + " flows and " +
                                   std::to_string(header_stacks_.size()) + " header stacks need " +
                                   std::to_string(taken >> 20U) + " MiB at frame " +
                                   std::to_string(summary_.frames) + ", " +
                                   std::to_string(memory_bytes_ >> 20U) + " MiB are allowed");
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
