// One capture to what may leave the site.
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

// What cannot be done with this file. what() is one line.
class AnonymizeError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// The output's fault, whose name only the caller knows.
// `number` is errno after a failed system call.
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
    std::uint64_t cut_frames = 0;    // of which less was kept than was captured
    std::uint64_t empty_frames = 0;  // of which nothing was kept, though something was captured
    std::uint64_t ts_out_of_range = 0;
    std::uint16_t link_type = 0;
    input::FileInfo info;  // of the file that was read
    // Every address that was replaced, with its pseudonym, sorted.
    std::vector<Pair<Ipv4>> ipv4;
    std::vector<Pair<Ipv6>> ipv6;
    std::vector<Pair<Mac>> macs;
};

// Reads the capture at `path` ("-": standard input) and writes a pcap to `descriptor`, which stays the
// caller's: of the input its frames, their lengths and times, and nothing else. `progress`, which may throw,
// is called now and then. Raises InputError where `path` is no capture, AnonymizeError where it has frames of
// several link types (a pcap has one), WriteError where the descriptor does not take them.
FileCounts anonymize_file(const std::string& path, int descriptor, Key key, MacPolicy macs,
                          const Vendors* vendors, const std::function<void()>& progress,
                          const input::DecompressionLimits& limits = {});

}  // namespace anonymize
}  // namespace acapella
