// Writes frames of one link type into a pcap with nanosecond stamps, in this machine's byte order.
#pragma once

#include <cstdint>
#include <string>

#include "frame/record.hpp"
#include "input/byte_sink.hpp"

namespace acapella::input {

// After a fault (ByteSink) this and all later calls return false, and error() says it.
class PcapWriter {
  public:
    // Writes to a descriptor that stays the caller's.
    PcapWriter(int descriptor, std::uint16_t link_type);

    // The format's stamps are of 1970 to 2106; one outside is written as the nearest of these, and counted.
    bool write(const Record& record);
    bool flush() { return sink_.flush(); }

    [[nodiscard]] std::uint64_t ts_out_of_range() const { return ts_out_of_range_; }
    [[nodiscard]] int error_number() const { return sink_.error_number(); }
    [[nodiscard]] std::string error() const { return sink_.error(); }

  private:
    ByteSink sink_;
    std::uint64_t ts_out_of_range_ = 0;
};

}  // namespace acapella::input
