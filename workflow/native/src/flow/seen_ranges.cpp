#include "flow/seen_ranges.hpp"

#include <algorithm>

namespace acapella {

std::uint64_t OlderRanges::merge(Range range) {
    const auto first = std::ranges::lower_bound(ranges_, range.begin, {}, &Range::end);
    auto last = first;
    std::uint64_t seen = 0;
    Range merged = range;
    for (; last != ranges_.end() && last->begin <= range.end; ++last) {
        const std::uint64_t begin = std::max(last->begin, range.begin);
        const std::uint64_t end = std::min(last->end, range.end);
        if (end > begin) seen += end - begin;
        merged = {std::min(merged.begin, last->begin), std::max(merged.end, last->end)};
    }
    if (first == last) {
        ranges_.insert(first, merged);
    } else {
        *first = merged;
        ranges_.erase(first + 1, last);
    }
    return seen;
}

}  // namespace acapella
