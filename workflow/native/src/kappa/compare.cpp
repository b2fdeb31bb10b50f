#include "kappa/compare.hpp"

#include <algorithm>

#include "kappa/matching.hpp"
#include "kappa/partition.hpp"

namespace acapella::kappa {
namespace {

// Memory of a pair in addition to identities and timestamps: the hash table, the two columns of differences,
// which may use twice their size, and the matches.
constexpr std::uint64_t kComparedPacketBytes =
    kMatchBytesPerPacket + 2 * 2 * sizeof(std::int64_t) + sizeof(std::uint32_t);
// Memory that is always available for a block of reordered packets.
constexpr std::uint64_t kMinBlockBytes = std::uint64_t{16} << 20;

WindowPlan plan_windows(const PairRequest& request, std::uint64_t longer_ns) {
    WindowPlan plan;
    if (request.window_ns) {
        plan.width_ns = std::max<std::uint64_t>(*request.window_ns, 1);
    } else if (request.windows && *request.windows > 0) {
        plan.width_ns = longer_ns / *request.windows + 1;
    } else {
        return plan;
    }
    const std::uint64_t count = longer_ns / plan.width_ns + 1;
    if (count > kMaxWindows)
        throw TrialError(std::to_string(count) + " windows of " + std::to_string(plan.width_ns) +
                         " ns are too many (at most " + std::to_string(kMaxWindows) + ")");
    plan.count = count;
    return plan;
}

bool fits(const Trial& a, const Trial& b, std::uint64_t memory_bytes) {
    return a.identities.in_memory() && a.timestamps.in_memory() && b.identities.in_memory() &&
           b.timestamps.in_memory() && std::max(a.size(), b.size()) * kComparedPacketBytes <= memory_bytes;
}

void add_packets_of_a(const Trial& a, PairSums& sums) {
    for_each_packet(a, [&sums](std::uint64_t, const PacketTime& at) { sums.add_packet_of_a(at); });
    sums.end_of_a();
}

// Both functions below add the same values in the same order.

void compare_in_memory(const Trial& a, const Trial& b, const PairOptions& options, MemoryBudget& budget,
                       PairResult& result) {
    Pages pages;
    pages.grow(b.size() * sizeof(std::uint32_t));
    const std::span<std::uint32_t> matches(reinterpret_cast<std::uint32_t*>(pages.data()), b.size());
    result.ambiguous = match(a.identities.span(), b.identities.span(), matches);
    CommonPackets common(a.size());
    for (const std::uint32_t packet : matches)
        if (packet != kUnmatched) common.put(packet);
    common.count();
    PairSums sums(budget, options, a, common);
    add_packets_of_a(a, sums);
    const std::span<const std::int64_t> timestamps = a.timestamps.span();
    for_each_packet(b, [&](std::uint64_t packet, const PacketTime& in_b) {
        const std::uint32_t match = matches[packet];
        if (match == kUnmatched) {
            sums.add_packet_only_in_b(in_b);
            return;
        }
        const std::int64_t ts_ns = timestamps[match];
        const std::int64_t before_ns = timestamps[match == 0 ? 0 : match - 1];
        sums.add_common_packet(match, {elapsed_ns(ts_ns, a.first_ns), elapsed_ns(ts_ns, before_ns)}, in_b);
    });
    result.first_common_a = a.size() > 0 && common.has(0);
    result.first_common_b = !matches.empty() && matches[0] != kUnmatched;
    sums.finish(result);
}

void compare_through_files(const Trial& a, const Trial& b, const PairOptions& options, MemoryBudget& budget,
                           std::uint64_t memory_bytes, PairResult& result) {
    const PartitionedMatch matched(a, b, memory_bytes, budget.directory());
    result.ambiguous = matched.ambiguous();
    PairSums sums(budget, options, a, matched.common());
    add_packets_of_a(a, sums);
    bool first = true;
    matched.for_each_of_b([&](const Match& match, const PacketTime& in_b) {
        const bool common = match.packet_a != kUnmatched;
        if (common) {
            sums.add_common_packet(match.packet_a, match.in_a, in_b);
        } else {
            sums.add_packet_only_in_b(in_b);
        }
        if (first) result.first_common_b = common;
        first = false;
    });
    result.first_common_a = a.size() > 0 && matched.common().has(0);
    sums.finish(result);
}

}  // namespace

PairResult compare_pair(const Trial& a, const Trial& b, const PairRequest& request,
                        std::uint64_t memory_bytes, const std::string& directory) {
    PairResult result;
    result.packets_a = a.size();
    result.packets_b = b.size();
    result.duration_a_ns = a.duration_ns();
    result.duration_b_ns = b.duration_ns();
    const bool has_packets = a.size() + b.size() > 0;
    PairOptions options{
        request.bounds_ns,
        has_packets ? plan_windows(request, std::max(a.duration_ns(), b.duration_ns())) : WindowPlan{}};
    if (fits(a, b, memory_bytes)) {
        const std::uint64_t left = memory_bytes - std::max(a.size(), b.size()) * kComparedPacketBytes;
        options.block_bytes = std::max(left, kMinBlockBytes);
        MemoryBudget budget(memory_bytes, directory);
        compare_in_memory(a, b, options, budget, result);
    } else {
        // Buffers use another quarter.
        options.block_bytes = std::max(memory_bytes / 2, kMinBlockBytes);
        MemoryBudget budget(memory_bytes / 4, directory);
        compare_through_files(a, b, options, budget, memory_bytes, result);
    }
    return result;
}

namespace {

Report compare_trials(const Trials& trials, const Request& request, std::uint64_t memory_bytes) {
    Report report;
    std::vector<std::optional<std::uint64_t>> ambiguous(trials.trials.size());
    for (const auto& [a, b] : request.pairs) {
        report.pairs.push_back(
            compare_pair(trials.trials[a], trials.trials[b], request.pair, memory_bytes, request.directory));
        ambiguous[a] = report.pairs.back().ambiguous.a;
        ambiguous[b] = report.pairs.back().ambiguous.b;
    }
    MemoryBudget no_memory(0, request.directory);
    const Trial empty_trial(no_memory);
    for (std::size_t i = 0; i < ambiguous.size(); ++i) {
        if (!ambiguous[i])
            ambiguous[i] =
                compare_pair(trials.trials[i], empty_trial, {}, memory_bytes, request.directory).ambiguous.a;
        report.ambiguous.push_back(*ambiguous[i]);
    }
    return report;
}

}  // namespace

// Half of the memory is used for identities and timestamps, the rest for the pairs.
Compared compare_files(const Request& request) {
    Compared compared;
    compared.budget = std::make_unique<MemoryBudget>(request.memory_bytes / 2, request.directory);
    compared.trials = std::make_unique<Trials>(read_trials(request.files, request.options, *compared.budget));
    const std::uint64_t left = request.memory_bytes - request.memory_bytes / 2 + compared.budget->left();
    compared.report = compare_trials(*compared.trials, request, left);
    return compared;
}

}  // namespace acapella::kappa
