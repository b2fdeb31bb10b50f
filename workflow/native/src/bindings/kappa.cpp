#include "bindings/kappa.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "bindings/errors.hpp"
#include "kappa/align.hpp"
#include "kappa/compare.hpp"

namespace nb = nanobind;

namespace acapella {
namespace {

using namespace kappa;

// Converts a 128-bit integer to Python in two halves.
nb::object integer(Sum128 value) {
    const nb::object high = nb::int_(static_cast<std::uint64_t>(value >> 64));
    return (high << nb::int_(64)) | nb::int_(static_cast<std::uint64_t>(value));
}

nb::object integer(SignedSum128 value) {
    if (value >= 0) return integer(static_cast<Sum128>(value));
    return -integer(static_cast<Sum128>(0) - static_cast<Sum128>(value));
}

nb::list list_of(std::span<const std::uint64_t> values) {
    nb::list list;
    for (const std::uint64_t value : values) list.append(value);
    return list;
}

template <typename Value>
nb::object if_known(bool is_known, Value value) {
    return is_known ? nb::object(nb::int_(value)) : nb::object(nb::none());
}

nb::dict deltas_dict(const Deltas& deltas, bool is_known) {
    nb::dict dict;
    dict["sum"] = integer(deltas.sum);
    dict["signed_sum"] = integer(deltas.signed_sum);
    dict["median"] = if_known(is_known, deltas.median);
    dict["p99"] = if_known(is_known, deltas.p99);
    dict["largest"] = if_known(is_known, deltas.largest);
    return dict;
}

nb::dict moves_dict(const MoveSums& moves) {
    nb::dict dict;
    dict["count"] = moves.count;
    dict["sum"] = integer(moves.sum);
    dict["sum_of_squares"] = integer(moves.sum_of_squares);
    dict["abs_sum"] = integer(moves.absolute_sum);
    dict["smallest"] = if_known(moves.count > 0, moves.smallest);
    dict["largest"] = if_known(moves.count > 0, moves.largest);
    return dict;
}

nb::dict histogram_dict(const LogHistogram& histogram) {
    nb::dict dict;
    dict["zero"] = histogram.zero();
    dict["negative"] = list_of(histogram.negative());
    dict["positive"] = list_of(histogram.positive());
    dict["starts_ns"] = list_of(LogHistogram::starts());
    return dict;
}

nb::dict spacing_dict(const Spacing& spacing) {
    nb::dict dict;
    dict["distances"] = list_of(Spacing::kDistances);
    dict["starts_ns"] = list_of(LogHistogram::starts());
    dict["zero"] = nb::make_tuple(spacing.pairs[0], spacing.reversed[0]);
    dict["pairs"] = list_of(std::span(spacing.pairs).subspan(1));
    dict["reversed"] = list_of(std::span(spacing.reversed).subspan(1));
    return dict;
}

nb::list windows_list(const PairResult& pair) {
    nb::list list;
    for (std::size_t i = 0; i < pair.windows.size(); ++i) {
        const Window& window = pair.windows[i];
        nb::dict dict;
        dict["from_ns"] = integer(static_cast<Sum128>(pair.plan.width_ns) * i);
        dict["to_ns"] = integer(static_cast<Sum128>(pair.plan.width_ns) * (i + 1));
        dict["n_a"] = window.packets_a;
        dict["n_b"] = window.packets_b;
        dict["n_common"] = window.common;
        dict["latency_sum"] = integer(window.latency_sum);
        dict["gap_sum"] = integer(window.gap_sum);
        dict["gaps_a_sum"] = integer(window.gaps_a_sum);
        dict["gaps_b_sum"] = integer(window.gaps_b_sum);
        dict["order_distance"] = window.order_distance;
        dict["order_moved"] = window.order_moved;
        dict["inversions"] = window.inversions;
        list.append(dict);
    }
    return list;
}

nb::dict pair_dict(const PairResult& pair, std::size_t a, std::size_t b) {
    const bool has_common = pair.common > 0;
    nb::dict dict;
    dict["a"] = a;
    dict["b"] = b;
    dict["n_a"] = pair.packets_a;
    dict["n_b"] = pair.packets_b;
    dict["n_common"] = pair.common;
    dict["ambiguous_a"] = pair.ambiguous.a;
    dict["ambiguous_b"] = pair.ambiguous.b;
    dict["first_common"] = nb::make_tuple(pair.first_common_a, pair.first_common_b);
    dict["duration_a_ns"] = pair.duration_a_ns;
    dict["duration_b_ns"] = pair.duration_b_ns;
    dict["latency"] = deltas_dict(pair.latency, has_common);
    dict["offset_ns"] = if_known(has_common, pair.offset_ns);
    dict["latency_offset_removed"] = deltas_dict(pair.latency_offset_removed, has_common);
    dict["gap"] = deltas_dict(pair.gap, has_common);
    dict["gap_within"] = list_of(pair.gap_within);
    dict["latency_within"] = list_of(pair.latency_within);
    nb::dict order;
    order["distance"] = pair.order_distance;
    order["moved"] = pair.moves.count;
    order["inversions"] = pair.inversions;
    dict["order"] = order;
    dict["moves"] = moves_dict(pair.moves);
    nb::dict bursts = moves_dict(pair.bursts);
    bursts["longest"] = pair.longest_burst;
    dict["bursts"] = bursts;
    dict["windows"] = windows_list(pair);
    nb::dict histograms;
    histograms["gap"] = histogram_dict(pair.gap_histogram);
    histograms["latency"] = histogram_dict(pair.latency_histogram);
    dict["histograms"] = histograms;
    dict["spacing"] = spacing_dict(pair.spacing);
    return dict;
}

std::uint64_t grid_ns(const FileInfo& info) { return std::max(info.gaps.ns(), info.declared_ns); }

nb::dict file_dict(const FileInfo& info) {
    nb::dict dict;
    dict["path"] = info.path;
    dict["sha256"] = info.sha256.empty() ? nb::object(nb::none()) : nb::object(nb::str(info.sha256.c_str()));
    dict["frames"] = info.frames;
    dict["taken"] = info.taken;
    dict["truncated"] = info.truncated;
    dict["end"] = info.end;
    dict["clock_resolution_ns"] = if_known(info.taken > 0, info.clock_resolution_ns);
    dict["grid_ns"] = if_known(info.taken > 0, grid_ns(info));
    return dict;
}

nb::dict trial_dict(const Trial& trial, std::size_t identity_bytes, std::uint64_t ambiguous) {
    nb::dict dict;
    nb::list files;
    std::uint64_t without_identity = 0;
    std::uint64_t reversals = 0;
    std::uint64_t implausible = 0;
    std::int64_t resolution_ns = 0;
    GapGrid gaps;
    for (const FileInfo& info : trial.files) {
        files.append(file_dict(info));
        without_identity += info.without_identity;
        reversals += info.reversals;
        implausible += info.implausible;
        gaps.add(info.gaps);
        // Resolutions are powers of ten, so all timestamps are multiples of the smallest resolution.
        if (info.taken > 0)
            resolution_ns = resolution_ns == 0 ? info.clock_resolution_ns
                                               : std::min(resolution_ns, info.clock_resolution_ns);
    }
    const bool has_packets = trial.size() > 0;
    dict["files"] = files;
    dict["packets"] = trial.size();
    dict["duration_ns"] = trial.duration_ns();
    dict["first_ns"] = if_known(has_packets, trial.first_ns);
    dict["equal_stamps"] = trial.equal_stamps;
    dict["resolution_ns"] = if_known(has_packets, resolution_ns);
    dict["grid_ns"] = if_known(has_packets, gaps.ns());
    dict["truncated"] = trial.truncated_identities;
    dict["identity_bytes"] = if_known(identity_bytes != kAllBytes, identity_bytes);
    dict["without_identity"] = without_identity;
    dict["ambiguous"] = ambiguous;
    dict["reversals_in_file"] = reversals;
    dict["implausible_times"] = implausible;
    return dict;
}

IdentityKind kind_of(const std::string& name) {
    if (name == "tag") return IdentityKind::tag;
    if (name == "regions") return IdentityKind::regions;
    if (name == "frame") return IdentityKind::frame;
    if (name == "invariant") return IdentityKind::invariant;
    throw nb::value_error("kind: expected invariant, tag, regions or frame");
}

TagLayout layout_of(const std::string& name) {
    if (name == "auto") return TagLayout::automatic;
    if (name == "v1") return TagLayout::v1;
    if (name == "v2") return TagLayout::v2;
    throw nb::value_error("tag: expected auto, v1 or v2");
}

std::optional<FlowFilter::Address> address_of(nb::handle packed) {
    if (packed.is_none()) return {};
    const auto bytes = nb::cast<nb::bytes>(packed);
    if (bytes.size() != 4 && bytes.size() != 16) throw nb::value_error("an address has 4 or 16 bytes");
    FlowFilter::Address address;
    address.ip_version = bytes.size() == 4 ? 4 : 6;
    std::copy_n(static_cast<const std::byte*>(bytes.data()), bytes.size(), address.bytes.begin());
    return address;
}

// Converts (proto, src, src_port, dst, dst_port). Addresses are bytes; None matches any value.
FlowFilter flow_of(const nb::tuple& flow) {
    FlowFilter filter;
    filter.ip_proto = nb::cast<std::optional<std::uint8_t>>(flow[0]);
    filter.src = address_of(flow[1]);
    filter.src_port = nb::cast<std::optional<std::uint16_t>>(flow[2]);
    filter.dst = address_of(flow[3]);
    filter.dst_port = nb::cast<std::optional<std::uint16_t>>(flow[4]);
    return filter;
}

using FrameNumbers = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

Selection selection_of(const nb::dict& options) {
    Selection selection;
    if (const nb::object frames = options["frames"]; !frames.is_none()) {
        selection.by_frames = true;
        for (const auto& [path, numbers] : nb::cast<nb::dict>(frames)) {
            const auto array = nb::cast<FrameNumbers>(numbers);
            auto& sorted = selection.frames[nb::cast<std::string>(path)];
            sorted.assign(array.data(), array.data() + array.size());
            std::sort(sorted.begin(), sorted.end());
        }
    }
    for (const nb::handle flow : nb::cast<nb::list>(options["flows"]))
        selection.flows.push_back(flow_of(nb::cast<nb::tuple>(flow)));
    selection.from_ns = nb::cast<std::optional<std::int64_t>>(options["from_ns"]);
    selection.to_ns = nb::cast<std::optional<std::int64_t>>(options["to_ns"]);
    selection.relative = nb::cast<bool>(options["relative"]);
    return selection;
}

IdentityRule rule_of(const nb::dict& options) {
    IdentityRule rule;
    rule.kind = kind_of(nb::cast<std::string>(options["kind"]));
    rule.l4_checksum = nb::cast<bool>(options["l4_checksum"]);
    rule.tag = layout_of(nb::cast<std::string>(options["tag"]));
    for (const auto& [offset, length] :
         nb::cast<std::vector<std::pair<std::uint32_t, std::uint32_t>>>(options["regions"]))
        rule.regions.push_back({offset, length});
    return rule;
}

// Returns a function that reports progress to the caller and allows Ctrl-C.
std::function<void(std::uint64_t)> progress_of(const nb::object& progress) {
    return [progress](std::uint64_t bytes_read) {
        const nb::gil_scoped_acquire locked;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
        if (!progress.is_none()) progress(bytes_read);
    };
}

nb::dict result_of(const Request& request, const Trials& trials, const Report& report) {
    nb::list of_trials;
    for (std::size_t i = 0; i < trials.trials.size(); ++i)
        of_trials.append(trial_dict(trials.trials[i], trials.identity_bytes, report.ambiguous[i]));
    nb::list of_pairs;
    for (std::size_t i = 0; i < report.pairs.size(); ++i)
        of_pairs.append(pair_dict(report.pairs[i], request.pairs[i].first, request.pairs[i].second));
    nb::dict result;
    result["trials"] = of_trials;
    result["pairs"] = of_pairs;
    return result;
}

using Files = std::vector<std::vector<std::pair<std::string, std::string>>>;

std::vector<std::vector<TrialFile>> files_of(const Files& files) {
    std::vector<std::vector<TrialFile>> trials;
    for (const auto& of_trial : files) {
        auto& trial = trials.emplace_back();
        for (const auto& [path, sha256] : of_trial) trial.push_back({path, sha256});
    }
    return trials;
}

ReadOptions read_options_of(const nb::dict& options) {
    return {rule_of(options), selection_of(options), nb::cast<input::DecompressionLimits>(options["limits"]),
            progress_of(options["progress"])};
}

// The arguments of all functions below were checked by the only caller, acapella_core.kappa.
nb::dict compare(const Files& files, const std::vector<std::pair<std::size_t, std::size_t>>& pairs,
                 const nb::dict& options) {
    Request request;
    request.files = files_of(files);
    request.pairs = pairs;
    for (const auto& [a, b] : pairs)
        if (a >= files.size() || b >= files.size()) throw nb::index_error("no such trial");
    request.options = read_options_of(options);
    request.pair = {nb::cast<std::vector<std::uint64_t>>(options["within_ns"]),
                    nb::cast<std::optional<std::uint64_t>>(options["windows"]),
                    nb::cast<std::optional<std::uint64_t>>(options["window_ns"])};
    request.memory_bytes = nb::cast<std::uint64_t>(options["memory_bytes"]);
    request.directory = nb::cast<std::string>(options["spool"]);
    const Compared compared = [&request] {
        const nb::gil_scoped_release unlocked;
        return compare_files(request);
    }();
    return result_of(request, *compared.trials, compared.report);
}

// Returns the values as an array that owns them.
template <typename Value>
nb::object array_of(std::vector<Value>&& values) {
    auto* owned = new std::vector<Value>(std::move(values));
    const nb::capsule owner(owned,
                            [](void* pointer) noexcept { delete static_cast<std::vector<Value>*>(pointer); });
    return nb::cast(nb::ndarray<nb::numpy, Value, nb::ndim<1>>(owned->data(), {owned->size()}, owner));
}

nb::dict align_trials(const std::vector<std::pair<std::string, std::uint32_t>>& recordings,
                      const Files& trials, const nb::dict& options) {
    AlignRequest request;
    for (const auto& [path, loops] : recordings) request.recordings.push_back({{path, ""}, loops});
    request.trials = files_of(trials);
    request.options = read_options_of(options);
    request.memory_bytes = nb::cast<std::uint64_t>(options["memory_bytes"]);
    request.directory = nb::cast<std::string>(options["spool"]);
    Aligned aligned = [&request] {
        const nb::gil_scoped_release unlocked;
        return align(request);
    }();
    nb::list list;
    for (AlignedTrial& trial : aligned.trials)
        list.append(nb::make_tuple(array_of(std::move(trial.keys)), array_of(std::move(trial.timestamps))));
    nb::dict result;
    result["frames"] = list_of(aligned.frames);
    result["replayed"] = aligned.replayed;
    result["trials"] = list;
    return result;
}

using Keys = nb::ndarray<const std::uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Timestamps = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

NumberedTrial numbered(const Keys& keys, const Timestamps& timestamps) {
    if (keys.size() != timestamps.size()) throw nb::value_error("the numbers of keys and timestamps differ");
    return {{keys.data(), keys.size()}, {timestamps.data(), timestamps.size()}};
}

nb::dict compare_numbered_trials(const std::pair<Keys, Timestamps>& a, const std::pair<Keys, Timestamps>& b,
                                 const nb::dict& options) {
    const NumberedTrial trial_a = numbered(a.first, a.second);
    const NumberedTrial trial_b = numbered(b.first, b.second);
    const PairRequest request{nb::cast<std::vector<std::uint64_t>>(options["within_ns"]), {}, {}};
    const auto memory_bytes = nb::cast<std::uint64_t>(options["memory_bytes"]);
    const auto directory = nb::cast<std::string>(options["spool"]);
    const PairResult result = [&] {
        const nb::gil_scoped_release unlocked;
        return compare_numbered(trial_a, trial_b, request, memory_bytes, directory);
    }();
    return pair_dict(result, 0, 1);
}

}  // namespace

void bind_kappa(nb::module_& module) {
    nb::exception<TrialError>(module, "TrialError", PyExc_ValueError);
    register_numbered<SpoolError>(nb::exception<SpoolError>(module, "SpoolError", PyExc_OSError));
    module.def("compare_trials", &compare, nb::arg("files"), nb::arg("pairs"), nb::arg("options"),
               "See acapella_core.kappa");
    module.def("align_trials", &align_trials, nb::arg("recordings"), nb::arg("trials"), nb::arg("options"),
               "See acapella_core.kappa");
    module.def("compare_numbered_trials", &compare_numbered_trials, nb::arg("a"), nb::arg("b"),
               nb::arg("options"), "See acapella_core.kappa");
}

}  // namespace acapella
