#include "columns/tag_columns.hpp"

#include <utility>

#include "columns/key_columns.hpp"
#include "columns/values.hpp"

namespace acapella {

struct TagColumns::Builder {
    Values<std::uint64_t> frame;
    Values<std::uint16_t> vlans;
    Values<std::uint32_t> labels;
    ListOffsets vlan_lists, label_lists;
    TunnelLists tunnels;
    Strings eth_dst;

    Column columns() const {
        Column root{.name = "",
                    .format = "+s",
                    .length = static_cast<std::int64_t>(frame.size()),
                    .buffers = {nullptr}};
        root.children.push_back(frame.column("frame"));
        root.children.push_back(vlan_lists.column("vlan", vlans.column("item", true)));
        root.children.push_back(label_lists.column("mpls", labels.column("item", true)));
        root.children.push_back(tunnels.column());
        root.children.push_back(eth_dst.column("eth_dst"));
        return root;
    }
};

TagColumns::TagColumns() : current_(std::make_shared<Builder>()) {}
TagColumns::~TagColumns() = default;

void TagColumns::add(std::uint64_t frame, const Dissection& dissection, std::string_view eth_dst) {
    current_->frame.add(frame);
    for (std::size_t i = 0; i < dissection.vlan_count; ++i) current_->vlans.add(dissection.vlans[i]);
    current_->vlan_lists.close(current_->vlans.size());
    for (std::size_t i = 0; i < dissection.label_count; ++i) current_->labels.add(dissection.labels[i]);
    current_->label_lists.close(current_->labels.size());
    current_->tunnels.add({dissection.tunnels.data(), dissection.tunnel_count});
    current_->eth_dst.add(eth_dst);
}

Batch TagColumns::take() {
    std::shared_ptr<Builder> builder = std::exchange(current_, std::make_shared<Builder>());
    Column columns = builder->columns();
    return {std::move(columns), std::move(builder)};
}

}  // namespace acapella
