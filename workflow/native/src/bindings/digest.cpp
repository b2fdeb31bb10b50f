#include "bindings/digest.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "bindings/batches.hpp"
#include "bindings/file_info.hpp"
#include "digest/native_digest.hpp"
#include "digest/native_tags.hpp"
#include "dissect/vendors.hpp"
#include "frame/issue.hpp"

namespace nb = nanobind;

namespace acapella {
namespace {

template <typename By, std::size_t N>
nb::dict counts_by_source(const std::array<std::uint64_t, N>& counts) {
    nb::dict result;
    for (std::size_t i = 0; i < N; ++i) {
        const std::string_view name = text_of(static_cast<By>(i));
        result[nb::str(name.empty() ? "none" : std::string(name).c_str())] = counts[i];
    }
    return result;
}

nb::dict issues(const Summary& summary) {
    nb::dict result;
    for (std::size_t i = 1; i < summary.issues.size(); ++i)
        if (summary.issues[i] > 0)
            result[nb::str(std::string(text_of(static_cast<Issue>(i))).c_str())] = summary.issues[i];
    return result;
}

std::optional<ArrowBatch> next_tags(NativeTags& tags) { return next_batch(tags); }

// NativeDigest as a Python class.
class PyNativeDigest : public PyBatches<NativeDigest> {
  public:
    PyNativeDigest(const std::string& path, std::optional<std::string> site, std::optional<std::string> port,
                   std::size_t batch_rows, const Vendors* vendors, const input::DecompressionLimits& limits,
                   std::uint64_t memory_bytes)
        : PyBatches(path, CapturePoint{std::move(site), std::move(port)}, batch_rows, vendors, limits,
                    memory_bytes) {}

    std::uint32_t flows() const { return digest_.builder().flow_table().size(); }
    std::uint64_t frames() const { return digest_.builder().summary().frames; }
    std::string positions() const { return digest_.reader().positions(); }
    nb::dict summary() const { return summary_dict(digest_.builder(), digest_.reader()); }
};

}  // namespace

nb::dict summary_dict(const DigestBuilder& builder, const FrameReader& reader) {
    const Summary& summary = builder.summary();
    const FlowTable& flow_table = builder.flow_table();
    nb::dict result = file_dict(reader.info());
    const bool any = summary.clock.stamps() > 0;
    result["frames"] = summary.frames;
    result["implausible_times"] = summary.implausible_times;
    result["first_ns"] = any ? nb::object(nb::int_(summary.first_ns)) : nb::object(nb::none());
    result["last_ns"] = any ? nb::object(nb::int_(summary.last_ns)) : nb::object(nb::none());
    result["wire_bytes"] = summary.wire_bytes;
    result["captured_bytes"] = summary.captured_bytes;
    result["clock_resolution_ns"] =
        any ? nb::object(nb::int_(summary.clock.resolution_ns())) : nb::object(nb::none());
    result["equal_stamps"] = summary.clock.equal();
    result["time_reversals"] = summary.clock.reversals();
    result["issues"] = issues(summary);
    result["l4_by"] = counts_by_source<L4By>(summary.l4_by);
    result["app_by"] = counts_by_source<AppBy>(summary.app_by);
    result["flows"] = flow_table.size();
    result["peers_ambiguous"] = flow_table.peers_ambiguous();
    result["ranges_forgotten"] = flow_table.ranges_forgotten();
    return result;
}

void bind_digest(nb::module_& module) {
    nb::class_<Vendors>(module, "Vendors", "Vendors of MAC addresses known to tshark")
        .def(nb::init<>())
        .def(
            "add",
            [](Vendors& vendors, const nb::bytes& text) {
                vendors.add({text.c_str(), text.size()});
            },
            nb::arg("text"), "Adds the lines of a `manuf` or `wka` file")
        .def("__len__", &Vendors::size);
    nb::class_<PyNativeDigest> native(module, "NativeDigest", "Engine native: digest of a capture");
    def_batches(native);
    native
        .def(nb::init<const std::string&, std::optional<std::string>, std::optional<std::string>, std::size_t,
                      const Vendors*, const input::DecompressionLimits&, std::uint64_t>(),
             nb::arg("path"), nb::arg("site").none(), nb::arg("port").none(), nb::arg("batch_rows"),
             nb::arg("vendors") = nb::none(), nb::arg("limits") = input::DecompressionLimits(),
             nb::arg("memory_bytes") = kUnlimited, nb::keep_alive<1, 6>())
        .def_prop_ro("frames", &PyNativeDigest::frames)
        .def(
            "positions",
            [](const PyNativeDigest& digest) {
                const std::string encoded = digest.positions();
                return nb::bytes(encoded.data(), encoded.size());
            },
            "The positions of the frames, encoded; call after the last frame")
        .def("summary", &PyNativeDigest::summary);
    nb::class_<NativeTags>(module, "NativeTags", "VLAN ids and MPLS labels of every frame")
        .def(nb::init<const std::string&, std::size_t, const Vendors*, const input::DecompressionLimits&>(),
             nb::arg("path"), nb::arg("batch_rows"), nb::arg("vendors").none(),
             nb::arg("limits") = input::DecompressionLimits(), nb::keep_alive<1, 4>())
        .def("next_frames", &next_tags, "Columns frame, vlan, mpls, tunnels, eth_dst; None at the end");
}

}  // namespace acapella
