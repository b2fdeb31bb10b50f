// Chooses the frames that tshark shall see, in one pass and without its answers, so that a file and a pipe
// give the same choice.
//
// Frames of a flow fall into kinds by the start and the length of their payload: most protocols say what a
// message is in its first bytes. A frame of a kind that the flow has not shown yet is sent, then a second one
// of the kind; all others take what their kind has shown. Encrypted payload has new first bytes all the time,
// so the new kinds of a flow have a budget, which grows with the frames of known kinds; after kMaxNewInARow
// new kinds in a row its payload is taken to say nothing, and only looked at again at growing distances.
#pragma once

#include <cstdint>

#include "containers/hash_index.hpp"
#include "containers/pool.hpp"
#include "containers/table_hash.hpp"
#include "frame/record.hpp"
#include "hybrid/policy.hpp"

namespace acapella::hybrid {

// Kinds that are remembered in all, flows not counted; a sample that shows more keeps one answer a flow for
// the rest.
inline constexpr std::uint32_t kMaxKinds = 1U << 19;

// Kinds stand in a tree: the flow itself, payloads of a length, of a length and a short start, and of a
// length and a longer start. A flow needs no row: its kind is its number with the upper bit.
inline constexpr std::uint32_t kFlowKind = 1U << 31;

struct Kind {
    enum class Level : std::uint8_t { length, start, long_start };

    std::uint32_t flow;
    std::uint32_t start;  // the first bytes of the payload
    std::uint32_t parent;
    Level level;
    std::uint8_t length_class;  // bits of the payload's length
    bool seen_twice = false;
};

struct Choice {
    std::uint32_t kind;  // a row of Selection::kind, or a flow's kind
    bool send;
};

class Selection {
  public:
    explicit Selection(SelectionPolicy policy, TableHash hash = TableHash()) : policy_(policy), hash_(hash) {}

    // The next frame that has something above its native headers. `flow` is any number that stands for the
    // flow; `payload` its captured and `payload_len` its wire bytes.
    Choice select(std::uint32_t flow, Bytes payload, std::uint32_t payload_len);

    // The flow's frame comes soon.
    void prefetch(std::uint32_t flow) const {
        if (flow < flows_.size()) __builtin_prefetch(&flows_[flow]);
    }

    std::uint32_t size() const { return kinds_.size(); }
    const Kind& kind(std::uint32_t row) const { return kinds_[row]; }

  private:
    // New kinds less frames of known ones, which may be the more by 32,768 at most.
    struct Budget {
        std::int16_t used = 0;

        bool allows(std::uint32_t kinds) const { return used < static_cast<std::int64_t>(kinds); }
        void add_new() {
            if (used < INT16_MAX) ++used;
        }
        void add_known() {
            if (used > INT16_MIN) --used;
        }
    };
    struct Flow {
        std::uint32_t frames = 0;
        Budget starts;
        Budget long_starts;
        std::uint8_t rechecks = 0;  // again
        std::uint8_t new_in_a_row = 0;
    };
    static_assert(sizeof(Flow) == 12);
    struct Lookup {
        std::uint64_t hash;
        std::uint32_t row;
    };

    Flow& flow_of(std::uint32_t number);
    bool due_for_recheck(Flow& flow) const;
    Choice select_by_length(std::uint32_t number, std::uint8_t length_class, bool send);
    std::uint64_t hash_of(std::uint32_t flow, std::uint32_t start, Kind::Level level,
                          std::uint8_t length) const;
    Lookup find(std::uint32_t flow, std::uint32_t start, Kind::Level level, std::uint8_t length) const;
    std::uint32_t add(const Lookup& lookup, const Kind& kind);

    SelectionPolicy policy_;
    TableHash hash_;
    Pool<Kind> kinds_;
    HashIndex index_;
    Pool<Flow> flows_;
};

}  // namespace acapella::hybrid
