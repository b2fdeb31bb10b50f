// VLAN ids, MPLS labels and identifiers of tunnels frame by frame, for comparing two digests: in a digest
// itself they stand in the flow table, which has no row for frames without an IP header.
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

    // `eth_dst`: destinations of all Ethernet headers, separated by commas; empty where nobody says them.
    void add(std::uint64_t frame, const Dissection& dissection, std::string_view eth_dst);
    // Columns frame, vlan, mpls, tunnels, eth_dst of the rows since the last call, which may be none.
    Batch take();

  private:
    struct Builder;

    std::shared_ptr<Builder> current_;
};

}  // namespace acapella
