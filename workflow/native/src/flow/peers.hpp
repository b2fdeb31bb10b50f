// Finds the reverse direction of a flow (its peer). The candidates are the flows with reversed endpoints, the
// same protocol, and the same identifiers of tunnels that use one identifier for both directions (VNI, VSID,
// PPPoE session, I-SID). A single candidate is the peer. If there are several, the peer is the only one with
// the same VLAN stack; if there are still several, the only one with the same GRE keys. MPLS labels, and
// identifiers chosen by each end (TEID), are ignored, because equal values are a coincidence. The flow must
// also be the peer of its peer, so that connections are pairs; otherwise the flow has no peer.
//
// Flows are never removed. So two flows that are a pair at the end have been candidates for each other since
// the later one appeared, and a peer that was replaced never becomes the peer again. Metrics are reset when
// the peer changes, so they always refer to the final peer.
#pragma once

#include <cstdint>

#include "containers/pool.hpp"
#include "flow/flow_keys.hpp"

namespace acapella {

class Peers {
  public:
    explicit Peers(const FlowKeys& keys) : keys_(keys) {}

    // Adds `flow`. Here and below, `key_of(flow)` returns the key of a flow.
    template <typename KeyOf>
    void add(std::uint32_t flow, const KeyOf& key_of) {
        const FlowKey key = key_of(flow);
        Group& group = group_of(key.endpoints);
        if (group.count == 1) add_to_tag_groups(group.first, key_of(group.first));
        if (group.count > 0) add_to_tag_groups(flow, key);
        if (group.count++ == 0) group.first = flow;
    }

    // Returns the peer among the flows added so far, or kNone.
    template <typename KeyOf>
    std::uint32_t peer(std::uint32_t flow, const KeyOf& key_of) const {
        const std::uint32_t choice = choose(key_of(flow), key_of);
        return choice != kNone && choose(key_of(choice), key_of) == flow ? choice : kNone;
    }

    std::uint64_t bytes() const {
        return by_endpoints_.bytes() + by_shared_.bytes() + by_network_.bytes() + by_keyed_network_.bytes();
    }

    // Returns the number of candidates for a flow with `key`.
    template <typename KeyOf>
    std::uint32_t candidates(FlowKey key, const KeyOf& key_of) const {
        const std::uint32_t count = reversed_flows(key);
        if (count == 1) return only_reversed(key, key_of) != kNone;
        if (count == 0) return 0;
        return by_shared_.find(keys_.reversed(key.endpoints), keys_.shared(key.tags)).count;
    }

  private:
    struct Group {
        std::uint32_t count = 0;
        std::uint32_t first = kNone;
    };
    // Groups by endpoints and by a class of tags such as FlowKeys::shared().
    class TagGroups {
      public:
        void add(std::uint32_t endpoints, std::uint32_t tags_class, std::uint32_t flow);
        Group find(std::uint32_t endpoints, std::uint32_t tags_class) const;
        std::uint64_t bytes() const { return entries_.bytes() + index_.bytes(); }

      private:
        struct Entry {
            std::uint64_t endpoints_and_class;  // hashed and compared as one number
            Group group;
        };

        static std::uint64_t joined(std::uint32_t endpoints, std::uint32_t tags_class) {
            return std::uint64_t{endpoints} << 32 | tags_class;
        }
        std::uint32_t row_of(std::uint64_t wanted) const;

        TableHash hash_;
        Pool<Entry> entries_;
        HashIndex index_;
    };

    Group& group_of(std::uint32_t endpoints);
    std::uint32_t reversed_flows(FlowKey key) const;
    std::uint32_t choose_by_tags(FlowKey key) const;

    template <typename KeyOf>
    std::uint32_t choose(FlowKey key, const KeyOf& key_of) const {
        const std::uint32_t count = reversed_flows(key);
        if (count == 0) return kNone;
        return count == 1 ? only_reversed(key, key_of) : choose_by_tags(key);
    }
    // Returns the only flow with the reversed endpoints, or kNone if it belongs to another network.
    template <typename KeyOf>
    std::uint32_t only_reversed(FlowKey key, const KeyOf& key_of) const {
        const std::uint32_t found = by_endpoints_[keys_.reversed(key.endpoints)].first;
        return keys_.same_shared(key.tags, key_of(found).tags) ? found : kNone;
    }
    void add_to_tag_groups(std::uint32_t flow, FlowKey key);

    const FlowKeys& keys_;
    Pool<Group> by_endpoints_;
    // Used only for endpoints shared by several flows.
    TagGroups by_shared_;
    TagGroups by_network_;
    TagGroups by_keyed_network_;
};

}  // namespace acapella
