// The allowed content of headers in a released frame, with the lengths specified in RFCs. The leak search
// parses headers here, independently of the code that anonymizes them.
#pragma once

#include <cstddef>
#include <vector>

#include "anonymize/repeats.hpp"
#include "dissect/trace.hpp"
#include "frame/record.hpp"

namespace acapella::anonymize {

struct Range {
    std::size_t begin;
    std::size_t end;
};

// Offsets count from the start of the frame.
struct HeaderFields {
    std::vector<std::size_t> ipv4;  // completely captured addresses
    std::vector<std::size_t> ipv6;
    std::vector<std::size_t> macs;
    std::vector<Range> headers;
    // Parts of headers that must be zero: unknown options, values with an invalid length, and repetitions
    // beyond the limits in repeats.hpp.
    std::vector<Range> blank;

    void clear();
    // Adds the fields of one header.
    void read(const Record& record, const Step& step);

  private:
    HeaderLimits header_limits_;
};

}  // namespace acapella::anonymize
