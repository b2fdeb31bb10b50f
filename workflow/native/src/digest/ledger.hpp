// The second half of a digest: rows with their final stacks in, both tables out.
#pragma once

#include <malloc.h>

#include <cstdint>
#include <string>

#include "columns/flow_columns.hpp"
#include "columns/frame_columns.hpp"
#include "containers/memory_limit.hpp"
#include "digest/summary.hpp"
#include "flow/accountant.hpp"
#include "flow/flow_keys.hpp"
#include "frame/frame_row.hpp"
#include "frame/stack_names.hpp"

namespace acapella {

// What was decided of a frame's header stack, and by whom.
struct Verdict {
    std::uint32_t stack;  // StackNames: everything, the application included
    L4By l4_by;
    AppBy app_by;
};

// Of the core alone: it names no application, and says where it is not sure.
inline Verdict native_verdict(const FrameRow& row) {
    const bool sure = row.has(FrameRow::kSure);
    return {row.stack, sure ? L4By::kNative : L4By::kUnsure,
            sure && !row.has(FrameRow::kOpenAbove) ? AppBy::kNative : AppBy::kNobody};
}

class Ledger {
  public:
    // `memory_bytes` limits what the tables of flows and header stacks take.
    Ledger(const FlowKeys& keys, const StackNames& names, Place place, std::size_t batch_rows,
           std::uint64_t memory_bytes = kUnlimited)
        : keys_(keys),
          names_(names),
          memory_bytes_(memory_bytes),
          place_(std::move(place)),
          accountant_(keys),
          frames_(names, batch_rows),
          flows_(keys, names, accountant_, place_) {}
    Ledger(const Ledger&) = delete;
    Ledger& operator=(const Ledger&) = delete;

    // Rows in file order.
    void add(const FrameRow& row, const Verdict& verdict) {
        FrameApplication application;
        if (verdict.app_by == AppBy::kTshark || verdict.app_by == AppBy::kFlow)
            application = {names_.applications(verdict.stack), verdict.app_by == AppBy::kFlow};
        const std::uint32_t flow = accountant_.add(row, verdict.stack, application);
        frames_.add(row, verdict.stack, flow, verdict.l4_by, verdict.app_by);
        summary_.add(row, verdict.l4_by, verdict.app_by);
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
    const Accountant& accountant() const { return accountant_; }

  private:
    void check_memory() const {
        const std::uint64_t taken = keys_.bytes() + accountant_.bytes() + names_.bytes();
        if (taken > memory_bytes_)
            throw MemoryLimitError("the tables of " + std::to_string(accountant_.size()) + " flows and " +
                                   std::to_string(names_.size()) + " header stacks take " +
                                   std::to_string(taken >> 20U) + " MiB by frame " +
                                   std::to_string(summary_.frames) + ", " +
                                   std::to_string(memory_bytes_ >> 20U) + " MiB are allowed");
    }

    const FlowKeys& keys_;
    const StackNames& names_;
    std::uint64_t memory_bytes_;
    Place place_;
    Accountant accountant_;
    FrameColumns frames_;
    FlowColumns flows_;
    Summary summary_;
};

}  // namespace acapella
