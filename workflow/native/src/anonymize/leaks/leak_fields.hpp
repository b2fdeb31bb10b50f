// What the headers of a released frame may hold, by the lengths that RFCs give. The search for leaks reads
// headers here, apart from the code that keeps them.
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

// Offsets count from the frame's start.
struct HeaderFields {
    std::vector<std::size_t> ipv4;  // addresses that were captured whole
    std::vector<std::size_t> ipv6;
    std::vector<std::size_t> macs;
    std::vector<Range> headers;
    // In headers: unknown options, values of those with a wrong length, and what repeats beyond repeats.hpp.
    std::vector<Range> blank;

    void clear();
    // Adds those of one header.
    void read(const Record& record, const Step& step);

  private:
    HeaderLimits header_limits_;
};

}  // namespace acapella::anonymize
