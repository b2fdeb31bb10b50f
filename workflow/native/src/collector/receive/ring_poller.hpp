// Finds reports that an RDMA NIC writes to a ring without notification, and copies them before they are
// overwritten.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collector/report/report.hpp"

namespace acapella::collector {

// Reports are written in slot order. A slot contains a new report if its stamp has changed. In format 2, the
// stamp is the report's sequence number. If all reports are written to one ring, it also shows whether a slot
// was skipped (lost) or overwritten (overrun). The published format has no sequence number, so the stamp is
// the time, and lost and overwritten reports cannot be detected.
class RingPoller {
  public:
    // `single_ring`: all reports of the program are written to this ring, so its sequence numbers have no
    // gaps.
    RingPoller(const std::byte* ring, std::uint32_t slots, Format format, bool single_ring);

    // A batch of this size stays in the CPU cache until the flow table has read it.
    static constexpr std::uint32_t kBatch = 2048;

    // Appends at most `max_reports` new reports to `found` and returns their number. A report is copied if
    // the next slot contains a new report, because the writes of a device become visible in order. Otherwise
    // it is copied at the next call, because its end may not have been written yet.
    std::uint32_t poll(std::vector<std::byte>& found, std::uint32_t max_reports);

    std::uint64_t lost() const { return lost_; }
    std::uint64_t overrun() const { return overrun_; }

  private:
    // Number of slots that are searched for a new report. The slots before it are skipped.
    static constexpr std::uint32_t kLookAhead = 64;

    // Wraps a number below twice the number of slots. A division per report would cost more than the copy.
    std::uint32_t wrapped(std::uint32_t slot) const { return slot < slots_ ? slot : slot - slots_; }
    bool find_new(std::uint32_t slot, std::uint64_t& stamp) const;
    bool append(std::uint32_t slot, std::vector<std::byte>& found, std::uint64_t& stamp) const;
    bool is_complete(std::uint32_t slot, std::uint64_t stamp);
    bool is_new(std::uint32_t slot, std::uint64_t stamp) const;
    void record_stamp(std::uint32_t slot, std::uint64_t stamp);
    void skip_slot(std::uint32_t slot);

    const std::byte* ring_;
    std::uint32_t slots_;
    Format format_;
    bool detects_gaps_;                 // sequence numbers show missing reports
    std::vector<std::uint64_t> stamp_;  // by slot; if gaps are detected, the next expected sequence number
    std::uint32_t at_ = 0;
    bool has_report_ = false;
    std::uint64_t calls_ = 0;
    struct PendingReport {
        std::uint32_t slot = 0;
        std::uint64_t stamp = 0;
        std::uint64_t call = 0;
    };
    PendingReport pending_;  // the report that is copied at the next call
    std::uint64_t lost_ = 0;
    std::uint64_t overrun_ = 0;
};

}  // namespace acapella::collector
