// Reports that somebody else writes into a ring, an RDMA NIC, without saying so: found by looking, and copied
// before they can be overwritten.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collector/report/report.hpp"

namespace acapella::collector {

// Reports come in the order of the slots. A slot holds a new one where its stamp is another than the last: in
// format 2 the report's sequence number, which tells too whether a slot was passed by (lost on the way) or
// written more than once since (overrun); in the published format, which has no such number, the time, so
// that neither can be told there.
class RingPoller {
  public:
    // `single_ring`: all reports of the program come to this ring, so that its sequence numbers have no
    // holes.
    RingPoller(const std::byte* ring, std::uint32_t slots, Format format, bool single_ring);

    // A batch of this size stays in a core's own cache until the flow table has read it.
    static constexpr std::uint32_t kBatch = 2048;

    // Copies at most `most` new reports to the end of `found`; returns how many. A report is taken when one
    // is there in the slot behind it, because a device's writes become visible in their order, or else at the
    // next call: before that its end may be on the way.
    std::uint32_t poll(std::vector<std::byte>& found, std::uint32_t most);

    std::uint64_t lost() const { return lost_; }
    std::uint64_t overrun() const { return overrun_; }

  private:
    // Beyond so many slots that did not come nothing is looked for before the next call.
    static constexpr std::uint32_t kLookAhead = 64;

    // Of a number below twice the slots; a division for every report would cost more than the copy.
    std::uint32_t wrapped(std::uint32_t slot) const { return slot < slots_ ? slot : slot - slots_; }
    bool find_new(std::uint32_t slot, std::uint64_t& stamp) const;
    bool append(std::uint32_t slot, std::vector<std::byte>& found, std::uint64_t& stamp) const;
    bool is_whole(std::uint32_t slot, std::uint64_t stamp);
    bool is_new(std::uint32_t slot, std::uint64_t stamp) const;
    void record_stamp(std::uint32_t slot, std::uint64_t stamp);
    void skip_slot(std::uint32_t slot);

    const std::byte* ring_;
    std::uint32_t slots_;
    Format format_;
    bool counts_;                       // sequence numbers tell what is missing
    std::vector<std::uint64_t> stamp_;  // by slot; where it counts, the sequence number that comes next
    std::uint32_t at_ = 0;
    bool any_ = false;
    std::uint64_t calls_ = 0;
    struct PendingReport {
        std::uint32_t slot = 0;
        std::uint64_t stamp = 0;
        std::uint64_t call = 0;
    };
    PendingReport pending_;  // the report that waits for the next call
    std::uint64_t lost_ = 0;
    std::uint64_t overrun_ = 0;
};

}  // namespace acapella::collector
