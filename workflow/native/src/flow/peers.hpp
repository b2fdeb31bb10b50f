// Finds the other direction of a flow. MPLS labels differ per direction, so it is found by reversed endpoints
// and protocol: the only flow that has them, or, among several, the only one with the same VLAN stack; and it
// has to choose this flow in turn, so that connections are pairs. Otherwise there is none.
//
// Flows are only ever added. So of two flows that are a pair at the end, both were free for each other from
// the moment the later one appeared, and whoever was the peer before that one appeared is not the peer now:
// metrics that start anew whenever the peer changes are those of the final peer.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "flow/flow_keys.hpp"

namespace acapella {

class Peers {
  public:
    explicit Peers(const FlowKeys& keys) : keys_(keys), by_vlan_(16, hash_) {}

    // Adds `flow` with the key `key`.
    void add(std::uint32_t flow, FlowKey key);

    // The peer among the flows added so far, or kNone. `key_of(flow)` gives a flow's key.
    template <typename KeyOf>
    std::uint32_t peer(std::uint32_t flow, const KeyOf& key_of) const {
        const std::uint32_t choice = choose(key_of(flow));
        return choice != kNone && choose(key_of(choice)) == flow ? choice : kNone;
    }

    // How many flows have the reversed endpoints and protocol of `key`.
    std::uint32_t candidates(FlowKey key) const;

  private:
    struct Group {
        std::uint32_t count = 0;
        std::uint32_t first = kNone;
    };

    std::uint32_t choose(FlowKey key) const;
    std::uint64_t vlan_group(std::uint32_t endpoints, std::uint32_t tags) const {
        return (static_cast<std::uint64_t>(endpoints) << 32) | keys_.vlan_stack(tags);
    }
    void add_to_vlan_group(std::uint32_t flow, FlowKey key);

    const FlowKeys& keys_;
    TableHash hash_;
    std::vector<Group> by_endpoints_;
    std::vector<std::uint32_t> first_tags_;  // tags of by_endpoints_[...].first
    // Only for endpoints that more than one flow has.
    std::unordered_map<std::uint64_t, Group, TableHash> by_vlan_;
};

}  // namespace acapella
