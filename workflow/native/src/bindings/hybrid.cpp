#include "bindings/hybrid.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <span>

#include "bindings/batches.hpp"
#include "bindings/digest.hpp"
#include "dissect/vendors.hpp"
#include "hybrid/hybrid_digest.hpp"
#include "hybrid/reference_digest.hpp"
#include "hybrid/tshark_columns.hpp"

namespace nb = nanobind;

namespace acapella {
namespace {

hybrid::SelectionPolicy policy_of(std::uint32_t first, std::uint32_t kinds, std::uint32_t again) {
    return {first, kinds, again};
}

// Called while waiting for tshark, so that Ctrl-C works.
void check_signals() {
    const nb::gil_scoped_acquire locked;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

// The hybrid digest for Python, which starts tshark and passes the descriptors of its pipes.
class PyHybridDigest : public PyBatches<hybrid::HybridDigest> {
  public:
    PyHybridDigest(const std::string& path, std::optional<std::string> site, std::optional<std::string> port,
                   std::size_t batch_rows, bool send_all, const hybrid::SelectionPolicy& policy,
                   int tshark_input, int tshark_output, const Vendors* vendors,
                   const input::DecompressionLimits& limits, std::uint64_t memory_bytes, double timeout_s)
        : PyBatches(path, CapturePoint{std::move(site), std::move(port)}, batch_rows,
                    hybrid::Options{send_all, policy, vendors, limits, memory_bytes,
                                    hybrid::Seconds(timeout_s), check_signals},
                    tshark_input, tshark_output) {}

    std::uint32_t flows() const { return digest_.builder().flow_table().size(); }
    std::uint64_t frames_sent() const { return digest_.frames_sent(); }
    std::string positions() const { return digest_.reader().positions(); }
    nb::dict summary() const {
        nb::dict result = summary_dict(digest_.builder(), digest_.reader());
        result["contradictions"] = digest_.contradictions();
        return result;
    }
};

// A digest created only from the output of tshark.
class PyReferenceDigest : public PyBatches<hybrid::ReferenceDigest> {
  public:
    PyReferenceDigest(int tshark_output, std::size_t batch_rows, double timeout_s)
        : PyBatches(tshark_output, batch_rows, hybrid::Seconds(timeout_s), check_signals) {}

    ArrowBatch tags() { return ArrowBatch(digest_.tags()); }
    std::uint32_t flows() const { return digest_.flows(); }
    std::uint64_t blocks_not_frames() const { return digest_.blocks_not_frames(); }
};

nb::tuple field_names(std::size_t count) {
    nb::list names;
    for (const std::string_view name : std::span(hybrid::kFieldNames).first(count))
        names.append(nb::str(name.data(), name.size()));
    return nb::tuple(names);
}

nb::tuple column_expressions() {
    nb::list columns;
    const auto add = [&](std::span<const hybrid::Field> fields) {
        const std::string text = hybrid::expression_of(fields);
        columns.append(nb::str(text.data(), text.size()));
    };
    add(hybrid::kFirstColumn);
    for (const hybrid::TsharkColumn& column : hybrid::kTsharkColumns)
        add(std::span(column.fields).first(column.count));
    return nb::tuple(columns);
}

}  // namespace

void bind_hybrid(nb::module_& module) {
    nb::exception<hybrid::TsharkInputError>(module, "TsharkInputError", PyExc_OSError);
    nb::exception<hybrid::TsharkOutputError>(module, "TsharkOutputError", PyExc_OSError);
    nb::exception<hybrid::TsharkTimeout>(module, "TsharkTimeout", PyExc_OSError);
    module.attr("TSHARK_FIELDS") = field_names(hybrid::kDigestFields);
    module.attr("TSHARK_COLUMNS") = column_expressions();
    module.attr("REFERENCE_FIELDS") = field_names(hybrid::kReferenceFields);
    module.attr("SELECTION_POLICY") = nb::make_tuple(
        hybrid::SelectionPolicy().first, hybrid::SelectionPolicy().kinds, hybrid::SelectionPolicy().again);
    nb::class_<hybrid::SelectionPolicy>(module, "SelectionPolicy",
                                        "How many frames of a flow are sent to tshark")
        .def(
            "__init__",
            [](hybrid::SelectionPolicy* self, std::uint32_t first, std::uint32_t kinds, std::uint32_t again) {
                new (self) hybrid::SelectionPolicy(policy_of(first, kinds, again));
            },
            nb::arg("first"), nb::arg("kinds"), nb::arg("again"));
    nb::class_<PyHybridDigest> digest(module, "HybridDigest",
                                      "Engines hybrid and tshark: digest of a capture");
    def_batches(digest);
    digest
        .def(nb::init<const std::string&, std::optional<std::string>, std::optional<std::string>, std::size_t,
                      bool, const hybrid::SelectionPolicy&, int, int, const Vendors*,
                      const input::DecompressionLimits&, std::uint64_t, double>(),
             nb::arg("path"), nb::arg("site").none(), nb::arg("port").none(), nb::arg("batch_rows"),
             nb::arg("send_all"), nb::arg("policy"), nb::arg("tshark_input"), nb::arg("tshark_output"),
             nb::arg("vendors") = nb::none(), nb::arg("limits") = input::DecompressionLimits(),
             nb::arg("memory_bytes") = kUnlimited, nb::arg("timeout_s") = 120.0, nb::keep_alive<1, 10>(),
             ReleasesGil())
        .def_prop_ro("frames_sent", &PyHybridDigest::frames_sent)
        .def(
            "positions",
            [](const PyHybridDigest& digest) {
                const std::string encoded = digest.positions();
                return nb::bytes(encoded.data(), encoded.size());
            },
            "The positions of the frames, encoded; call after the last frame")
        .def("summary", &PyHybridDigest::summary);
    nb::class_<PyReferenceDigest> reference(module, "ReferenceDigest",
                                            "Both tables from tshark's output alone (REFERENCE_FIELDS)");
    def_batches(reference);
    reference
        .def(nb::init<int, std::size_t, double>(), nb::arg("tshark_output"), nb::arg("batch_rows"),
             nb::arg("timeout_s"), ReleasesGil())
        .def("tags", &PyReferenceDigest::tags,
             "Columns frame, vlan, mpls, tunnels, eth_dst of the batch returned last by next_frames()")
        .def_prop_ro("blocks_not_frames", &PyReferenceDigest::blocks_not_frames);
}

}  // namespace acapella
