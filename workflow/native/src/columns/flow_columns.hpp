// The flow table in batches; schemas/tables/flows.yaml describes its columns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "columns/column.hpp"
#include "flow/flow_keys.hpp"
#include "flow/flow_table.hpp"
#include "frame/header_stacks.hpp"

namespace acapella {

struct CapturePoint {
    std::optional<std::string> site;
    std::optional<std::string> port;
};

class FlowColumns {
  public:
    FlowColumns(const FlowKeys& keys, const HeaderStacks& header_stacks, const FlowTable& flow_table,
                const CapturePoint& capture_point)
        : keys_(keys),
          header_stacks_(header_stacks),
          flow_table_(flow_table),
          capture_point_(capture_point) {}

    // Returns rows [first, first + count) of the flow table, or fewer at its end.
    Batch rows(std::uint32_t first, std::uint32_t count) const;

  private:
    struct Builder;

    const FlowKeys& keys_;
    const HeaderStacks& header_stacks_;
    const FlowTable& flow_table_;
    const CapturePoint& capture_point_;
};

// Returns the application label of a flow: its most frequent token other than `data`, or the alphabetically
// first of several equally frequent ones. Returns `data` if there is no other token, or if `data` has more
// than 16 times as many frames as that one; an empty text if there are no tokens.
std::string application_of(const FlowTable& flow_table, std::uint32_t flow, const TextTable& tokens);

}  // namespace acapella
