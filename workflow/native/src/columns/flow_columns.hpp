// The flow table in batches; schemas/tables/flows.yaml says what its columns mean.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "columns/column.hpp"
#include "flow/accountant.hpp"
#include "flow/community_id.hpp"
#include "flow/flow_keys.hpp"
#include "frame/stack_names.hpp"

namespace acapella {

struct Place {
    std::optional<std::string> site;
    std::optional<std::string> port;
};

class FlowColumns {
  public:
    FlowColumns(const FlowKeys& keys, const StackNames& names, const Accountant& accountant,
                const Place& place)
        : keys_(keys), names_(names), accountant_(accountant), place_(place) {}

    // Rows [first, first + count) of the flow table, as far as there are flows.
    Batch rows(std::uint32_t first, std::uint32_t count) const;

  private:
    struct Builder;

    const FlowKeys& keys_;
    const StackNames& names_;
    const Accountant& accountant_;
    const Place& place_;
    CommunityIds community_ids_;
};

// The application label of a flow: its most frequent token, ties to the smallest, `data` only where there is
// nothing else; empty where there is none.
std::string application_of(const Accountant& accountant, std::uint32_t flow, const TextTable& tokens);

}  // namespace acapella
