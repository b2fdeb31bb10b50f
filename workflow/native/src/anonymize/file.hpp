// Anonymizes one capture.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "anonymize/pseudonyms/address_map.hpp"
#include "input/capture_reader.hpp"

namespace acapella {

class Vendors;

namespace anonymize {

// This file cannot be anonymized. what() is one line.
class AnonymizeError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// Writing failed. The caller adds the name of the output to the message. `number` is errno after a failed
// system call.
class WriteError : public AnonymizeError {
  public:
    WriteError(const std::string& text, int number) : AnonymizeError(text), number_(number) {}

    [[nodiscard]] int number() const { return number_; }

  private:
    int number_;
};

struct FileCounts {
    std::uint64_t frames = 0;
    std::uint64_t wire_bytes = 0;
    std::uint64_t captured_bytes = 0;
    std::uint64_t kept_bytes = 0;
    std::uint64_t cut_frames = 0;    // number of frames truncated further than in the input
    std::uint64_t empty_frames = 0;  // number of frames with captured bytes, all of which were removed
    std::uint64_t ts_out_of_range = 0;
    std::uint16_t link_type = 0;
    input::FileInfo info;  // of the input file
    // All replaced addresses, with their pseudonyms, sorted.
    std::vector<Pair<Ipv4>> ipv4;
    std::vector<Pair<Ipv6>> ipv6;
    std::vector<Pair<Mac>> macs;
};

// Reads the capture at `path` and writes the anonymized frames, with their lengths and timestamps, to
// `descriptor` as a pcap. The caller keeps ownership of the descriptor. Calls `progress`, which may throw,
// from time to time. Throws InputError if `path` is not a capture, AnonymizeError if its frames have
// different link types (a pcap has only one), and WriteError if writing fails.
FileCounts anonymize_file(const std::string& path, int descriptor, Key key, MacPolicy macs,
                          const Vendors* vendors, const std::function<void()>& progress,
                          const input::DecompressionLimits& limits = {});

}  // namespace anonymize
}  // namespace acapella
