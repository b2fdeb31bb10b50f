// VLAN ids, MPLS labels, tunnel identifiers and destination MAC addresses of every frame, for the comparison
// of two digests. The flow table has the first three too, but does not include frames without an IP header.
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

    // `eth_dst`: comma-separated destination addresses of all Ethernet headers; may be empty.
    void add(std::uint64_t frame, const Dissection& dissection, std::string_view eth_dst);
    // Returns the columns frame, vlan, mpls, tunnels, eth_dst of the rows added since the last call. The
    // batch may be empty.
    Batch take();

  private:
    struct Builder;

    std::shared_ptr<Builder> current_;
};

}  // namespace acapella
