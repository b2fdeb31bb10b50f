// Finds the other direction of a flow. MPLS labels and some identifiers of tunnels differ per direction, so
// it is found by reversed endpoints and protocol: the only flow that has them, or, among several, the only
// one of the same network, which is the VLAN stack and the identifiers that both directions share (VNI, VSID,
// PPPoE session, I-SID); and it has to choose this flow in turn, so that connections are pairs. Otherwise
// there is none.
//
// Flows are only ever added. So of two flows that are a pair at the end, both were free for each other from
// the moment the later one appeared, and whoever was the peer before that one appeared is not the peer now:
// metrics that start anew whenever the peer changes are those of the final peer.
#pragma once

#include <cstdint>

#include "flow/flow_keys.hpp"
#include "flow/pool.hpp"

namespace acapella {

class Peers {
  public:
    explicit Peers(const FlowKeys& keys) : keys_(keys) {}

    // Adds `flow`. `key_of(flow)` gives the key of a flow, as below.
    template <typename KeyOf>
    void add(std::uint32_t flow, const KeyOf& key_of) {
        const FlowKey key = key_of(flow);
        Group& group = group_of(key.endpoints);
        if (group.count == 1) add_to_network_group(group.first, key_of(group.first));
        if (group.count > 0) add_to_network_group(flow, key);
        if (group.count++ == 0) group.first = flow;
    }

    // The peer among the flows added so far, or kNone.
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
    struct NetworkGroup {
        std::uint64_t endpoints_and_network;
        Group group;
    };

    Group& group_of(std::uint32_t endpoints);
    std::uint32_t choose(FlowKey key) const;
    // Hashed and compared as a number: endpoints and FlowKeys::network().
    std::uint64_t network_group(std::uint32_t endpoints, std::uint32_t tags) const {
        return (static_cast<std::uint64_t>(endpoints) << 32) | keys_.network(tags);
    }
    std::uint32_t find_network_group(std::uint64_t endpoints_and_network) const;
    void add_to_network_group(std::uint32_t flow, FlowKey key);

    const FlowKeys& keys_;
    TableHash hash_;
    Pool<Group> by_endpoints_;
    // Only for endpoints that more than one flow has.
    Pool<NetworkGroup> by_network_;
    Slots network_index_;
};

}  // namespace acapella
