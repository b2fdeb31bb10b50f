// Engine native: one pass, nobody asked.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "digest/front_end.hpp"
#include "digest/ledger.hpp"

namespace acapella {

class NativeDigest {
  public:
    // As FrontEnd.
    NativeDigest(const std::string& path, Place place, std::size_t batch_rows,
                 const Vendors* vendors = nullptr, const input::DecompressionLimits& limits = {},
                 std::uint64_t memory_bytes = kUnlimited)
        : front_(path, vendors, limits),
          ledger_(front_.keys(), front_.names(), std::move(place), batch_rows, memory_bytes),
          batch_rows_(batch_rows) {}

    // The next rows of the frame table, as many as a batch holds; none at the end.
    std::optional<Batch> next_frames();
    // Rows of the flow table, once next_frames() has come to its end.
    Batch flow_rows(std::uint32_t first, std::uint32_t count) const {
        return ledger_.flow_rows(first, count);
    }

    const FrontEnd& front() const { return front_; }
    const Ledger& ledger() const { return ledger_; }

  private:
    // Rows between the two halves, so that the flows of later rows can be fetched while earlier ones are
    // booked.
    static constexpr std::size_t kRows = 64;

    void book_rows(std::size_t count);

    FrontEnd front_;
    Ledger ledger_;
    std::size_t batch_rows_;
    std::array<FrameRow, kRows> rows_;
    bool ended_ = false;
};

}  // namespace acapella
