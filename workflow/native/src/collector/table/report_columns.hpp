// The two tables of the collector in batches; schemas/tables/flow_reports.yaml and flow_report_series.yaml
// describe their columns.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "collector/table/record_pool.hpp"
#include "collector/table/series.hpp"
#include "columns/column.hpp"

namespace acapella::collector {

// Returns 8e9 * bytes / ns, rounded half up, clamped to 2^64 - 1; none if ns is 0.
std::optional<std::uint64_t> rate_bps(std::uint64_t bytes, std::uint64_t ns);

// `site` is part of flow_id, as in the digest's flow table.
Batch flow_batch(std::span<const FlowSnapshot> flows, std::string_view site);
Batch series_batch(std::span<const SeriesRow> rows);

}  // namespace acapella::collector
