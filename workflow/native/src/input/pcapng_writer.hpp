// Writes frames of any link types to one pcapng with nanosecond timestamps, for another program to read, and
// copies blocks of other captures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "frame/record.hpp"
#include "input/byte_sink.hpp"
#include "input/capture_reader.hpp"

namespace acapella::input {

// Once writing has failed (see ByteSink), the functions that return bool return false.
class PcapngWriter {
  public:
    // The caller keeps ownership of the descriptor; `timeout` as in ByteSink.
    explicit PcapngWriter(int descriptor, std::chrono::milliseconds timeout = ByteSink::kNoTimeout,
                          ByteSink::WhileWaiting while_waiting = nullptr);
    // Without a section: the caller begins or copies one.
    enum class FileStart : std::uint8_t { none };
    PcapngWriter(int descriptor, FileStart /*none*/);
    PcapngWriter(const PcapngWriter&) = delete;
    PcapngWriter& operator=(const PcapngWriter&) = delete;

    // Timestamps before 1970 are written as 1970-01-01, because the format uses unsigned timestamps.
    bool write(const Record& record);

    // Begins a section in this machine's byte order, without interfaces. Without FileStart::none, the
    // constructor begins the first one.
    void begin_section();
    // Describes the only interface of a section, with its link type, snap length, FCS length and timestamp
    // resolution.
    void describe(const Interface& interface);
    // Writes a frame of that interface with its pseudo-header and FCS. `ts`: in units of the interface.
    bool write_stored(const CaptureReader::Stored& stored, std::uint64_t ts);
    // Writes bytes of another capture: whole blocks, or for `FileStart::none` any bytes.
    bool copy(Bytes bytes);

    // Writes the buffer. The destructor does not write it, because it could not report an error.
    bool flush() { return sink_.flush(); }

    [[nodiscard]] std::uint64_t frames() const { return frames_; }
    [[nodiscard]] int error_number() const { return sink_.error_number(); }  // errno; 0: none
    [[nodiscard]] std::string error() const { return sink_.error(); }

  private:
    std::uint32_t interface_of(std::uint16_t link_type);
    void put_block_head(std::uint32_t type, std::size_t size);
    void put_packet(std::uint32_t interface, std::uint64_t ts, std::uint32_t wire, Bytes pseudo_header,
                    Bytes bytes);

    ByteSink sink_;
    std::uint64_t frames_ = 0;
    std::uint32_t interfaces_ = 0;
    std::vector<std::uint32_t> interface_of_type_;  // by link type; kNoInterface: not written yet
};

}  // namespace acapella::input
