// Writes frames of any link types into one pcapng, nanosecond stamps, for another program to read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "frame/record.hpp"
#include "input/byte_sink.hpp"

namespace acapella::input {

// After a fault (ByteSink) this and all later calls return false, and error() says it.
class PcapngWriter {
  public:
    // Writes to a descriptor that stays the caller's; `timeout`, `while_waiting` as ByteSink.
    explicit PcapngWriter(int descriptor, std::chrono::milliseconds timeout = ByteSink::kNoTimeout,
                          ByteSink::WhileWaiting while_waiting = nullptr);
    PcapngWriter(const PcapngWriter&) = delete;
    PcapngWriter& operator=(const PcapngWriter&) = delete;

    // Stamps before 1970 are written as 1970-01-01: the format's own are unsigned.
    bool write(const Record& record);
    // Writes out what is buffered. Nothing is written on destruction, where nobody could learn that it
    // failed.
    bool flush() { return sink_.flush(); }

    [[nodiscard]] std::uint64_t frames() const { return frames_; }
    [[nodiscard]] int error_number() const { return sink_.error_number(); }  // errno; 0: none
    [[nodiscard]] std::string error() const { return sink_.error(); }

  private:
    std::uint32_t interface_of(std::uint16_t link_type);
    void put_block_head(std::uint32_t type, std::size_t size);

    ByteSink sink_;
    std::uint64_t frames_ = 0;
    std::uint32_t interfaces_ = 0;
    std::vector<std::uint32_t> interface_of_type_;  // by link type; kNoInterface: not described yet
};

}  // namespace acapella::input
