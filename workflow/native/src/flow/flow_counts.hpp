// Frame counts of flows: per application token, and per completed run of one header stack. Most flows have
// one token and no completed run, so each flow has one linked list for both, with the tokens first.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "containers/pool.hpp"

namespace acapella {

struct StackRun {
    std::uint32_t stack;
    std::uint64_t frames;
};

// Memory of a standard hash map. A node contains its entry, a pointer and a malloc header.
template <typename Map>
std::uint64_t map_bytes(const Map& map) {
    constexpr std::uint64_t kNode = sizeof(typename Map::value_type) + 16;
    return map.size() * kNode + map.bucket_count() * sizeof(void*);
}

class FlowCounts {
  public:
    static constexpr std::uint32_t kEnd = 0x7fffffff;  // an empty list

    // `list` is the head of a flow's list, initially kEnd. It changes if an entry is added at the front.
    void count_application(std::uint32_t& list, std::uint32_t token);
    void add_run(std::uint32_t& list, StackRun run);

    // Returns the tokens and the number of frames with each.
    std::vector<std::pair<std::uint32_t, std::uint64_t>> applications(std::uint32_t list) const;
    // Returns the runs, newest first.
    std::vector<StackRun> runs(std::uint32_t list) const;
    std::uint64_t bytes() const { return entries_.bytes() + map_bytes(carries_); }

  private:
    struct Entry {
        std::uint32_t id;         // a token or a stack
        std::uint32_t frames;     // low 32 bits; carries_ contains the high bits
        std::uint32_t next : 31;  // row of entries_, or kEnd
        std::uint32_t is_run : 1;
    };
    static_assert(sizeof(Entry) == 12);

    bool is_application(std::uint32_t row) const { return row != kEnd && !entries_[row].is_run; }
    std::uint32_t add(const Entry& entry) { return entries_.add(entry) & kEnd; }
    std::uint64_t frames(std::uint32_t row) const;

    Pool<Entry> entries_;
    std::unordered_map<std::uint32_t, std::uint64_t> carries_;  // by row
};

}  // namespace acapella
