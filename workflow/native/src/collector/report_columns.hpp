// The collector's two tables in batches; schemas/tables/flow_reports.yaml and flow_report_series.yaml say
// what their columns mean.
#pragma once

#include <span>
#include <string_view>

#include "collector/record_pool.hpp"
#include "collector/series.hpp"
#include "columns/column.hpp"

namespace acapella::collector {

// `site` is part of what a flow_id is made of, as in the digest's table of flows.
Batch flow_batch(std::span<const FlowCopy> flows, std::string_view site);
Batch series_batch(std::span<const SeriesRow> rows);

}  // namespace acapella::collector
