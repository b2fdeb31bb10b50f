#include "bindings/digest.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "bindings/batches.hpp"
#include "bindings/facts.hpp"
#include "bindings/file_info.hpp"
#include "digest/native_digest.hpp"
#include "digest/native_tags.hpp"
#include "dissect/vendors.hpp"

namespace nb = nanobind;

namespace acapella {
namespace {

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
    nb::dict result = file_dict(reader.info());
    put_digest_facts(builder.summary(), builder.flow_table(), PutIntoDict(result));
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
             nb::arg("memory_bytes") = kUnlimited, nb::keep_alive<1, 6>(), ReleasesGil())
        .def_prop_ro("frames", &PyNativeDigest::frames)
        .def(
            "positions",
            [](const PyNativeDigest& digest) {
                const std::string encoded = digest.positions();
                return nb::bytes(encoded.data(), encoded.size());
            },
            "The positions of the frames, encoded; call after the last frame")
        .def("summary", &PyNativeDigest::summary);
    nb::class_<NativeTags>(module, "NativeTags",
                           "VLAN ids, MPLS labels and tunnel identifiers of every frame")
        .def(nb::init<const std::string&, std::size_t, const Vendors*, const input::DecompressionLimits&>(),
             nb::arg("path"), nb::arg("batch_rows"), nb::arg("vendors").none(),
             nb::arg("limits") = input::DecompressionLimits(), nb::keep_alive<1, 4>(), ReleasesGil())
        .def("next_frames", &next_tags, "Columns frame, vlan, mpls, tunnels, eth_dst; None at the end");
}

}  // namespace acapella
