// The collector's two tables in batches; schemas/tables/flow_reports.yaml and flow_report_series.yaml say
// what their columns mean.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "collector/table/record_pool.hpp"
#include "collector/table/series.hpp"
#include "columns/column.hpp"

namespace acapella::collector {

// 8e9 bytes / ns, rounded half up, and no more than 2^64 - 1: reports may tell of any size. Not known of no
// time.
std::optional<std::uint64_t> rate_bps(std::uint64_t bytes, std::uint64_t ns);

// `site` is part of what a flow_id is made of, as in the digest's table of flows.
Batch flow_batch(std::span<const FlowSnapshot> flows, std::string_view site);
Batch series_batch(std::span<const SeriesRow> rows);

}  // namespace acapella::collector
