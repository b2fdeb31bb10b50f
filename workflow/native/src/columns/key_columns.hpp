// The columns of a flow's key.
#pragma once

#include <span>
#include <vector>

#include "columns/values.hpp"
#include "flow/flow_keys.hpp"

namespace acapella {

// Columns vlan and mpls.
class TagLists {
  public:
    void add(TagsView tags);
    void columns(std::vector<Column>& out) const;

  private:
    Values<std::uint16_t> vlans_;
    Values<std::uint32_t> labels_;
    ListOffsets vlan_lists_, label_lists_;
};

// Column tunnels.
class TunnelLists {
  public:
    void add(std::span<const Tunnel> tunnels);
    Column column() const;

  private:
    Strings types_;
    Values<std::uint32_t> ids_;
    Values<std::uint16_t> positions_;
    ListOffsets lists_;
};

// Columns ip_version to dst_port.
class EndpointColumns {
  public:
    void add(const Endpoints& endpoints);
    void columns(std::vector<Column>& out) const;

  private:
    Values<std::uint8_t> ip_version_, ip_proto_;
    Strings src_, dst_;
    NullableValues<std::uint16_t> src_port_, dst_port_;
};

}  // namespace acapella
