// Writes frames of one link type to a pcap with nanosecond timestamps, in this machine's byte order.
#pragma once

#include <cstdint>
#include <string>

#include "frame/record.hpp"
#include "input/byte_sink.hpp"

namespace acapella::input {

// Once writing has failed (see ByteSink), write() and flush() return false.
class PcapWriter {
  public:
    // The caller keeps ownership of the descriptor.
    PcapWriter(int descriptor, std::uint16_t link_type);

    // The format supports timestamps from 1970 to 2106. Other timestamps are clamped and counted.
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
