#include "columns/key_columns.hpp"

#include "frame/tunnels.hpp"

namespace acapella {

void TagLists::add(TagsView tags) {
    for (const std::uint16_t vlan : tags.vlans) vlans_.add(vlan);
    vlan_lists_.close(vlans_.size());
    for (const std::uint32_t label : tags.labels) labels_.add(label);
    label_lists_.close(labels_.size());
}

void TagLists::columns(std::vector<Column>& out) const {
    out.push_back(vlan_lists_.column("vlan", vlans_.column("item", true)));
    out.push_back(label_lists_.column("mpls", labels_.column("item", true)));
}

void TunnelLists::add(std::span<const Tunnel> tunnels) {
    for (const Tunnel& tunnel : tunnels) {
        types_.add(text_of(tunnel.type));
        ids_.add(tunnel.id);
        positions_.add(tunnel.position);
    }
    lists_.close(ids_.size());
}

Column TunnelLists::column() const {
    Column tunnel{.name = "item",
                  .format = "+s",
                  .nullable = true,
                  .length = static_cast<std::int64_t>(ids_.size()),
                  .buffers = {nullptr}};
    tunnel.children.push_back(types_.column("type", true));
    tunnel.children.push_back(ids_.column("id", true));
    tunnel.children.push_back(positions_.column("position", true));
    return lists_.column("tunnels", std::move(tunnel));
}

void EndpointColumns::add(const Endpoints& endpoints) {
    ip_version_.add(endpoints.ip_version);
    src_.add(address_text(endpoints.ip_version, endpoints.src));
    dst_.add(address_text(endpoints.ip_version, endpoints.dst));
    ip_proto_.add(endpoints.ip_proto);
    src_port_.add(endpoints.has_ports ? std::optional(endpoints.src_port) : std::nullopt);
    dst_port_.add(endpoints.has_ports ? std::optional(endpoints.dst_port) : std::nullopt);
}

void EndpointColumns::columns(std::vector<Column>& out) const {
    out.push_back(ip_version_.column("ip_version"));
    out.push_back(src_.column("src"));
    out.push_back(dst_.column("dst"));
    out.push_back(ip_proto_.column("ip_proto"));
    out.push_back(src_port_.column("src_port"));
    out.push_back(dst_port_.column("dst_port"));
}

}  // namespace acapella
