// The payload ranges that were already sent in one direction of a TCP connection. Positions are sequence
// numbers unwrapped to 64 bits: of all possible values, the one nearest to the end of the data sent so far
// (RFC 9293 section 3.4: comparisons modulo 2^32).
#pragma once

#include <cstdint>
#include <vector>

namespace acapella {

struct Range {
    std::uint64_t begin;
    std::uint64_t end;
};

// The ranges below the newest one, ascending and disjoint. Only flows with gaps have this list.
class OlderRanges {
  public:
    bool empty() const { return ranges_.empty(); }
    std::size_t size() const { return ranges_.size(); }
    const Range& last() const { return ranges_.back(); }
    void pop() { ranges_.pop_back(); }
    void push(Range range) { ranges_.push_back(range); }
    void pop_first() { ranges_.erase(ranges_.begin()); }

    // Merges `range` and returns the number of its positions that were already in the list. The merged range
    // must not reach the newest one.
    std::uint64_t merge(Range range);

  private:
    std::vector<Range> ranges_;
};

// Merges `added` into `newest` (the range with the highest end) and into the list returned by `older`.
// Returns the number of positions in `added` that were already sent. Calls `older` only when needed.
template <typename GetOlder>
std::uint64_t add_range(Range added, Range& newest, bool has_older, const GetOlder& older) {
    if (newest.begin == newest.end) {
        newest = added;
        return 0;
    }
    if (added.begin > newest.end) {
        older().push(newest);
        newest = added;
        return 0;
    }
    if (added.begin >= newest.begin) {
        const std::uint64_t seen = (added.end < newest.end ? added.end : newest.end) - added.begin;
        if (added.end > newest.end) newest.end = added.end;
        return seen;
    }
    std::uint64_t seen = 0;
    if (added.end >= newest.begin) {  // the gap below the newest range is filled
        seen = (added.end < newest.end ? added.end : newest.end) - newest.begin;
        if (added.end > newest.end) newest.end = added.end;
        added.end = newest.begin;
        newest.begin = added.begin;
        if (!has_older) return seen;
        OlderRanges& list = older();
        while (!list.empty() && list.last().end >= newest.begin) {
            const Range last = list.last();
            list.pop();
            const std::uint64_t begin = last.begin > added.begin ? last.begin : added.begin;
            if (last.end > begin) seen += last.end - begin;
            if (last.begin < newest.begin) newest.begin = last.begin;
        }
        return seen;
    }
    return older().merge(added);
}

}  // namespace acapella
