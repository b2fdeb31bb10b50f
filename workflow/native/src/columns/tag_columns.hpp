// VLAN ids, MPLS labels and tunnel identifiers of every frame, to compare two digests. The flow table has
// these columns, but no row for frames without an IP header.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "columns/column.hpp"
#include "frame/dissection.hpp"

namespace acapella {

class TagColumns {
  public:
    TagColumns();
    ~TagColumns();

    // `eth_dst`: destination addresses of all Ethernet headers, separated by commas; may be empty.
    void add(std::uint64_t frame, const Dissection& dissection, std::string_view eth_dst);
    // Columns frame, vlan, mpls, tunnels, eth_dst of the rows since the last call; there may be none.
    Batch take();

  private:
    struct Builder;

    std::shared_ptr<Builder> current_;
};

}  // namespace acapella
