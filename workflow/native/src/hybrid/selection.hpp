// Selects the frames that are sent to tshark, in one pass and without tshark's output, so that the selection
// is the same for a file and a pipe.
//
// The frames of a flow are divided into kinds by the start and the length of their payload, because most
// protocols identify a message in its first bytes. The first two frames of each kind in a flow are sent, and
// the application found in them is assigned to the others. Encrypted payload nearly always starts with new
// bytes. So each flow has a budget of new kinds, which grows with frames of known kinds. After kMaxNewInARow
// consecutive new kinds, its payload is considered random, and frames are sent only at increasing intervals.
#pragma once

#include <cstdint>

#include "containers/hash_index.hpp"
#include "containers/pool.hpp"
#include "containers/table_hash.hpp"
#include "frame/record.hpp"
#include "hybrid/policy.hpp"

namespace acapella::hybrid {

// Maximum number of stored kinds, not counting flows. If a sample has more kinds, the others use the
// application of a kind that contains them, such as the flow.
inline constexpr std::uint32_t kMaxKinds = 1U << 19;

// Kinds form a tree: the flow, payloads of one length class, of one length class and short start, of one
// length class and longer start. A flow needs no row: its kind is its number with the highest bit set.
inline constexpr std::uint32_t kFlowKind = 1U << 31;

struct Kind {
    enum class Level : std::uint8_t { length, start, long_start };

    std::uint32_t flow;
    std::uint32_t start;  // the first bytes of the payload
    std::uint32_t parent;
    Level level;
    std::uint8_t length_class;  // bit width of the payload's length
    bool seen_twice = false;
};

struct Choice {
    std::uint32_t kind;  // a row of Selection::kind, or a flow's kind
    bool send;
};

class Selection {
  public:
    explicit Selection(SelectionPolicy policy, TableHash hash = TableHash()) : policy_(policy), hash_(hash) {}

    // Selects or skips the next frame with payload above its native headers. `flow` is any number that
    // identifies the flow, `payload` contains the captured bytes, and `payload_len` is the length on the
    // wire.
    Choice select(std::uint32_t flow, Bytes payload, std::uint32_t payload_len);

    // Call some frames before select() for this flow.
    void prefetch(std::uint32_t flow) const {
        if (flow < flows_.size()) __builtin_prefetch(&flows_[flow]);
    }

    std::uint32_t size() const { return kinds_.size(); }
    const Kind& kind(std::uint32_t row) const { return kinds_[row]; }

  private:
    // Number of new kinds minus the number of frames of known kinds, clamped to 16 bits.
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
        std::uint8_t rechecks = 0;  // number of frames sent because of SelectionPolicy::again
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
